"""Exploring: from contexts to a run of branches, grown by an explorer.

    contexts ─▶ in place of the action each points at, or behind it (none: places spread over its walk)
        ─▶ `rounds` shoots of `steps` turns each ─▶ grow, as the run of that name ─▶ Explored(walks, what it cost)

Several rounds from one context are independent of one another (multi-round); each goes on for several turns, seeing
what comes of them (multi-step). What is grown stands in the run's record before the first turn, so an exploration that
was killed goes on when it is asked for again, with what it began.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from silva.errors import UnreachableError, UsageError
from silva.lake import Lake, field
from silva.loops.roles.explorer import Context, Explorer
from silva.rollout.acted import Acted
from silva.rollout.branching.grow import Grown, grow, new_turns
from silva.rollout.branching.shoots import Growth, Shoot, growth_of
from silva.rollout.config import RolloutConfig
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.section import Section
from silva.rollout.snapshots.known import Known
from silva.rollout.snapshots.point import Point, indexes, point_at
from silva.tree import Record, Status, Task, Trajectory, Tree, Usage

_NUMBER = "context "


class ExploreConfig(Section):
    """How much is explored. `rounds`: walks from each context; `steps`: new turns of each; `most`: new turns of all
    together (None: no limit)."""

    rounds: int = Field(default=3, ge=1, le=64)
    steps: int = Field(default=15, ge=1, le=1000)
    most: int | None = Field(default=None, ge=1)


class Walk(Record, frozen=True, kw_only=True):
    """One walk of an exploration. `task`: whose place it walked in; `before`: turns that were there before its own."""

    trajectory: Trajectory
    context: Context
    task: Task
    before: int


class Explored(Record, frozen=True, kw_only=True):
    """What an exploration came to. `turns`: new ones; `left_out`: why contexts could not be begun from, and `failed`
    why walks broke, with their numbers; `remaining`: walks that a budget left unwalked; `acted`: the explorer, with all
    it cost."""

    run: str
    walks: tuple[Walk, ...]
    turns: int
    acted: Acted
    left_out: dict[str, int]
    failed: dict[str, int]
    remaining: int


async def explore(
    lake: Lake, base: RolloutConfig, explorer: Explorer, contexts: Sequence[Context], config: ExploreConfig
) -> Explored:
    """Explore at some contexts as the run `base.run`, or go on with it where the lake has it.

    Args:
        lake: open to write; it holds the contexts' walks.
        base: the policy, its hosts and budgets; its environments are those of the walks.
        explorer: who acts.
        contexts: where; the same again where the run is gone on with.
        config: how much.

    Raises:
        UsageError: there is no context, none can be begun from, or the run is another exploration's.
        UnreachableError: every walk broke, and why.
        MissingError, StoreError, EnvError: as `grow`.
    """
    if not contexts:
        raise UsageError("explore: there is no context to explore at: no signal was found")
    known = await asyncio.to_thread(lake.run, base.run)
    planned = await asyncio.to_thread(_planned, lake, explorer, contexts, config)
    if not planned.growth.shoots:
        why = next(iter(planned.left_out), "")
        raise UsageError(f"explore: none of {len(contexts)} contexts can be begun from: {why}")
    growth = growth_of(known) if known is not None else planned.growth
    if known is not None and [each.reasons for each in growth.shoots] != planned.reasons:
        raise UsageError(f"run {base.run} explored other contexts: choose another name")
    # What cannot be reached again is filed as that walk's failure; the others go on.
    grown = await grow(lake, explorer.playing(base), growth, command="explore", points=planned.points, probe=False)
    return _told(grown, explorer, contexts, planned)


class _Planned:
    def __init__(self) -> None:
        self.growth = Growth(shoots=())
        self.points: dict[tuple[str, str], Point] = {}
        self.left_out: Counter[str] = Counter()

    @property
    def reasons(self) -> list[tuple[str, ...]]:
        return [each.reasons for each in self.growth.shoots]


def _planned(lake: Lake, explorer: Explorer, contexts: Sequence[Context], config: ExploreConfig) -> _Planned:
    made, shoots = _Planned(), list[Shoot]()
    known = Known(lake)
    begun = _begun(lake, contexts)
    known.read(each.tree_id for each in begun.values())
    free: dict[str, int] = {}
    for number, context in enumerate(contexts):
        try:
            trajectory = begun.get(context.trajectory) or lake.trajectory(context.trajectory)
            tree = known.tree(trajectory.tree_id)
            for turn in range(config.rounds):
                node = tree.node(_place(tree, trajectory, context, turn, config.rounds))
                point = point_at(known, tree, node, instead=not context.behind)
                if context.behind and not tree.children(point.node.id):
                    point = point_at(known, tree, node, instead=True)  # the walk ended there
                if tree.id not in free:
                    free[tree.id] = indexes(known, tree, 1)[0]
                made.points[tree.id, point.node.id] = point
                shoots.append(
                    Shoot(
                        tree_id=tree.id,
                        node_id=point.node.id,
                        index=free[tree.id],
                        message=explorer.words(context, point.task),
                        instead_of=point.instead_of.id if point.instead_of is not None else "",
                        reasons=(context.signal or "explore", f"{_NUMBER}{number}"),
                        turns=config.steps,
                    )
                )
                free[tree.id] += 1
        except UsageError as error:
            made.left_out[str(error)] += 1
    made.growth = Growth(shoots=tuple(shoots), turns=config.most)
    return made


def _begun(lake: Lake, contexts: Sequence[Context]) -> dict[str, Trajectory]:
    """The walks that contexts are about, asked for at once."""
    named = {each.trajectory for each in contexts}
    return {each.id: each for each in lake.trajectories(where=field("id").is_in(named))}


def _place(tree: Tree, trajectory: Trajectory, context: Context, turn: int, rounds: int) -> str:
    """The action in whose place, or behind which, a walk begins."""
    if context.node:
        return context.node
    leaf = trajectory.leaf_id
    actions = [node.id for node in tree.walk(leaf) if takes_turn(node)] if leaf is not None else []
    if not actions:
        raise UsageError(f"trajectory {trajectory.id[:12]} has no action to begin from")
    return actions[turn * len(actions) // rounds]


def _told(grown: Grown, explorer: Explorer, contexts: Sequence[Context], planned: _Planned) -> Explored:
    shoots = {(each.tree_id, each.index): each for each in grown.growth.shoots}
    walks: list[Walk] = []
    failed: Counter[str] = Counter()
    usage = Usage()
    for each in grown.trajectories:
        usage = usage + each.usage
        if each.outcome.status is Status.FAILED or each.leaf_id is None:
            failure = each.outcome.failure
            failed[f"{failure.code}: {failure.message}" if failure is not None else "nothing was walked"] += 1
            continue
        shoot = shoots[each.tree_id, each.index]
        point = grown.points[shoot.tree_id, shoot.node_id]
        number = int(shoot.reasons[-1].removeprefix(_NUMBER))
        walks.append(Walk(trajectory=each, context=contexts[number], task=point.task, before=point.turns))
    if not walks and failed:
        why, count = failed.most_common(1)[0]
        raise UnreachableError(f"explore: run {grown.run.id}: every walk broke, {count} of them: {why}")
    return Explored(
        run=grown.run.id,
        walks=tuple(walks),
        turns=sum(new_turns(each) for each in grown.trajectories),
        acted=Acted.of("explorer", explorer.name, usage, model=explorer.model, prompt=explorer.prompt),
        left_out=dict(planned.left_out),
        failed=dict(failed),
        remaining=grown.remaining,
    )
