"""A donut: the shares of a whole as an SVG picture that needs no script."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from math import cos, pi, sin

COLOURS = ("#2f6f8f", "#d98e32", "#5a9e6f", "#b5534f", "#8064a2", "#8a8a8a", "#c9b458", "#4fa3a5")
_RADIUS, _HOLE, _WIDTH, _LINE = 90.0, 54.0, 560, 22


def donut(title: str, shares: Mapping[str, int], most: int = 8) -> str:
    """The picture of counts by name, largest first; what is beyond `most` names is summed up as *others*."""
    ranked = sorted(shares.items(), key=lambda each: -each[1])
    if len(ranked) > most:
        ranked = [*ranked[: most - 1], ("others", sum(count for _, count in ranked[most - 1 :]))]
    whole = sum(count for _, count in ranked) or 1
    height = max(2 * _RADIUS + 20, 40 + _LINE * len(ranked))
    drawn: list[str] = []
    begin = 0.0
    for place, (name, count) in enumerate(ranked):
        colour = COLOURS[place % len(COLOURS)]
        share = count / whole
        drawn.append(f'<path d="{_arc(begin, share, height / 2)}" fill="{colour}"><title>{escape(name)}</title></path>')
        y = 34 + _LINE * place
        drawn.append(f'<rect x="220" y="{y - 11}" width="12" height="12" fill="{colour}"/>')
        drawn.append(f'<text x="240" y="{y}">{escape(name)}: {count:,} ({share:.1%})</text>')
        begin += share
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:g}" role="img" '
        f'font-family="sans-serif" font-size="13"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(drawn)}</svg>\n'
    )


def _arc(begin: float, share: float, middle: float) -> str:
    """A ring's piece from the share `begin` on; a whole ring is drawn as nearly one, since an arc needs two ends."""
    start, stop = 2 * pi * begin, 2 * pi * (begin + min(share, 0.9999))
    large = int(share > 0.5)
    points = [
        (_RADIUS + 10 + radius * sin(angle), middle - radius * cos(angle))
        for radius, angle in ((_RADIUS, start), (_RADIUS, stop), (_HOLE, stop), (_HOLE, start))
    ]
    a, b, c, d = (f"{x:.2f} {y:.2f}" for x, y in points)
    return f"M {a} A {_RADIUS} {_RADIUS} 0 {large} 1 {b} L {c} A {_HOLE} {_HOLE} 0 {large} 0 {d} Z"
