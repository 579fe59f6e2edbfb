"""The branch explorer: alternatives at chosen decisions, and what they show about how a trajectory came out.

    trajectories ─▶ decisions (choice) ─▶ shoots instead of each ─▶ grow, within a budget of new turns ─▶ Findings

At every decision some new paths begin just before the action that was taken. What comes of them says what the place was
worth, whether the outcome hinges on what is done there, and which change would have mended it at least cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from silva.lake import Lake
from silva.rollout.branching.choice import Decision
from silva.rollout.branching.grow import Grown, new_turns
from silva.rollout.branching.shoots import KEY, Growth, Shoot
from silva.rollout.guided_nodes import action_behind
from silva.rollout.risks import risks_of
from silva.rollout.snapshots.known import Known
from silva.rollout.snapshots.point import indexes, point_at
from silva.tree import Message, Node, Record, Trajectory, Tree


class Tried(Record, frozen=True, kw_only=True):
    """One action at a decision. `paths`: scored paths that began with it; `value`: their mean score; `successes`;
    `taken`: whether it is what the trajectory did; `risks`: the kinds of risk in it."""

    action: str
    paths: int
    value: float
    successes: int = 0
    taken: bool = False
    risks: tuple[str, ...] = ()


class Fix(Record, frozen=True, kw_only=True):
    """A change that came out better: at `turn` the first action of branch `trajectory_id`, then `turns` new turns."""

    trajectory_id: str
    node_id: str
    turn: int
    turns: int
    action: str
    score: float
    before: float


class Finding(Record, frozen=True, kw_only=True):
    """What was learnt at one decision. `value`: mean score of all scored paths through the place before it; `swing`:
    the best action's value less the worst's (None where fewer than two actions were scored); `left`: alternatives
    not grown to their end."""

    decision: Decision
    action: str
    tried: tuple[Tried, ...]
    value: float | None = None
    swing: float | None = None
    left: int = 0
    fix: Fix | None = None


class Findings(Record, frozen=True, kw_only=True):
    """What an exploration showed, the decisions on which most hinges first. `risky` and `risky_explored` count risky
    decisions by kind; `avoided`: alternatives to risky actions that began without risk; `cheapest`: of all fixes the
    one with the fewest new turns, by trajectory."""

    findings: tuple[Finding, ...]
    risky: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    risky_explored: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    avoided: int = 0
    cheapest: dict[str, Fix] = msgspec.field(default_factory=dict[str, Fix])
    new_turns: int = 0

    @property
    def hinges(self) -> list[Finding]:
        """The decisions on which the outcome hinges: where actions differ in what comes of them."""
        return [each for each in self.findings if each.swing]

    @property
    def coverage(self) -> float | None:
        """The share of risky decisions at which an alternative was grown to its end; None where there are none."""
        found = sum(self.risky.values())
        return sum(self.risky_explored.values()) / found if found else None


def planned(
    lake: Lake, chosen: Sequence[Decision], *, budget: int, width: int = 2, source: str = "", env: str | None = None
) -> Growth:
    """The shoots of an exploration: `width` at each decision, as many as a budget of new turns could begin.

    Args:
        lake: where the trees are.
        chosen: the decisions, best first.
        budget: new turns for all.
        width: alternatives at each.
        source: the trajectory or run that is explored.
        env: the environment, where it goes by another name.

    Raises:
        UsageError: a place cannot be begun from.
    """
    known = Known(lake)
    known.read(each.tree_id for each in chosen[:budget])
    free: dict[str, int] = {}
    shoots: list[Shoot] = []
    for decision in chosen:
        if len(shoots) >= budget:
            break
        tree = known.tree(decision.tree_id)
        if tree.id not in free:
            free[tree.id] = indexes(known, tree, 1)[0]
        point = point_at(known, tree, tree.node(decision.node_id), instead=True, env=env)
        for _ in range(min(width, budget - len(shoots))):
            shoots.append(
                Shoot(
                    tree_id=tree.id,
                    node_id=point.node.id,
                    index=free[tree.id],
                    instead_of=decision.node_id,
                    reasons=decision.reasons,
                )
            )
            free[tree.id] += 1
    return Growth(shoots=tuple(shoots), env=env or "", turns=budget, source=source)


def findings(lake: Lake, chosen: Sequence[Decision], grown: Grown) -> Findings:
    """What a run of branches shows about the decisions it was grown at.

    Args:
        lake: where the trees are.
        chosen: every decision that the rules found, explored or not.
        grown: the run.
    """
    by_place: dict[str, list[Trajectory]] = {}
    planned_at: dict[str, int] = {}
    ended = {(each.tree_id, each.index): each for each in grown.trajectories}
    for shoot in grown.growth.shoots:
        planned_at[shoot.instead_of] = planned_at.get(shoot.instead_of, 0) + 1
        trajectory = ended.get((shoot.tree_id, shoot.index))
        if trajectory is not None and _counts(trajectory):
            by_place.setdefault(shoot.instead_of, []).append(trajectory)
    known = Known(lake)
    known.read(each.tree_id for each in chosen if each.node_id in planned_at)
    made: list[Finding] = []
    risky: dict[str, int] = {}
    explored: dict[str, int] = {}
    avoided = 0
    for decision in chosen:
        for kind in decision.risks[:1]:
            risky[kind] = risky.get(kind, 0) + 1
            explored[kind] = explored.get(kind, 0) + bool(by_place.get(decision.node_id))
        if decision.node_id not in planned_at:
            continue
        everything = [each for each in known.trajectories(decision.tree_id) if _counts(each)]
        finding = _finding(known.tree(decision.tree_id), decision, everything, by_place.get(decision.node_id, []))
        left = planned_at[decision.node_id] - len(by_place.get(decision.node_id, []))
        made.append(msgspec.structs.replace(finding, left=left))
        if decision.risks:
            avoided += sum(each.paths for each in finding.tried if not each.taken and not each.risks)
    made.sort(key=lambda each: (-(each.swing if each.swing is not None else -1.0), each.decision.turn))
    cheapest: dict[str, Fix] = {}
    for each in made:
        so_far = cheapest.get(each.decision.trajectory_id)
        if each.fix is not None and (so_far is None or _cost(each.fix) < _cost(so_far)):
            cheapest[each.decision.trajectory_id] = each.fix
    return Findings(
        findings=tuple(made),
        risky=risky,
        risky_explored=explored,
        avoided=avoided,
        cheapest=cheapest,
        new_turns=grown.new_turns,
    )


def _counts(trajectory: Trajectory) -> bool:
    """Whether a path says what it is worth: it was scored, and no budget of turns cut it short."""
    cut = trajectory.attributes.get(KEY, {}).get("cut", False)
    return trajectory.outcome.score is not None and not trajectory.superseded and not cut


def _finding(tree: Tree, decision: Decision, everything: Sequence[Trajectory], grown: Sequence[Trajectory]) -> Finding:
    taken = tree.node(decision.node_id)
    parent = taken.parent_id
    paths: dict[str, list[Trajectory]] = {}
    firsts: dict[str, Message] = {}
    for each in everything:
        first = _next_action(tree, each, parent)
        if first is not None:
            name = content(first.message)
            paths.setdefault(name, []).append(each)
            firsts.setdefault(name, first.message)
    tried = tuple(
        Tried(
            action=name,
            paths=len(found),
            value=_mean(found),
            successes=sum(bool(each.outcome.success) for each in found),
            taken=name == content(taken.message),
            risks=risks_of(firsts[name]),
        )
        for name, found in paths.items()
    )
    values = [each.value for each in tried]
    scored = [each for found in paths.values() for each in found]
    return Finding(
        decision=decision,
        action=content(taken.message),
        tried=tuple(sorted(tried, key=lambda each: (-each.value, not each.taken, each.action))),
        value=_mean(scored) if scored else None,
        swing=max(values) - min(values) if len(values) > 1 else None,
        fix=_fix(tree, decision, grown, parent),
    )


def _next_action(tree: Tree, trajectory: Trajectory, parent: str | None) -> Node | None:
    """The first action of a trajectory behind a node; None where it does not pass there."""
    if trajectory.leaf_id is None or trajectory.leaf_id not in tree:
        return None
    return action_behind(tree.walk(trajectory.leaf_id), (parent,))


def _fix(tree: Tree, decision: Decision, grown: Sequence[Trajectory], parent: str | None) -> Fix | None:
    before = decision.score if decision.score is not None else 0.0
    fixes: list[Fix] = []
    for each in grown:
        score = each.outcome.score
        first = _next_action(tree, each, parent)
        better = score is not None and score > before and (decision.success is None or bool(each.outcome.success))
        if better and score is not None and first is not None and not decision.success:
            fixes.append(
                Fix(
                    trajectory_id=each.id,
                    node_id=decision.node_id,
                    turn=decision.turn,
                    turns=new_turns(each),
                    action=content(first.message),
                    score=score,
                    before=before,
                )
            )
    return min(fixes, key=_cost, default=None)


def _cost(fix: Fix) -> tuple[int, int, float]:
    return fix.turns, -fix.turn, -fix.score


def _mean(trajectories: Sequence[Trajectory]) -> float:
    scores = [each.outcome.score for each in trajectories if each.outcome.score is not None]
    return sum(scores) / len(scores)


def content(message: Message) -> str:
    """An action as text: two that read the same are the same action."""
    calls = " ".join(f"→ {call.name}({call.arguments})" for call in message.tool_calls)
    return " ".join(f"{message.text} {calls}".split()) or "(nothing)"
