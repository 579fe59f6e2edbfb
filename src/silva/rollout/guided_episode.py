"""The episode that goes on from an earlier turn, because a person went back to it.

    start ─▶ walk taken up ─▶ environment brought there (snapshot, else replay) ─▶ words ─▶ the person's action, or
    the policy's own ─▶ agent, as always

Its record counts the turns of the walk; of tokens, time and money only new ones are counted, for the attempt that was
left has the others. The policy draws with other seeds than the attempt that was left, so it chooses anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from silva.envs import EnvError, Observation
from silva.errors import SilvaError, UsageError
from silva.rollout.config import RolloutConfig
from silva.rollout.ending import Ended, Stopped
from silva.rollout.episode import Episode
from silva.rollout.guided import Guidance
from silva.rollout.guided_return import Start
from silva.rollout.live import Live
from silva.rollout.path import Path
from silva.rollout.slots import Slot
from silva.rollout.snapshots.point import Point
from silva.rollout.snapshots.restore import Restored, restore
from silva.rollout.summary import made_at
from silva.tree import Boundary, Failure, ImagePart, Message, Outcome, digest

RETURNED = "returned"
"""The attribute of a trajectory that began where a person went back to."""


class ReturnedEpisode(Episode):
    """Grows the attempt that follows one that was left."""

    def __init__(
        self,
        config: RolloutConfig,
        slot: Slot,
        path: Path,
        overdrawn: Callable[[], Failure | None],
        guidance: Guidance | None,
        start: Start,
    ) -> None:
        super().__init__(config, slot, path, overdrawn, guidance, frozenset({*start.back.heard, start.back.word}))
        self._start = start
        self._given = start.back.action
        self._restored: Restored | None = None
        self._left = start.times
        self._live.sampling_seed = int(digest(str(self._live.sampling_seed), start.back.word)[:8], 16)

    async def _begin(self, live: Live) -> tuple[Live, Observation]:
        start, path, blobs = self._start, self._path, live.blobs
        self._recall(live, lambda: path.take_up(start.walk))
        path.summaries.update(made_at(start.summaries))
        await self._load_images(live)
        point = Point(env=self._slot.env, task=self._slot.task, seed=self._slot.seed, walk=start.walk)
        try:
            self._restored = restored = await restore(live.env, point, blobs)
        except UsageError as error:
            raise _cannot(start, "guide.over", str(error)) from error
        if restored.divergence is not None:
            what = " ".join(f"stored {restored.divergence.stored!r}, now {restored.divergence.seen!r}".split())[:400]
            raise _cannot(start, "guide.diverged", f"the environment does not repeat itself ({what})")
        if restored.answer is not None:
            await self._see(restored.answer, restored.seconds)
        if self._guided is not None:
            self._guided.begin_again(start.back)
        return live, Observation()

    async def _action(self, live: Live) -> Message:
        given, self._given = self._given, None
        if given is None or self._guided is None or live.path.turns >= live.limit:
            return await super()._action(live)
        self._recall(live, live.path.recall)
        if live.path.remembered is not None:
            return await super()._action(live)
        await self._guided.attend(live.put_off)
        if self._guided.stopped is not None:
            raise Stopped
        taken = self._guided.take_for(self._start.back, live.written(given), self._start.back.instead_of)
        return taken.message

    async def _load_images(self, live: Live) -> None:
        hashes = {part.hash for node in self._start.walk for part in node.message.parts if isinstance(part, ImagePart)}
        for name in hashes:
            try:
                live.images[name] = await asyncio.to_thread(live.blobs.get_blob, name)
            except SilvaError as error:
                raise EnvError("env.snapshot", f"an image of the walk cannot be had: {error}") from error

    def _attributes(self, outcome: Outcome) -> dict[str, Any]:
        back, restored = self._start.back, self._restored
        facts: dict[str, Any] = {"turn": back.turn, "node": back.node, "instead_of": back.instead_of, "by": back.by}
        if restored is not None:
            facts["restored"] = {"by": str(restored), "replayed": restored.replayed, "seconds": restored.seconds}
            if restored.passed_over:
                facts["restored"]["passed_over"] = list(restored.passed_over)
            if restored.divergence is not None:
                facts["divergence"] = msgspec.to_builtins(restored.divergence)
        return {**super()._attributes(outcome), RETURNED: facts}


def _cannot(start: Start, code: str, why: str) -> Ended:
    back = start.back
    return Ended(
        Failure(
            boundary=Boundary.ENVIRONMENT,
            code=code,
            message=f"{back.by} went back to turn {back.turn}, and it cannot be reached: {why}; "
            f"keep snapshots (snapshots.every) where an environment does not repeat itself",
        )
    )
