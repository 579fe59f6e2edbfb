"""What the loop's report draws, on the canvas of `silva.report.charts`: rates by version, curves by step, stages by
time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from silva.report.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Bar, Dot, Line, Plot, Tick, steps
from silva.train.curves import Point
from silva.tree import Record

MOST_POINTS = 120
"""Points a curve is drawn with; of a longer one every n-th."""

DRAWN = {"loss": "loss", "probability": "probability of what was drawn", "drift": "drift from the policy that drew"}
"""Values of a training run that are drawn, and what they are called."""


class Span(Record, frozen=True, kw_only=True):
    """When a stage ran: seconds from the beginning, and how many."""

    name: str
    kind: str
    begin: float
    seconds: float


def success(measured: Sequence[tuple[str, Mapping[str, Any]]]) -> Plot | None:
    """Success on `dev` by version, each with its 95 % interval; None without any."""
    return _rates(measured, "Success on dev", "version", "success")


def rewards(played: Sequence[tuple[str, Mapping[str, Any]]]) -> Plot | None:
    """Success while the data of each round was played; None where no policy played."""
    return _rates(played, "Success of the head on train", "round", "success")


def training(name: str, points: Sequence[Point]) -> list[Plot]:
    """The curves of one training run that have at least two points."""
    every = max(1, -(-len(points) // MOST_POINTS))
    plots: list[Plot] = []
    for key, label in DRAWN.items():
        kept = [(p.step, v) for p in points[::every] if (v := p.values.get(key)) is not None and isfinite(v)]
        if len(kept) > 1:
            plots.append(_curve(f"{name}: {label}", label, kept))
    return plots


def timeline(spans: Sequence[Span]) -> Plot | None:
    """The stages as bars over time, a row for each kind; None without any."""
    if not spans:
        return None
    total = max(span.begin + span.seconds for span in spans)
    marks = steps(total)
    kinds = list(dict.fromkeys(span.kind for span in spans))
    tall = (HEIGHT - TOP - BOTTOM) / len(kinds)
    inner = WIDTH - LEFT - RIGHT

    def x(at: float) -> float:
        return LEFT + inner * at / marks[-1]

    bars = tuple(
        Bar(
            x=x(span.begin),
            y=TOP + kinds.index(span.kind) * tall + 0.15 * tall,
            width=max(1.0, inner * span.seconds / marks[-1]),
            height=0.7 * tall,
            kind=_TONES.get(span.kind, "other"),
            title=f"{span.name}: {span.seconds:.1f} s",
        )
        for span in spans
    )
    return Plot(
        name="Stages",
        x_label="seconds of work",
        y_label="",
        x_ticks=tuple(Tick(at=x(at), label=f"{at:g}") for at in marks),
        y_ticks=tuple(Tick(at=TOP + (place + 0.5) * tall, label=kind) for place, kind in enumerate(kinds)),
        bars=bars,
    )


_TONES = {"train": "bad", "rollout": "good", "survey": "good", "measure": "environment", "prove": "environment"}


def _rates(rows: Sequence[tuple[str, Mapping[str, Any]]], name: str, x_label: str, field: str) -> Plot | None:
    if not rows:
        return None
    inner = WIDTH - LEFT - RIGHT
    slot = inner / len(rows)
    bars: list[Bar] = []
    dots: list[Dot] = []
    for place, (label, said) in enumerate(rows):
        middle = LEFT + (place + 0.5) * slot
        value, low, high = float(said[field]), said["low"], said["high"]
        title = f"{label}: {100 * value:.1f} %"
        if low is not None and high is not None:
            title += f" [{100 * low:.1f}, {100 * high:.1f}]"
            bars.append(
                Bar(x=middle - 3, y=_y(high, 1), width=6, height=_y(low, 1) - _y(high, 1), kind="unjudged", title=title)
            )
        dots.append(Dot(x=middle, y=_y(value, 1), radius=6, kind="good", title=title))
    points = " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in dots)
    return Plot(
        name=name,
        x_label=x_label,
        y_label="share of attempts",
        x_ticks=tuple(Tick(at=dot.x, label=label) for dot, (label, _) in zip(dots, rows, strict=True)),
        y_ticks=tuple(Tick(at=_y(s / 4, 1), label=f"{25 * s} %") for s in range(5)),
        bars=tuple(bars),
        lines=(Line(points=points, kind="good", name=name, dots=()),),
        dots=tuple(dots),
    )


def _curve(name: str, label: str, values: Sequence[tuple[int, float]]) -> Plot:
    first, last = values[0][0], values[-1][0]
    low = min(0.0, *(value for _, value in values))
    high = max(0.0, *(value for _, value in values))
    below = steps(-low)[-1] if low < 0 else 0.0
    above = steps(high)[-1] if high > 0 else 0.0
    span = (above + below) or 1.0

    def x(step: float) -> float:
        return LEFT + (step - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    points = " ".join(f"{x(step):.1f},{_y(value + below, span):.1f}" for step, value in values)
    marks: list[float] = []
    for mark in (0.0, above, -below, above / 2):  # GRPO's loss begins a rounding error above 0: words need their place
        if all(abs(mark - other) > span / 12 for other in marks):
            marks.append(mark)
    return Plot(
        name=name,
        x_label="step",
        y_label=label,
        x_ticks=tuple(Tick(at=x(step), label=str(step)) for step in sorted({first, (first + last) // 2, last})),
        y_ticks=tuple(Tick(at=_y(mark + below, span), label=f"{mark:.3g}") for mark in sorted(marks)),
        lines=(Line(points=points, kind="good", name=label, dots=()),),
    )


def _y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM)
