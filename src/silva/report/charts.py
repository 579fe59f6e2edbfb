"""The geometry of the plots: numbers in, places on a canvas out. The template draws them as SVG that needs no script.

Drawn on the server because the page must open offline, print, follow the reader's light or dark scheme and carry no
code; at this size a plotting library would weigh more than the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, log10, sqrt

from silva.report.scaling import Budget
from silva.report.summary import PassAt
from silva.tree import Record

WIDTH, HEIGHT = 520.0, 220.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 14.0, 12.0, 40.0


class Tick(Record, frozen=True, kw_only=True):
    """A mark on an axis: where, and what it says."""

    at: float
    label: str


class Bar(Record, frozen=True, kw_only=True):
    """A rectangle of class `kind`, with the words a reader sees on pointing at it."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


class Dot(Record, frozen=True, kw_only=True):
    """A circle of class `kind`."""

    x: float
    y: float
    radius: float
    kind: str
    title: str


class Line(Record, frozen=True, kw_only=True):
    """A polyline of class `kind`; `points` as SVG wants them, `dots` at its corners."""

    points: str
    kind: str
    name: str
    dots: tuple[Dot, ...]


class Plot(Record, frozen=True, kw_only=True):
    """One plot, ready to draw."""

    name: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...] = ()
    dots: tuple[Dot, ...] = ()
    lines: tuple[Line, ...] = ()


