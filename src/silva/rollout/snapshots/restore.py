"""Bringing an environment to a point: the nearest snapshot at or above it, then the actions after that.

    point ─▶ snapshots of its walk, nearest first ─▶ taken up? ─▶ actions behind it ─▶ same answers? ─▶ Restored
                              └ gone, damaged, other versions: said, and the next; after the last, a reset

Branches of one point share what was reached: the first to arrive is kept in memory where the state can be kept exactly,
and the others take that up. Where it cannot, each gets there by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter
from typing import Any

import msgspec

from silva.envs import EnvError, Observation
from silva.envs.state import EXACT, REPLAY
from silva.envs.wire import Captured
from silva.errors import Exit, SilvaError, UsageError
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.replay import Divergence, Replayed, replay, retake
from silva.rollout.snapshots.point import Point
from silva.rollout.snapshots.snapshot import snapshot_of
from silva.rollout.snapshots.store import ReadsBlobs, find
from silva.tree import Record


class Restored(Record, frozen=True, kw_only=True):
    """How an environment was brought to a point. `snapshot`: the one taken up ("" for a reset), with its `fidelity`;
    `replayed`: the actions taken again after it; `passed_over`: snapshots that could not be used, and why;
    `divergence`: the first answer that was not the stored one; `answer`: what the environment said to the last action
    where that was never stored."""

    snapshot: str = ""
    fidelity: str = REPLAY
    replayed: int = 0
    seconds: float = 0.0
    passed_over: tuple[str, ...] = ()
    divergence: Divergence | None = None
    answer: Observation | None = None

    def __str__(self) -> str:
        again = f"{self.replayed} action{'' if self.replayed == 1 else 's'} taken again"
        if not self.snapshot:
            return f"reset, {again}"
        return f"snapshot {self.snapshot[:12]} ({self.fidelity})" + (f", {again}" if self.replayed else "")


class BranchDiverged(SilvaError):
    """The environment did not get to the point the way it did before."""

    code = Exit.FAULT

    def __init__(self, point: Point, divergence: Divergence) -> None:
        stored, seen = (" ".join(text.split())[:160] for text in (divergence.stored, divergence.seen))
        super().__init__(
            f"node {point.node.id[:12]}: the environment does not repeat itself on the way there ({divergence}; stored "
            f"{stored!r}, now {seen!r}); branch further up, or go on all the same with --accept-divergence"
        )
        self.divergence = divergence


async def restore(env: Any, point: Point, blobs: ReadsBlobs) -> Restored:
    """Bring a live environment to a point.

    Raises:
        EnvError: the environment or its host failed.
        UsageError: the episode is over at that point.
    """
    began = perf_counter()
    passed_over: list[str] = []
    walk = point.walk
    for place in reversed(range(len(walk))):
        snapshot = snapshot_of(walk[place])
        if snapshot is None:
            continue
        try:
            await env.restore(await find(snapshot, blobs))
        except EnvError as error:
            if error.kind != "env.snapshot":
                raise
            passed_over.append(str(error))
            continue
        again = await retake(env, walk, place + 1)
        return _restored(point, again, began, passed_over, snapshot.id, snapshot.fidelity)
    return _restored(point, await replay(env, point.task, point.seed, walk), began, passed_over)


def _restored(
    point: Point, again: Replayed, began: float, passed_over: list[str], snapshot: str = "", fidelity: str = REPLAY
) -> Restored:
    last = again.observations[-1] if again.observations else Observation()
    if again.divergence is None and (last.done or last.truncated):
        raise UsageError(
            f"node {point.node.id[:12]}: the episode is over there; branch further up, or take another action instead "
            f"of its last (--instead)"
        )
    return Restored(
        snapshot=snapshot,
        fidelity=fidelity,
        replayed=len(again.observations) - (not snapshot),
        seconds=perf_counter() - began,
        passed_over=tuple(passed_over),
        divergence=again.divergence,
        answer=last if takes_turn(point.node) else None,
    )


class Restorer:
    """Brings the environments of all branches of one point there.

    Args:
        point: where to.
        blobs: where snapshots are read.
        accept: whether to go on where the environment did not repeat itself.
    """

    def __init__(self, point: Point, blobs: ReadsBlobs, *, accept: bool = False) -> None:
        self.point = point
        self.first: Restored | None = None
        self._blobs = blobs
        self._accept = accept
        self._lock = asyncio.Lock()
        self._captured: Captured | None = None
        self._ready: tuple[Any, AbstractAsyncContextManager[Any]] | None = None
        self._there: Any = None

    async def prepare(self, lease: AbstractAsyncContextManager[Any]) -> Restored:
        """Bring the first environment there, before anything is written; `lease` hands it to the first branch.

        Raises:
            BranchDiverged: it did not repeat itself, and that is not accepted.
            EnvError, UsageError: as `restore`.
        """
        env = await lease.__aenter__()
        try:
            restored = await self.bring(env)
        except BaseException:
            await lease.__aexit__(None, None, None)
            raise
        self._ready, self._there = (env, lease), env
        return restored

    @asynccontextmanager
    async def lease(self, lease: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """An environment for one branch: the prepared one, or one that `lease` gives."""
        ready, self._ready = self._ready, None
        if ready is None:
            async with lease as env:
                yield env
            return
        env, held = ready
        try:
            yield env
        finally:
            await held.__aexit__(None, None, None)

    async def bring(self, env: Any) -> Restored:
        """Bring an environment to the point, if it is not there.

        Raises:
            BranchDiverged, EnvError, UsageError: as `prepare`.
        """
        if self.first is not None and self._there is env:
            self._there = None  # from here on it moves
            return self.first
        async with self._lock:
            if self.first is None:
                restored = await self._restored(env)
                self._captured = await self._capture(env)
                self.first = restored
                return restored
        if self._captured is not None:
            began = perf_counter()
            await env.restore(self._captured)
            return msgspec.structs.replace(self.first, replayed=0, fidelity=EXACT, seconds=perf_counter() - began)
        return await self._restored(env)

    async def close(self) -> None:
        """Give the prepared environment back if no branch took it."""
        if self._ready is not None:
            ready, self._ready = self._ready, None
            await ready[1].__aexit__(None, None, None)

    async def _restored(self, env: Any) -> Restored:
        restored = await restore(env, self.point, self._blobs)
        if restored.divergence is not None and not self._accept:
            raise BranchDiverged(self.point, restored.divergence)
        return restored

    async def _capture(self, env: Any) -> Captured | None:
        if env.capabilities.snapshot not in ("deepcopy", "fork"):
            return None
        try:
            return await env.snapshot()
        except EnvError as error:
            if error.kind != "env.snapshot":
                raise
            return None
