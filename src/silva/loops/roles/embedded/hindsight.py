"""Hindsight: every goal that a walk happened to bring about is a candidate, its loops cut out by the state's digest."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydantic import Field

from silva.envs.handle import EnvironmentHandle
from silva.lake import Lake
from silva.loops.roles.abstracter import actions_of
from silva.loops.roles.asking import shared
from silva.loops.roles.candidate import Candidate, Source
from silva.loops.roles.exploring import Walk
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import Acted, plus
from silva.rollout.section import Section
from silva.tree import Node


class HindsightOptions(Section):
    """`whole`: also goals that held before the exploration's own first turn; `least`: actions a solution has at least
    once its loops are cut; `each`: candidates of one walk, those reached last first (None: all)."""

    whole: bool = False
    least: int = Field(default=2, ge=1)
    each: int | None = Field(default=None, ge=1)


class Hindsight(Implementation):
    """Goals by the environment's own checker (Andrychowicz et al., Hindsight Experience Replay, 2017), as tasks."""

    role, name, summary = "abstracter", "hindsight", "goals that walks brought about, their loops cut out"
    Options = HindsightOptions

    async def abstract(self, env: EnvironmentHandle, lake: Lake, walks: Sequence[Walk]) -> list[Candidate]:
        found: list[Candidate] = []
        for walk, nodes in zip(walks, lake.walks(each.trajectory for each in walks), strict=True):
            found += await self._of(env, walk, nodes)
        return found

    async def _of(self, env: EnvironmentHandle, walk: Walk, walked: Sequence[Node]) -> list[Candidate]:
        said: HindsightOptions = self.options
        began = time.monotonic()
        actions, nodes = actions_of(walked)
        if not actions:
            return []
        reached = await env.achieved(walk.task, actions)
        deed = Acted(role="abstracter", by=self.name, seconds=time.monotonic() - began)
        self.spent = plus(self.spent, deed)
        since = 0 if said.whole else walk.before
        chosen = [each for each in reached if each.turn > since and len(each.kept) >= said.least]
        chosen = sorted(chosen, key=lambda each: -each.turn)[: said.each]
        if not chosen:
            return []
        # One look back found them all, so each bears its share of what it took.
        shares = shared(deed, len(chosen))
        return [
            Candidate(
                place=walk.task,
                goal=each.goal,
                solution=tuple(actions[number] for number in each.kept),
                source=source_of(walk, nodes[each.turn - 1]),
                acted=(share,),
            )
            for each, share in zip(sorted(chosen, key=lambda each: each.turn), shares, strict=True)
        ]


def source_of(walk: Walk, node: str) -> Source:
    """Where what a walk reached at a node comes from."""
    context = walk.context
    return Source(
        trajectory=walk.trajectory.id,
        node=node,
        explored=walk.trajectory.run_id,
        signal=context.signal,
        signal_id=context.signal_id,
        seen=context.trajectory,
    )
