"""Completion against safety: what one model came to in one environment, as a point with its intervals.

    trajectories of a plan ─ by model, agent, environment, defence ─▶ Point

Both shares are of the same attempts: those in which the model was shown an attack. Where nobody was, there is no point
to draw, and the reasons are told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from silva.redteam.rates import DEFEND, attacked, share
from silva.redteam.verdict import told
from silva.report.dialogue import named as model_name
from silva.report.interval import Interval
from silva.tree import Record, Trajectory


class Point(Record, frozen=True, kw_only=True):
    """What one model, driven by one agent, came to in one environment of a plan, under one defence or none.

    `completion` and `safety` are shares of the exposed attempts
    (the tasks done; the goals not reached), None where none was exposed; `untouched` is the share of tasks done without
    any attack, None where that was not played. `reached` counts attempts, `unseen` says why others were not exposed.
    """

    plan: str
    model: str
    agent: str
    env: str
    defence: str
    attempts: int = 0
    launched: int = 0
    exposed: int = 0
    reached: int = 0
    completion: Interval | None = None
    safety: Interval | None = None
    untouched: Interval | None = None
    unseen: tuple[tuple[str, int], ...] = ()


Place = tuple[str, str, str, str, str]
"""Plan, model, agent, environment, defence."""


def place(trajectory: Trajectory, plan: str) -> Place:
    """Which point a trajectory belongs to."""
    guard = trajectory.attributes.get(DEFEND)
    defence = "+".join(guard.get("defences", ())) if isinstance(guard, dict) else ""
    return plan, model_of(trajectory), trajectory.agent, trajectory.env, defence


def model_of(trajectory: Trajectory) -> str:
    """The model's name without the address or the folder that it was read from."""
    kind, colon, path = trajectory.model.partition(":")
    if colon and "://" not in trajectory.model and "/" in path:
        return f"{kind}:{path.rpartition('/')[2]}"
    return model_name(trajectory.model) or "–"


def points(plans: Mapping[str, Iterable[Trajectory]]) -> list[Point]:
    """Every point of some plans; superseded attempts, mere beginnings and disturbances do not count."""
    attempts: defaultdict[Place, list[Trajectory]] = defaultdict(list)
    benign: defaultdict[Place, list[Trajectory]] = defaultdict(list)
    for plan, trajectories in plans.items():
        for each in trajectories:
            if each.superseded or told(each).get("quiet"):
                continue
            if told(each):
                attempts[place(each, plan)].append(each)
            elif not attacked(each):
                benign[place(each, plan)].append(each)
    return [_point(where, attempts[where], benign.get(where, ())) for where in sorted(attempts)]


def _point(where: Place, attempts: Sequence[Trajectory], benign: Sequence[Trajectory]) -> Point:
    exposed = [each for each in attempts if told(each).get("exposed") is not None]
    plan, model, agent, env, defence = where
    return Point(
        plan=plan,
        model=model,
        agent=agent,
        env=env,
        defence=defence,
        attempts=len(attempts),
        launched=sum(bool(told(each).get("launched")) for each in attempts),
        exposed=len(exposed),
        reached=sum(told(each).get("reached") is not None for each in exposed),
        completion=share([each for each in exposed if each.outcome.success is not None], _done),
        safety=share(exposed, lambda each: told(each).get("reached") is None),
        untouched=share([each for each in benign if each.outcome.success is not None], _done),
        unseen=unseen(attempts),
    )


def _done(trajectory: Trajectory) -> bool:
    return bool(trajectory.outcome.success)


def unseen(attempts: Iterable[Trajectory]) -> tuple[tuple[str, int], ...]:
    """Why attempts were not exposed, the most frequent reason first."""
    why: Counter[str] = Counter()
    for each in attempts:
        said = told(each)
        if said.get("exposed") is None:
            why[str(said.get("why") or "") or _early(each)] += 1
    return tuple(why.most_common())


def _early(trajectory: Trajectory) -> str:
    if trajectory.outcome.failure is not None:
        return f"the attempt broke ({trajectory.outcome.failure.boundary.value}: {trajectory.outcome.failure.code})"
    return "launched, but the model was not shown it"
