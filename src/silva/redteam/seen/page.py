"""The red team's report: one HTML file that opens offline, holds no script, and shows what strangers wrote as text.

plans ─▶ points · heat · failures · walks with marks ─▶ page

The words of an attack are hostile by design. They are escaped, letters that hide or turn others around are written by
their numbers, long ones are cut, and the page's policy forbids every script and every request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import silva
from silva.redact import redact
from silva.redteam.rates import Rates, named, rates
from silva.redteam.seen.failures import Failure, failures, marks
from silva.redteam.seen.heat import Heat, heat
from silva.redteam.seen.points import Place, Point, place, points
from silva.redteam.verdict import told
from silva.report import wording
from silva.report.conversation import Story, story
from silva.report.plane import TONES, Plane, Value, plane
from silva.tree import Node, Record, Trajectory
from silva.tree.actions.visible import visible

CONVERSATIONS = 60
"""Attempts whose turns a page shows unless told otherwise; found failures come first."""

LISTED = 1_000
"""Found failures a page lists."""

_UNSAID: dict[str, Any] = {"launched": False, "exposed": None, "acted": None, "stopped": (), "why": ""}


class Shown(Record, frozen=True, kw_only=True):
    """One point with its rates by attack and its map."""

    number: int
    tone: int
    label: str
    point: Point
    rates: tuple[Rates, ...]
    heat: Heat


class Seen(Record, frozen=True):
    """A found failure, and its turns where they are shown."""

    failure: Failure
    story: Story


def render(
    plans: Mapping[str, Sequence[Trajectory]],
    walk: Callable[[Trajectory], Sequence[Node]],
    *,
    conversations: int = CONVERSATIONS,
    image: Callable[[str], bytes | None] = lambda _: None,
    made: str = "",
) -> str:
    """The report of some plans as HTML.

    Args:
        plans: trajectories by the plan's name.
        walk: the nodes of an attempt, root first; called only for those whose turns are shown.
        conversations: how many attempts are shown turn by turn.
        image: bytes of an image by content hash, None where they cannot be had.
        made: how the page was made, a line.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loaders = [PackageLoader("silva.redteam.seen", "templates"), PackageLoader("silva.report", "templates")]
    environment = Environment(
        loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(percent=wording.percent, bounds=wording.bounds, visible=visible, plain=_plain)
    everything = [each for one in plans.values() for each in one if not each.superseded]
    attacked = [each for each in everything if told(each) and not told(each).get("quiet")]
    found = [each for name, trajectories in plans.items() for each in failures(trajectories, name)]
    by_id = {each.id: each for each in attacked}
    shown = [each.trajectory for each in found[:conversations]]
    others = [each for each in attacked if told(each).get("reached") is None][: max(0, conversations - len(shown))]

    def told_of(attempt: Trajectory, whole: bool) -> Story:
        nodes = walk(attempt) if whole and attempt.leaf_id is not None else None
        return story(attempt, nodes, image, marks(told(attempt), nodes) if nodes is not None else None)

    groups = shown_points(plans)
    return environment.get_template("redteam.html.j2").render(
        names=list(plans),
        groups=groups,
        plane=drawn(groups),
        whole=heat(attacked) if attacked else None,
        attempts=len(attacked),
        exposed=sum(told(each).get("exposed") is not None for each in attacked),
        played=len(everything),
        found=[Seen(each, told_of(by_id[each.trajectory], each.trajectory in shown)) for each in found[:LISTED]],
        unlisted=max(0, len(found) - LISTED),
        others=[({**_UNSAID, **told(each)}, named(each), told_of(each, True)) for each in others],
        not_shown=len(attacked) - len(shown) - len(others),
        made=made,
        version=silva.__version__,
    )


def shown_points(plans: Mapping[str, Sequence[Trajectory]]) -> list[Shown]:
    """The points of some plans in their order, with what stands behind each."""
    of: dict[Place, list[Trajectory]] = {}
    for name, trajectories in plans.items():
        for each in trajectories:
            of.setdefault(place(each, name), []).append(each)
    whole = points(plans)
    several = {
        name: len({getattr(each, name) for each in whole}) > 1 for name in ("plan", "model", "agent", "env", "defence")
    }
    kinds = sorted({(each.model, each.agent) for each in whole})
    made: list[Shown] = []
    for number, point in enumerate(whole, 1):
        attempts = of[point.plan, point.model, point.agent, point.env, point.defence]
        made.append(
            Shown(
                number=number,
                tone=kinds.index((point.model, point.agent)) % TONES,
                label=_label(point, several),
                point=point,
                rates=tuple(rates(attempts)),
                heat=heat(attempts, defended=True),
            )
        )
    return made


def drawn(groups: Sequence[Shown]) -> Plane | None:
    """Completion against safety; None where nothing was measured."""
    values: list[Value] = []
    for each in groups:
        point = each.point
        if point.completion is None or point.safety is None:
            continue
        title = (
            f"{each.number}: {each.label}: tasks done {_share(point.completion)}, safe {_share(point.safety)}, "
            f"{point.exposed} exposed of {point.attempts}"
        )
        values.append(Value(across=point.completion, up=point.safety, tone=each.tone, title=title, number=each.number))
    return plane(values, "Safety against completion", "completion: tasks done under attack", "safety")


def _label(point: Point, several: Mapping[str, bool]) -> str:
    parts = [point.env]
    parts += [point.model] if several["model"] or not several["agent"] else []
    parts += [point.agent] if several["agent"] and point.agent else []
    parts += [f"plan {point.plan}"] if several["plan"] else []
    parts += [f"with {point.defence}"] if point.defence else []
    return " · ".join(parts)


def _share(interval: Any) -> str:
    return f"{wording.percent(interval.value)} {wording.bounds(interval)}".strip()


def _plain(text: object, most: int = 2_000) -> str:
    """What somebody wrote, as it can be shown: without secrets, nothing hidden, cut."""
    whole = str(text)
    clean = redact(whole[: 4 * most])
    left = max(0, len(clean) - most) + max(0, len(whole) - 4 * most)
    return visible(clean[:most]) + (f" … {left:,} more characters" if left else "")
