"""One new path: an episode that begins at a point of a tree instead of at its task's beginning.

    Restorer ─▶ environment at the point │ walk ─▶ path ─▶ (person's message) ─▶ (given action) ─▶ agent, as always

The walk's turns are counted for the episode's limits and its record; of tokens, time and money only new ones are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from silva.envs import EnvError, Observation
from silva.errors import SilvaError, UsageError
from silva.lake import Lake
from silva.rollout.agent import Turn
from silva.rollout.branching.shoots import KEY, Shoot
from silva.rollout.config import RolloutConfig
from silva.rollout.ending import Ended, Stopped
from silva.rollout.episode import Episode
from silva.rollout.live import Live
from silva.rollout.path import Path
from silva.rollout.slots import Slot
from silva.rollout.snapshots.restore import BranchDiverged, Restored, Restorer
from silva.rollout.summary import made_at
from silva.tree import Boundary, Failure, ImagePart, Message, Node, Outcome, user


class TurnsLeft:
    """New turns that the branches of a run may still take together (None: no limit)."""

    def __init__(self, limit: int | None, taken: int = 0) -> None:
        self.limit = limit
        self.taken = taken

    @property
    def spent(self) -> bool:
        """Whether none is left."""
        return self.limit is not None and self.taken >= self.limit


class BranchEpisode(Episode):
    """Grows one shoot. `summaries`: those of its tree."""

    def __init__(
        self,
        config: RolloutConfig,
        slot: Slot,
        path: Path,
        overdrawn: Callable[[], Failure | None],
        shoot: Shoot,
        restorer: Restorer,
        summaries: Sequence[Node],
        lake: Lake,
        turns_left: TurnsLeft,
    ) -> None:
        super().__init__(config, slot, path, overdrawn)
        self._shoot = shoot
        self._restorer = restorer
        self._summaries = summaries
        self._lake = lake
        self._turns_left = turns_left
        self._given = shoot.action
        self._restored: Restored | None = None
        self._cut = False

    async def _begin(self, live: Live) -> tuple[Live, Observation]:
        point = self._restorer.point
        self._recall(live, lambda: self._path.take_up(point.walk))
        self._path.summaries.update(self._along(point.walk))
        await self._load_images(live)
        try:
            self._restored = restored = await self._restorer.bring(live.env)
        except (BranchDiverged, UsageError) as error:
            code = "branch.diverged" if isinstance(error, BranchDiverged) else "branch.over"
            raise Ended(Failure(boundary=Boundary.ENVIRONMENT, code=code, message=str(error))) from error
        if point.turns >= live.limit:
            text = f"the walk has {point.turns} turns of at most {live.limit}: raise budget.turns, or branch further up"
            raise Ended(Failure(boundary=Boundary.BUDGET, code="budget.turns", message=text))
        if restored.answer is not None:
            await self._see(restored.answer, restored.seconds)
        if self._shoot.message:
            self._path.interject(user(self._shoot.message))
        return live, Observation()

    async def _action(self, live: Live) -> Message:
        path = self._path
        if path.turns >= live.limit:
            raise Stopped
        own = self._shoot.turns
        if own is not None and path.turns - self._restorer.point.turns >= own:
            self._cut = True
            raise Stopped
        if path.remembered is None and self._turns_left.spent:
            self._cut = True
            raise Stopped
        self._turns_left.taken += 1
        given, self._given = self._given, None
        if given is None or path.remembered is not None:
            return await super()._action(live)
        path.act(Turn(message=given, finish_reason="stop", attributes={KEY: "given"}), time.time())
        return given

    def _along(self, walk: Sequence[Node]) -> dict[str, Node]:
        """The summaries made along the walk, which the agent saw in its place."""
        on_walk = {node.id for node in walk}
        made = made_at(self._summaries)
        return {at: node for at, node in made.items() if at in on_walk and node.parent_id in on_walk}

    async def _load_images(self, live: Live) -> None:
        hashes = {
            part.hash
            for node in self._restorer.point.walk
            for part in node.message.parts
            if isinstance(part, ImagePart)
        }
        for name in hashes:
            try:
                live.images[name] = await asyncio.to_thread(self._lake.get_blob, name)
            except SilvaError as error:
                raise EnvError("env.snapshot", f"an image of the walk cannot be had: {error}") from error

    def _attributes(self, outcome: Outcome) -> dict[str, Any]:
        shoot, point, restored = self._shoot, self._restorer.point, self._restored
        facts: dict[str, Any] = {
            "node": shoot.node_id,
            "turn": point.turns,
            "turns": max(0, self._path.turns - point.turns),
        }
        if shoot.instead_of:
            facts["instead_of"] = shoot.instead_of
        if shoot.reasons:
            facts["reasons"] = list(shoot.reasons)
        if self._cut:
            facts["cut"] = True
        if restored is not None:
            facts["restored"] = {
                "by": str(restored),
                "snapshot": restored.snapshot,
                "fidelity": restored.fidelity,
                "replayed": restored.replayed,
                "seconds": restored.seconds,
                "passed_over": list(restored.passed_over),
            }
            if restored.divergence is not None:
                facts["divergence"] = msgspec.to_builtins(restored.divergence)
        return {KEY: facts, **super()._attributes(outcome)}
