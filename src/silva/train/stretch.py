"""A stretch: what the model saw without a break along a walk, grown node by node.

    node's delta ─▶ appended to the stretch ─▶ … ─▶ a node that holds the whole context again ─▶ the next stretch,
                                                                                                `before` is this one

A break is where a template rewrote earlier turns, or a summary took the place of what was said: the node says
`restart` (silva.tree.exact). What was drawn before it stands in the earlier stretch, and once more in the later one,
where it is context: it was drawn once and carries loss once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from silva.rollout.guided_nodes import UNWRITTEN, takes_turn
from silva.train.sample import Action, Flags, Floats, Ids, Image, SampleError
from silva.tree import Author, ImagePart, InexactTokensError, Node, Tokens
from silva.tree.exact import COMPLETION, NO_PROMPT, RESTART, lacking

_SLACK = 1e-3
"""Above zero a log-probability may lie by rounding, no further; the bound the exact backends use too."""
_LARGEST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How walks are read.

    Args:
        logprobs: `required` refuses a drawn turn without log-probabilities; `optional` leaves NaN in their place.
        masked: ids of nodes that carry no loss (`silva.tree.masked_nodes`).
        models: the models whose turns are the policy's; None for all. What others drew is context.
        image_id: the id of an image's placeholder. An image's position is then its placeholder's; without, it is the
            first id of the turn's delta that shows it.
        reward: a sample's reward: the environment's final `score`, or the `return`, which sums its step rewards.
        takeovers: actions that a person took in the policy's place carry loss as the policy's do. They must have ids
            (a rollout's `guidance.renderer`); False leaves them context.
        once: a drawn id that several samples hold carries loss in one of them: one of its `trajectory`, or of all that
            this reader reads (`tree`).
    """

    logprobs: Literal["required", "optional"] = "required"
    masked: frozenset[str] = frozenset()
    models: frozenset[str] | None = None
    image_id: int | None = None
    reward: Literal["score", "return"] = "score"
    takeovers: bool = False
    once: Literal["trajectory", "tree"] = "trajectory"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Stretch:
    """Arrays have shape (n,) and mean what they mean in a Sample. `messages` counts the walk's messages up to its end.

    `waiting` are images shown since the last ids, `shown` all of the walk; `said` whether a message stands behind the
    last ids, which the next turn's delta must hold.
    """

    ids: Ids
    drawn: Flags
    mask: Flags
    logprobs: Floats
    actions: tuple[Action, ...] = ()
    images: tuple[Image, ...] = ()
    versions: tuple[str, ...] = ()
    messages: int = 0
    before: Stretch | None = None
    waiting: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    said: bool = True

    def all(self) -> list[Stretch]:
        """This stretch and those before it, the oldest first."""
        found: list[Stretch] = []
        stretch: Stretch | None = self
        while stretch is not None:
            found.append(stretch)
            stretch = stretch.before
        return found[::-1]


EMPTY = Stretch(
    ids=np.zeros(0, np.int32), drawn=np.zeros(0, bool), mask=np.zeros(0, bool), logprobs=np.zeros(0, np.float32)
)


def grow(start: Stretch, nodes: Iterable[Node], reading: Reading) -> Stretch:
    """The stretch at the last of `nodes`, which follow in order on the walk that `start` stands for.

    Raises:
        InexactTokensError: a turn of the policy has no ids, or not those before it, or no log-probabilities.
        SampleError: a log-probability is not finite or above zero, an id is no id, images and placeholders differ.
    """
    growing = _Growing(start, reading)
    for node in nodes:
        growing.add(node)
    return growing.done()


