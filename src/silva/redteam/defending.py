"""The stage that defends: defences, in the order in which they are named, between what comes back and the model.

    observation (as an attack left it) ─ show ─▶ … ─▶ as the model is shown it
    action ─ refuse ─▶ the first that objects answers it, in its name ; nobody: taken

It stands behind the attack in `stages`, so it sees what the attacker wrote. The attacker's node stays the attacker's,
whatever a defence made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from silva.envs import Observation
from silva.errors import UsageError
from silva.models.errors import ModelError
from silva.redteam.defences import Guarded
from silva.redteam.defences.table import defence
from silva.redteam.proposing import tasked
from silva.rollout.agent import Turn
from silva.rollout.ending import Ended
from silva.rollout.stages import Live, Refusal, Stage
from silva.tree import Author, Boundary, Failure, Message, digest

NAME = "defend"


class Defending(Stage):
    """Defences of one episode.

    Args:
        defences: their names (`silva redteam list`), in their order.
        options: by name, what each is made with.

    Raises:
        UsageError: one is not known.
        ValueError: an option cannot be, or none is named.
    """

    name: ClassVar[str] = NAME
    author: ClassVar[Author] = Author.VERIFIER

    def __init__(self, defences: Sequence[str] | str, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        names = [defences] if isinstance(defences, str) else list(defences)
        if not names:
            raise ValueError("defences: name at least one")
        unknown = sorted(set(options or {}) - set(names))
        if unknown:
            raise UsageError(f"defend: options for {unknown[0]}, which is not among its defences")
        self._defences = [defence(each, (options or {}).get(each, {})) for each in names]

    @property
    def calls(self) -> bool:
        """See `Stage`."""
        return True

    async def on_observation(self, live: Live, observation: Observation) -> Observation:
        """See `Stage`."""
        guarded = self._guarded(live, observation if live.path.turns == 0 else None)
        for each in self._defences:
            observation = await _judged(each.show(observation, guarded))
        return observation

    async def on_action(self, live: Live, turn: Turn) -> Turn | Refusal:
        """See `Stage`."""
        guarded = self._guarded(live, None)
        for each in self._defences:
            why = await _judged(each.refuse(turn.message, guarded))
            if why:
                return Refusal(each.name, why, self.author)
        return turn

    def attributes(self) -> dict[str, Any]:
        """See `Stage`."""
        return {self.name: {"defences": [each.name for each in self._defences]}}

    def _guarded(self, live: Live, opening: Observation | None) -> Guarded:
        messages: Sequence[Message] = opening.messages if opening else [node.message for node in live.path.walk]
        tools = opening.tools or () if opening else live.path.tools
        token = digest("defend", str(live.config.seed), live.slot.task.id, str(live.slot.index))[:8]
        return Guarded(tasked(messages) or live.slot.task.instruction, tools, token, opening is not None)


async def _judged(asked: Any) -> Any:
    """What a defence says; one that cannot say ends the episode as its own failure, and nothing is called safe."""
    try:
        return await asked
    except (ModelError, ValueError) as error:
        failure = Failure(boundary=Boundary.INFRASTRUCTURE, code="stage.defend", message=f"defence: {error}")
        raise Ended(failure) from error