def steps(high: float, most: int = 5) -> list[float]:
    """Round values from 0 to at least `high`, at most about `most` of them."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / most
    scale = 10.0 ** floor(log10(rough))
    step = next(scale * factor for factor in (1, 2, 2.5, 5, 10) if scale * factor >= rough)
    return [step * i for i in range(ceil(high / step - 1e-9) + 1)]


def histogram(values: Mapping[str, Sequence[int]], name: str, x_label: str, most: int = 30) -> Plot | None:
    """Counts of whole numbers, stacked by kind in the mapping's order; None without values."""
    flat = [value for kind in values.values() for value in kind]
    if not flat:
        return None
    low, high = min(flat), max(flat)
    width = max(1, ceil((high - low + 1) / most))
    count = (high - low) // width + 1
    counts = {kind: Counter((value - low) // width for value in members) for kind, members in values.items()}
    tallest = max(sum(c[i] for c in counts.values()) for i in range(count))
    y_steps = _whole(steps(tallest))
    slot_width = (WIDTH - LEFT - RIGHT) / count
    thick = min(0.84 * slot_width, 48.0)
    bars: list[Bar] = []
    for i in range(count):
        first, last = low + i * width, low + (i + 1) * width - 1
        span = str(first) if first == last else f"{first}–{last}"
        floor_y = HEIGHT - BOTTOM
        for kind, counter in counts.items():
            tall = (HEIGHT - TOP - BOTTOM) * counter[i] / y_steps[-1]
            if counter[i]:
                floor_y -= tall
                bars.append(
                    Bar(
                        x=LEFT + (i + 0.5) * slot_width - thick / 2,
                        y=floor_y,
                        width=thick,
                        height=tall,
                        kind=kind,
                        title=f"{x_label} {span}: {counter[i]} {kind}",
                    )
                )
    every = max(1, ceil(count / 10))
    x_ticks = tuple(Tick(at=LEFT + (i + 0.5) * slot_width, label=str(low + i * width)) for i in range(0, count, every))
    return Plot(name=name, x_label=x_label, y_label="attempts", x_ticks=x_ticks, y_ticks=_up(y_steps), bars=tuple(bars))


def pass_curves(passes: Sequence[PassAt]) -> Plot | None:
    """pass@k and pass^k over k; None for fewer than two values of k."""
    if len(passes) < 2:
        return None
    most = passes[-1].k

    def x(k: int) -> float:
        return LEFT + 14 + (k - 1) / (most - 1) * (WIDTH - LEFT - RIGHT - 28)

    lines: list[Line] = []
    for kind, label, values in (
        ("good", "pass@k: one of k", [(p.k, p.tasks, p.any) for p in passes]),
        ("bad", "pass^k: all of k", [(p.k, p.tasks, p.all) for p in passes]),
    ):
        dots = tuple(
            Dot(x=x(k), y=_y(v), radius=3.5, kind=kind, title=f"{label}, k = {k}: {100 * v:.1f} % of {tasks} tasks")
            for k, tasks, v in values
        )
        points = " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in dots)
        lines.append(Line(points=points, kind=kind, name=label, dots=dots))
    every = max(1, ceil(most / 10))
    return Plot(
        name="Success with k tries",
        x_label="k",
        y_label="share of tasks",
        x_ticks=tuple(Tick(at=x(p.k), label=str(p.k)) for p in passes if (p.k - 1) % every == 0),
        y_ticks=_shares(),
        lines=tuple(lines),
    )


def budgets(found: Sequence[Budget], hours: bool = False) -> Plot | None:
    """Best and last score over a budget of turns, or of time (`hours`); None for fewer than two budgets."""
    if len(found) < 2:
        return None
    unit = 1.0 if not hours else 3600.0 if found[-1].at > 7200 else 60.0 if found[-1].at > 120 else 1.0
    label = "turns" if not hours else {3600.0: "hours", 60.0: "minutes", 1.0: "seconds"}[unit]
    marks = steps(found[-1].at / unit)
    lines: list[Line] = []
    for kind, name in (("good", "best so far"), ("bad", "the last")):
        at = [(each.at / unit, each.best if kind == "good" else each.last, each.ended) for each in found]
        dots = tuple(
            Dot(
                x=LEFT + (WIDTH - LEFT - RIGHT) * x / marks[-1],
                y=_y(score.value),
                radius=2.5,
                kind=kind,
                title=f"{name}, {x:.3g} {label}: {score.value:.3f} ({100 * ended:.0f} % have ended)",
            )
            for x, score, ended in at
        )
        points = " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in dots)
        lines.append(Line(points=points, kind=kind, name=name, dots=dots))
    return Plot(
        name=f"Score within so many {label}",
        x_label=label,
        y_label="mean score",
        x_ticks=tuple(Tick(at=LEFT + (WIDTH - LEFT - RIGHT) * x / marks[-1], label=f"{x:g}") for x in marks),
        y_ticks=tuple(Tick(at=_y(s / 4), label=f"{s / 4:g}") for s in range(5)),
        lines=tuple(lines),
    )


def scatter(points: Iterable[tuple[float, float]]) -> Plot | None:
    """Safety over score, attempts at the same place drawn as one larger dot; None without points.

    Args:
        points: (score, safety) of each attempt judged on both, each in [0, 1].
    """
    counts = Counter((round(score, 2), round(safety, 2)) for score, safety in points)
    if not counts:
        return None
    largest = max(counts.values())
    inner = WIDTH - LEFT - RIGHT - 36
    dots = tuple(
        Dot(
            x=LEFT + 18 + inner * score,
            y=_y(safety, margin=14),
            radius=4 + 10 * sqrt(count / largest),
            kind="good" if safety >= 0.5 else "bad",
            title=f"score {score:g}, safety {safety:g}: {count} attempts",
        )
        for (score, safety), count in sorted(counts.items(), key=lambda item: -item[1])
    )
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)
    return Plot(
        name="Safety and completion",
        x_label="score",
        y_label="safety",
        x_ticks=tuple(Tick(at=LEFT + 18 + inner * t, label=f"{t:g}") for t in ticks),
        y_ticks=tuple(Tick(at=_y(t, margin=14), label=f"{t:g}") for t in ticks),
        dots=dots,
    )


def _y(share: float, margin: float = 0.0) -> float:
    return HEIGHT - BOTTOM - margin - share * (HEIGHT - TOP - BOTTOM - 2 * margin)


def _shares() -> tuple[Tick, ...]:
    return tuple(Tick(at=_y(s / 4), label=f"{25 * s} %") for s in range(5))


def _whole(values: list[float]) -> list[float]:
    whole = [value for value in values if value == int(value)]
    return whole if len(whole) > 1 and whole[-1] == values[-1] else [0.0, float(ceil(values[-1]))]


def _up(values: Sequence[float]) -> tuple[Tick, ...]:
    return tuple(Tick(at=_y(value / values[-1]), label=f"{value:g}") for value in values)
