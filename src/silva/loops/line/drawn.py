"""What a loop shows of itself (`silva.loops.kernel.shown`) as a section of its page: its curves drawn, its tables, and
the tasks that were born.

    Shown ─▶ curves as plots, tables, the first tasks ─▶ Section for `silva.loops.line.report.write`
"""

from __future__ import annotations

from silva.loops.kernel.shown import Curve, Shown
from silva.loops.line.report import Section
from silva.report.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Dot, Line, Plot, Tick, steps

TONES = ("good", "environment", "bad", "unjudged", "other")
"""Classes of a plot's lines, one after the other."""
TASKS = 60
"""Tasks that the page shows; `report.json` has all."""


def section(found: Shown) -> Section:
    """The section."""
    values = {
        "figures": [(plot(each), list(zip(each.series, TONES * 3, strict=False))) for each in found.curves],
        "sheets": found.tables,
        "born": found.tasks[:TASKS],
        "more_born": max(0, len(found.tasks) - TASKS),
    }
    return Section(package="silva.loops.line", template="shown.html.j2", values=values)


def plot(curve: Curve) -> Plot:
    """A curve as a plot: a line for each series, with a dot wherever a value is known."""
    known = [value for each in curve.series.values() for value in each if value is not None]
    low, high = min(0.0, *known, 0.0), max(0.0, *known, 0.0)
    above = steps(high)[-1] if high > 0 else 0.0
    below = steps(-low)[-1] if low < 0 else 0.0
    span = (above + below) or 1.0
    inner = WIDTH - LEFT - RIGHT

    def x(place: int) -> float:
        return LEFT + inner * (place / (len(curve.x) - 1) if len(curve.x) > 1 else 0.5)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value + below) / span * (HEIGHT - TOP - BOTTOM)

    lines: list[Line] = []
    for (name, values), tone in zip(curve.series.items(), TONES * 3, strict=False):
        dots = tuple(
            Dot(x=x(place), y=y(value), radius=3, kind=tone, title=f"{name} at {curve.x[place]}: {value:.4g}")
            for place, value in enumerate(values)
            if value is not None
        )
        points = " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in dots)
        lines.append(Line(points=points, kind=tone, name=name, dots=dots))
    every = max(1, -(-len(curve.x) // 10))
    marks = sorted({above, 0.0, -below, above / 2})
    return Plot(
        name=curve.title,
        x_label="",
        y_label="",
        x_ticks=tuple(Tick(at=x(place), label=_said(curve.x[place])) for place in range(0, len(curve.x), every)),
        y_ticks=tuple(Tick(at=y(mark), label=f"{mark:.3g}") for mark in marks),
        lines=tuple(lines),
    )


def _said(value: float | str | None) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value or "")
