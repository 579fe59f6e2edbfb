"""Stages in their order, called at each moment of a turn: the loop's side of the protocol.

Only the stages that override a moment are called at it. A fault of a stage that somebody plugged in ends the episode as
a failure that names the stage; other episodes go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import cache
from typing import Any, TypeVar

from silva.envs import Evaluation, Observation
from silva.errors import SilvaError
from silva.rollout.agent import Turn
from silva.rollout.ending import Ended, Stopped
from silva.rollout.guided_return import WentBack
from silva.rollout.live import Live, Refusal
from silva.rollout.shown import Shown, Writer
from silva.rollout.stages.stage import Stage
from silva.tree import Author, Boundary, Failure, Node

MOMENTS = (
    "before_turn",
    "on_action",
    "settle",
    "on_observation",
    "after_turn",
    "at_end",
    "on_evaluation",
    "recall",
    "attributes",
)

NONE: dict[str, Sequence[Stage]] = dict.fromkeys(MOMENTS, ())
"""The stages of an episode without any, by moment; most are."""

_T = TypeVar("_T")


class Pipeline:
    """The stages of one episode."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._at: dict[str, Sequence[Stage]] = NONE
        if stages:
            self._at = {moment: [s for s in stages if moment in _moments(type(s))] for moment in MOMENTS}

    async def before_turn(self, live: Live) -> None:
        """See `Stage`."""
        for stage in self._at["before_turn"]:
            await _of(stage, stage.before_turn(live))

    async def on_action(self, live: Live, turn: Turn) -> Turn | Refusal:
        """What becomes of the agent's turn: after a refusal no further stage sees it."""
        for stage in self._at["on_action"]:
            said = await _of(stage, stage.on_action(live, turn))
            if isinstance(said, Refusal):
                return said
            turn = said
        return turn

    async def settle(self, live: Live, action: Node) -> Node | None:
        """The node whose action is taken; None where none is."""
        settled: Node | None = action
        for stage in self._at["settle"]:
            settled = await _of(stage, stage.settle(live, settled))
            if settled is None:
                return None
        return settled

    async def on_observation(self, live: Live, observation: Observation) -> Shown:
        """What the agent is shown, and who wrote which part of it.

        Raises:
            Ended: a stage took a message away.
        """
        shown = observation
        writers: dict[int, Writer] = {}
        for stage in self._at["on_observation"]:
            before, shown = shown, await _of(stage, stage.on_observation(live, shown))
            if len(shown.messages) < len(before.messages):
                raise Ended(_fault(stage, "took a message away: rewrite it"))
            for place, message in enumerate(shown.messages):
                same = place < len(before.messages) and before.messages[place] == message
                attacked = place in writers and writers[place].author is Author.ATTACKER
                if not attacked and (not same or (place == 0 and shown.tools != before.tools)):
                    writers[place] = Writer(stage.author, stage.name)
        return Shown(shown, observation, writers)

    async def after_turn(self, live: Live, observation: Observation) -> None:
        """See `Stage`."""
        for stage in self._at["after_turn"]:
            await _of(stage, stage.after_turn(live, observation))

    async def at_end(self, live: Live) -> None:
        """See `Stage`."""
        for stage in self._at["at_end"]:
            await _of(stage, stage.at_end(live))

    async def on_evaluation(self, live: Live, evaluation: Evaluation) -> Evaluation:
        """The verdict, with what the stages found."""
        for stage in self._at["on_evaluation"]:
            evaluation = await _of(stage, stage.on_evaluation(live, evaluation))
        return evaluation

    def recall(self, live: Live, nodes: Sequence[Node]) -> None:
        """See `Stage`."""
        if nodes:
            for stage in self._at["recall"]:
                stage.recall(live, nodes)

    def attributes(self) -> dict[str, Any]:
        """What the stages have the trajectory's record say."""
        said: dict[str, Any] = {}
        for stage in self._at["attributes"]:
            said |= stage.attributes()
        return said


@cache
def _moments(kind: type[Stage]) -> tuple[str, ...]:
    """The moments at which stages of this class do something."""
    return tuple(moment for moment in MOMENTS if getattr(kind, moment) is not getattr(Stage, moment))


async def _of(stage: Stage, doing: Awaitable[_T]) -> _T:
    """What a stage does. What it raises beside the errors of the house is its own fault, and told as that."""
    try:
        return await doing
    except (SilvaError, Ended, Stopped, WentBack):
        raise
    except Exception as error:
        raise Ended(_fault(stage, f"raised {type(error).__name__}: {error}")) from error


def _fault(stage: Stage, what: str) -> Failure:
    name = stage.name or type(stage).__name__
    return Failure(boundary=Boundary.INFRASTRUCTURE, code=f"stage.{name}", message=f"stage {name} {what}")
