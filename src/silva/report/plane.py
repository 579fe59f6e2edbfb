"""A plane of two shares: points with their intervals on both axes, laid out for SVG that needs no script.

values with intervals ─▶ Plane (ticks, numbered spots, and what each interval spans)
"""

from __future__ import annotations

from collections.abc import Iterable

from silva.report.charts import Tick
from silva.report.interval import Interval
from silva.tree import Record

WIDTH, HEIGHT = 620.0, 440.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 18.0, 46.0
TONES = 6
"""Colours that are told apart; more groups share them, and keep their numbers."""


class Spot(Record, frozen=True, kw_only=True):
    """A point at (x, y); `across` and `up` are the ends of its intervals on the canvas, None where they are not known.
    `number` stands in it."""

    x: float
    y: float
    tone: int
    title: str
    number: int
    across: tuple[float, float] | None = None
    up: tuple[float, float] | None = None


class Plane(Record, frozen=True, kw_only=True):
    """The plane, ready to draw."""

    name: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    spots: tuple[Spot, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    floor: float = HEIGHT - BOTTOM


class Value(Record, frozen=True, kw_only=True):
    """What is placed: a share across and a share up, in [0, 1], and what pointing at it says."""

    across: Interval
    up: Interval
    tone: int
    title: str
    number: int


def plane(values: Iterable[Value], name: str, x_label: str, y_label: str) -> Plane | None:
    """Lay values out, the first on top; None without values."""
    ordered = sorted(values, key=lambda each: -each.number)
    if not ordered:
        return None
    ticks = [step / 4 for step in range(5)]
    return Plane(
        name=name,
        x_label=x_label,
        y_label=y_label,
        x_ticks=tuple(Tick(at=_x(tick), label=f"{100 * tick:.0f} %") for tick in ticks),
        y_ticks=tuple(Tick(at=_y(tick), label=f"{100 * tick:.0f} %") for tick in ticks),
        spots=tuple(_spot(each) for each in ordered),
    )


def _spot(value: Value) -> Spot:
    across, up = value.across, value.up
    return Spot(
        x=_x(across.value),
        y=_y(up.value),
        tone=value.tone % TONES,
        title=value.title,
        number=value.number,
        across=None if across.low is None or across.high is None else (_x(across.low), _x(across.high)),
        up=None if up.low is None or up.high is None else (_y(up.low), _y(up.high)),
    )


def _x(share: float) -> float:
    return LEFT + 16 + share * (WIDTH - LEFT - RIGHT - 32)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - 16 - share * (HEIGHT - TOP - BOTTOM - 32)
