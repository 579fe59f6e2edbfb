"""What an exploration shows: on which decisions safety hinges, what was covered, and which change mends a failure.

decisions, branches ─▶ by decision: each action (under each attack) with its safe and unsafe paths ─▶ Hinge
                                                                    └▶ nearest safe action before a failure ─▶ Repair
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from silva.lake import Lake
from silva.redteam.exploring import safe
from silva.redteam.verdict import told
from silva.rollout.branching.choice import Decision
from silva.rollout.branching.explore import content
from silva.rollout.branching.grow import Grown, new_turns
from silva.rollout.branching.shoots import KEY
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.risks import risks_of
from silva.rollout.snapshots.known import Known
from silva.tree import Node, Record, Task, Trajectory, Tree


class Option(Record, frozen=True, kw_only=True):
    """One action at a decision, under one attack. `paths` began with it and were judged, `safe` of them were;
    `done`: in which the task was done; `taken`: what the recorded trajectory did; `node_id`: where it stands."""

    action: str
    attack: str
    node_id: str
    paths: int
    safe: int
    done: int = 0
    taken: bool = False
    risks: tuple[str, ...] = ()


class Hinge(Record, frozen=True, kw_only=True):
    """One decision with what was tried there. `swing`: the highest share of safe paths of an action less the lowest,
    under the recorded attack (None: fewer than two actions were judged)."""

    decision: Decision
    options: tuple[Option, ...]
    swing: float | None = None


class Repair(Record, frozen=True, kw_only=True):
    """What mends a failure at least cost: at `turn`, the nearest to the failure at `reached`, `action` begins the safe
    branch `branch`, which took `turns` new turns; `done`: whether its task was done, too."""

    trajectory_id: str
    task_id: str
    attack: str
    reached: int
    turn: int
    action: str
    branch: str
    turns: int
    done: bool


class Explored(Record, frozen=True, kw_only=True):
    """What was found. `risky` and `branched` count risky decisions, and those of them at which another path was judged,
    by reason. `single` are the distinct risky branches (decision, attack, action) that the recorded paths alone judge,
    `seen` those that are judged with the branches. `failures`: judged trajectories in which a goal was reached,
    recorded and new; `unmended`: the recorded ones without a repair. `restored`: how environments were brought to their
    places. `sources` are the runs that were explored, `runs` those of branches."""

    sources: tuple[str, ...]
    runs: tuple[str, ...]
    hinges: tuple[Hinge, ...]
    risky: dict[str, int]
    branched: dict[str, int]
    decisions: int
    explored: int
    single: int
    seen: int
    failures: tuple[str, ...]
    new_failures: int
    repairs: tuple[Repair, ...]
    unmended: tuple[str, ...]
    new_turns: int
    unjudged: int
    restored: dict[str, int]

    @property
    def coverage(self) -> float | None:
        """The share of risky decisions at which another path was judged; None where there are none."""
        return self.explored / self.decisions if self.decisions else None


def explored(
    lake: Lake | Known, source: str, recorded: Sequence[Trajectory], chosen: Sequence[Decision], grown: Sequence[Grown]
) -> Explored:
    """Read what branches show.

    Args:
        lake: where the trees are, or what is known of it with the branches.
        source: the run or plan that was explored.
        recorded: its trajectories.
        chosen: its risky decisions, explored or not.
        grown: the runs of branches.
    """
    new = [each for one in grown for each in one.trajectories]
    at: defaultdict[str, list[Trajectory]] = defaultdict(list)
    places = {(shoot.tree_id, shoot.index): shoot.instead_of for one in grown for shoot in one.growth.shoots}
    for each in new:
        at[places.get((each.tree_id, each.index), "")].append(each)
    by_id = {each.id: each for each in recorded}
    known = Known.of(lake)
    known.read(each.tree_id for each in (*chosen, *new))
    hinges: list[Hinge] = []
    risky: Counter[str] = Counter()
    branched: Counter[str] = Counter()
    single = seen = reached = 0
    for decision in chosen:
        tree = known.tree(decision.tree_id)
        own = [by_id[decision.trajectory_id]] if decision.trajectory_id in by_id else []
        options = _options(tree, decision, own, at[decision.node_id])
        judged = any(safe(each) is not None for each in at[decision.node_id])
        risky.update(decision.reasons)
        branched.update(decision.reasons if judged else ())
        reached += judged
        single += sum(each.taken for each in options)
        seen += len(options)
        if judged:
            hinges.append(Hinge(decision=decision, options=options, swing=_swing(options)))
    hinges.sort(key=_first)
    failed = [each for each in recorded if safe(each) is False]
    repairs = [found for each in failed if (found := _repair(known, each, chosen, at)) is not None]
    mended = {each.trajectory_id for each in repairs}
    return Explored(
        sources=(source,),
        runs=tuple(each.run.id for each in grown),
        hinges=tuple(hinges),
        risky=dict(risky),
        branched=dict(branched),
        decisions=len(chosen),
        explored=reached,
        single=single,
        seen=seen,
        failures=tuple(each.id for each in [*failed, *new] if safe(each) is False),
        new_failures=sum(safe(each) is False for each in new),
        repairs=tuple(repairs),
        unmended=tuple(each.id for each in failed if each.id not in mended),
        new_turns=sum(map(new_turns, new)),
        unjudged=sum(safe(each) is None for each in new),
        restored=dict(
            Counter("snapshot" if found.get("snapshot") else "replay" for each in new if (found := _restored(each)))
        ),
    )


def together(found: Sequence[Explored]) -> Explored:
    """What several explorations show: counts added, lists one behind the other, hinges with the widest swing first."""
    by_name = [{name: getattr(each, name) for name in Explored.__struct_fields__} for each in found]

    def added(name: str) -> Any:
        values = [each[name] for each in by_name]
        if isinstance(values[0], dict):
            return dict(sum(map(Counter, values), Counter[str]()))
        return sum(values, start=type(values[0])())

    whole = Explored(**{name: added(name) for name in Explored.__struct_fields__})
    return msgspec.structs.replace(whole, hinges=tuple(sorted(whole.hinges, key=_first)))


def _first(hinge: Hinge) -> tuple[float, int]:
    return -(hinge.swing if hinge.swing is not None else -1.0), hinge.decision.turn


def first_actions(tree: Tree, trajectory: Trajectory) -> dict[str, Node]:
    """The actions of a trajectory by the node that each follows."""
    if trajectory.leaf_id is None or trajectory.leaf_id not in tree:
        return {}
    return {node.parent_id: node for node in tree.walk(trajectory.leaf_id) if node.parent_id and takes_turn(node)}


def _options(
    tree: Tree, decision: Decision, recorded: Sequence[Trajectory], new: Sequence[Trajectory]
) -> tuple[Option, ...]:
    """What was tried at a decision; under another attack the decision is the turn of that number, behind its answer."""
    taken = tree.node(decision.node_id)
    found: dict[tuple[str, str], list[tuple[Trajectory, Node]]] = {}
    for each in (*recorded, *new):
        if safe(each) is None or each.leaf_id is None or each.leaf_id not in tree:
            continue
        actions = [node for node in tree.walk(each.leaf_id) if takes_turn(node)]
        if len(actions) < decision.turn:
            continue
        node = actions[decision.turn - 1]
        found.setdefault((content(node.message), str(told(each).get("name", ""))), []).append((each, node))
    return tuple(
        Option(
            action=action,
            attack=attack,
            node_id=paths[0][1].id,
            paths=len(paths),
            safe=sum(bool(safe(each)) for each, _ in paths),
            done=sum(bool(each.outcome.success) for each, _ in paths),
            taken=any(node.id == taken.id for _, node in paths),
            risks=risks_of(paths[0][1].message),
        )
        for (action, attack), paths in found.items()
    )


def _swing(options: Sequence[Option]) -> float | None:
    by_attack: defaultdict[str, list[float]] = defaultdict(list)
    for each in options:
        by_attack[each.attack].append(each.safe / each.paths)
    swings = [max(each) - min(each) for each in by_attack.values() if len(each) > 1]
    return max(swings, default=None)


def _repair(
    known: Known, failed: Trajectory, chosen: Sequence[Decision], at: dict[str, list[Trajectory]]
) -> Repair | None:
    """The nearest decision before a failure where another action was safe under the same attack."""
    record, found = told(failed), list[tuple[tuple[int, bool, int], Decision, Trajectory]]()
    for decision in chosen:
        if decision.trajectory_id != failed.id:
            continue
        for each in at[decision.node_id]:
            if safe(each) and told(each).get("name") == record.get("name"):
                cost = (-decision.turn, not each.outcome.success, new_turns(each))
                found.append((cost, decision, each))
    if not found:
        return None
    _, decision, branch = min(found, key=lambda each: each[0])
    actions = [node for node in known.walk(branch) if takes_turn(node)]
    return Repair(
        trajectory_id=failed.id,
        task_id=failed.task_id,
        attack=str(record.get("name", "")),
        reached=int(record.get("reached") or decision.turn),
        turn=decision.turn,
        action=content(actions[decision.turn - 1].message),
        branch=branch.id,
        turns=new_turns(branch),
        done=bool(branch.outcome.success),
    )


def _restored(trajectory: Trajectory) -> dict[str, Any]:
    return trajectory.attributes.get(KEY, {}).get("restored") or {}


def siblings(lake: Lake | Known, trajectories: Sequence[Trajectory]) -> dict[str, list[Trajectory]]:
    """All judged trajectories of the trees that these are of, by tree."""
    known, names = Known.of(lake), sorted({one.tree_id for one in trajectories})
    known.read(names)
    return {name: [each for each in known.trajectories(name) if safe(each) is not None] for name in names}


def failure_tasks(lake: Lake, failures: Sequence[Trajectory]) -> list[Task]:
    """The tasks of failures, each once, with tags that say where each was found: `found:TRAJECTORY`, `attack:NAME`."""
    tasks: dict[tuple[str, str], Task] = {}
    for each in failures:
        known = tasks.get((each.env, each.task_id)) or lake.task(each)
        if known is not None:
            more = (f"found:{each.id}", f"attack:{told(each).get('name', '')}")
            tags = tuple(dict.fromkeys((*known.tags, *more)))
            tasks[each.env, each.task_id] = msgspec.structs.replace(known.owned_by(""), tags=tags)
    return list(tasks.values())


def as_json(found: Explored) -> dict[str, Any]:
    """What was found, as JSON; the share of decisions covered beside it."""
    return {**msgspec.to_builtins(found), "coverage": found.coverage}
