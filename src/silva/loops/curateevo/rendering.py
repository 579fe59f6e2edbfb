"""Rows of a curation as samples: each walk's kept turns as the policy that is trained would have been shown and said
them.

    row ─▶ opening (other words?) ─▶ memory, as at inference ─▶ turn by turn: prompt and reply as ids ─▶ Sample

What a raw corpus holds was said by others, and mostly in other tokens; it is written anew in the base's own template,
with loss on the turns that the row says. What the form of the policy's agent cannot hold is left out, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from silva.curate.curation.corpus import Corpus
from silva.curate.curation.curated import SftRow
from silva.curate.rows import Row
from silva.curate.turn import read_walk
from silva.models.exact import Renderer
from silva.models.model import Sampling
from silva.rollout.agent import FormError, View
from silva.rollout.react import parse
from silva.rollout.rendering import Form, Rendering
from silva.train.sample import Action, Sample
from silva.tree import Author, Message, TextPart, user

_ACTION = re.compile(r"^[ \t]*Action[ \t]*:", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """Samples in the order of the rows, and how many rows could not be written, with why the first could not."""

    samples: tuple[Sample, ...]
    left_out: int = 0
    why: str = ""


def rendered(
    rows: Iterable[SftRow], corpus: Corpus, renderer: Renderer, form: Form, memory: Callable[[SftRow], str]
) -> Rendered:
    """The samples of rows.

    Args:
        rows: of a curation of this corpus.
        corpus: that holds their walks.
        renderer: of the base.
        form: of its agent.
        memory: the text that a row is shown behind its opening; "" for none.
    """
    made: list[Sample] = []
    left_out, why = 0, ""
    for place, row in enumerate(rows):
        try:
            made += _samples(corpus.rows[row.walk], row, Rendering(renderer, form), form, memory(row), place)
        except FormError as error:
            left_out, why = left_out + 1, why or str(error)
    return Rendered(samples=tuple(made), left_out=left_out, why=why)


def _samples(walked: Row, row: SftRow, rendering: Rendering, form: Form, memory: str, place: int) -> list[Sample]:
    walk = read_walk(walked.nodes)
    messages = [node.message for node in walk.opening if node.author is not Author.MEMORY]
    messages = _asked(messages, row.words) if row.words else messages
    messages += [user(memory)] if memory else []
    turns = {turn.number: turn for turn in walk.turns}
    made: list[Sample] = []
    ids: tuple[int, ...] = ()
    actions: list[Action] = []
    lossy: list[bool] = []
    for number in row.turns:
        turn = turns[number]
        messages += [node.message for node in turn.words]
        view = View(
            messages=tuple(messages), tools=turn.tools, sampling=Sampling(), deadline=60.0, session="", images={}
        )
        written = rendering.turn(view, _action(turn.action.message, form), "curated")
        assert written.tokens is not None
        prompt = written.prompt_ids
        if prompt[: len(ids)] != ids and actions:  # the template writes earlier turns otherwise from here on
            made.append(_sample(walked, ids, actions, lossy, place, len(made)))
            actions, lossy = [], []
        ids = (*prompt, *written.tokens.ids)
        actions.append(Action(node_id=turn.action.id, start=len(prompt), stop=len(ids)))
        lossy.append(number in row.loss)
        messages += [written.message, *(node.message for node in turn.answers)]
    if actions:
        made.append(_sample(walked, ids, actions, lossy, place, len(made)))
    return [sample for sample in made if sample.mask.any()]


def _sample(
    walked: Row, ids: Sequence[int], actions: Sequence[Action], lossy: Sequence[bool], place: int, segment: int
) -> Sample:
    drawn = np.zeros(len(ids), bool)
    mask = np.zeros(len(ids), bool)
    for action, loss in zip(actions, lossy, strict=True):
        drawn[action.start : action.stop] = True
        mask[action.start : action.stop] = loss
    of = walked.trajectory
    score = of.outcome.score if of is not None else None
    return Sample(
        ids=np.array(ids, np.int32),
        mask=mask,
        drawn=drawn,
        logprobs=np.where(drawn, np.float32("nan"), np.float32(0)).astype(np.float32),
        advantages=np.zeros(len(ids), np.float32),
        weights=np.ones(len(ids), np.float32),
        actions=tuple(actions),
        run_id=of.run_id if of is not None else walked.source,
        task_id=of.task_id if of is not None else walked.id,
        trajectory_id=walked.id,
        env=of.env if of is not None else "",
        index=place,  # a walk may stand in several rows, and rows are told apart by it
        segment=segment,
        reward=float("nan") if score is None else score,
    )


def _asked(messages: Sequence[Message], words: str) -> list[Message]:
    """The opening with other words in the place of what was asked last."""
    last = max((at for at, each in enumerate(messages) if each.role == "user"), default=None)
    return [
        msgspec.structs.replace(each, parts=(TextPart(text=words),)) if at == last and each.text != words else each
        for at, each in enumerate(messages)
    ]


def _action(message: Message, form: Form) -> Message:
    """An action as it was meant: what a text agent wrote of its call is not said beside the call once more."""
    if form != "react" or not message.tool_calls:
        return message
    found = _ACTION.search(message.text)
    if found is None or not parse(msgspec.structs.replace(message, tool_calls=()), 0).tool_calls:
        return message
    before = message.text[: found.start()].rstrip()
    return msgspec.structs.replace(message, parts=(TextPart(text=before),) if before else ())