class _Growing:
    """A stretch in the making: lists until `done`, so that one node costs as much as it adds."""

    def __init__(self, start: Stretch, reading: Reading) -> None:
        self._reading = reading
        self._messages, self._shown = start.messages, list(start.shown)
        self._waiting, self._said = list(start.waiting), start.said
        self._begin(start)

    def _begin(self, start: Stretch) -> None:
        self._start = start
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._actions: list[Action] = []
        self._images: list[Image] = []

    def add(self, node: Node) -> None:
        """Take the next node of the walk."""
        tokens = node.tokens
        if tokens is None:
            if node.author is Author.POLICY:
                raise InexactTokensError(f"{named(node)} has {lacking(node)}")
            if self._reading.takeovers and takes_turn(node):
                raise InexactTokensError(
                    f"{named(node)} is a person's and has no token ids: "
                    f"{node.attributes.get(UNWRITTEN) or 'its run named no guidance.renderer'}"
                )
        elif tokens.ids:
            self._join(node, tokens)
        self._messages += 1
        if tokens is None:
            self._said = True
        pictures = [part.hash for part in node.message.parts if isinstance(part, ImagePart)]
        if pictures:
            self._shown += pictures
            self._waiting += pictures

    def _join(self, node: Node, tokens: Tokens) -> None:
        kind = node.attributes.get("tokens")
        if kind == RESTART:
            ended = self.done()
            self._waiting, self._said = list(self._shown), True
            self._begin(_after(ended))
        glue = len(tokens.ids) - tokens.sampled
        policy = node.author is Author.POLICY
        # What was said since must stand in the delta: a turn that holds only what it drew does not say what it saw.
        if policy and (kind == COMPLETION or (self._said and not glue)):
            raise InexactTokensError(f"{named(node)} has {NO_PROMPT}")
        begin = len(self._start.ids) + len(self._ids)
        if self._waiting:
            self._place(node, tokens.ids[:glue] if policy else tokens.ids, begin)
        self._ids.extend(tokens.ids)
        self._said = False
        drawn = tokens.sampled if self._learnt(node) else 0
        self._logprobs.extend([0.0] * (len(tokens.ids) - drawn))
        if drawn:
            self._logprobs.extend(self._drawn(node, tokens))
            stop = begin + len(tokens.ids)
            self._actions.append(Action(node_id=node.id, start=stop - drawn, stop=stop, version=node.policy_version))

    def _learnt(self, node: Node) -> bool:
        if node.author is Author.POLICY:
            return self._reading.models is None or node.model in self._reading.models
        return self._reading.takeovers and takes_turn(node)

    def _drawn(self, node: Node, tokens: Tokens) -> tuple[float, ...]:
        values = tokens.logprobs
        if not values:
            if self._reading.logprobs == "required":
                if node.author is Author.PERSON:
                    raise InexactTokensError(
                        f"{named(node)} is a person's and has no log-probabilities: it can be imitated, not weighed"
                    )
                raise InexactTokensError(
                    f"{named(node)} has no log-probabilities: its backend returned none; roll out with "
                    "sampling.logprobs=true, or read with optional ones to imitate"
                )
            return (math.nan,) * tokens.sampled
        if not math.isfinite(sum(values)) or max(values) > _SLACK:
            worst = next((value for value in values if not math.isfinite(value)), max(values))
            raise SampleError(f"{named(node)} has a log-probability of {worst:g}; leave its trajectory out")
        return values

    def _place(self, node: Node, ids: tuple[int, ...], begin: int) -> None:
        hashes, self._waiting = self._waiting, []
        if self._reading.image_id is None:
            self._images += [Image(hash=each, position=begin) for each in hashes]
            return
        marks = [place for place, number in enumerate(ids) if number == self._reading.image_id]
        starts = [place for place in marks if place == 0 or ids[place - 1] != self._reading.image_id]
        # One placeholder may stand for an image, or a row of them, one a patch.
        found = next((places for places in (starts, marks) if len(places) == len(hashes)), None)
        if found is None:
            raise SampleError(
                f"{named(node)} shows {len(hashes)} images and has {len(starts)} placeholders of id "
                f"{self._reading.image_id}; give the placeholder's id of this model"
            )
        self._images += [Image(hash=each, position=begin + at) for each, at in zip(hashes, found, strict=True)]

    def done(self) -> Stretch:
        """The stretch so far."""
        start, actions = self._start, self._actions
        try:
            ids = np.array(self._ids, np.int64)
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) <= _LARGEST:
                raise OverflowError
        except OverflowError:
            where = f"behind position {len(start.ids)}"
            raise SampleError(
                f"token ids {where} hold a number outside 0 to {_LARGEST}; leave the trajectory out"
            ) from None
        drawn, mask, first = np.zeros(len(ids), bool), np.zeros(len(ids), bool), len(start.ids)
        for action in actions:
            drawn[action.start - first : action.stop - first] = True
            if action.node_id not in self._reading.masked:
                mask[action.start - first : action.stop - first] = True
        versions = dict.fromkeys(action.version for action in actions if action.version)
        return Stretch(
            ids=np.concatenate((start.ids, ids.astype(np.int32))),
            drawn=np.concatenate((start.drawn, drawn)),
            mask=np.concatenate((start.mask, mask)),
            logprobs=np.concatenate((start.logprobs, np.array(self._logprobs, np.float32))),
            actions=start.actions + tuple(actions),
            images=start.images + tuple(self._images),
            versions=tuple(dict.fromkeys((*start.versions, *versions))),
            messages=self._messages,
            before=start.before,
            waiting=tuple(self._waiting),
            shown=tuple(self._shown),
            said=self._said,
        )


def _after(ended: Stretch) -> Stretch:
    return Stretch(
        ids=EMPTY.ids,
        drawn=EMPTY.drawn,
        mask=EMPTY.mask,
        logprobs=EMPTY.logprobs,
        before=ended if len(ended.ids) else ended.before,
    )


def named(node: Node) -> str:
    """What a message calls a node."""
    return f"node {node.id[:12]} (turn at depth {node.depth}, model {node.model or 'unknown'})"
