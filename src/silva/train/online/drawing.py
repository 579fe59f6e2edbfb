"""A timeline as a page: what every lane grew, what the trainer did, and where one waited for the other.

    generation  one row a lane (of a large pool: the share of lanes in use), coloured by step window; held: hatched
    training    wait, train, publish and commit, in one row

One file without scripts from elsewhere; hovering a span tells its times. After figure 19 of Safactory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from silva.train.online.timeline import TRAINING, Span

WIDTH, LEFT = 1200, 96
LANE, ROW, GAP = 9, 22, 14
MOST_LANES, MOST_SPANS = 32, 20_000
BINS = 600
_COLOURS = {"train": "#3b6ea5", "wait": "#e8e4da", "publish": "#c98a2b", "commit": "#8a5a9e", "held": "#d9534f"}
_TONES = ("#4f8a5b", "#86b07f")


def page(name: str, said: Mapping[str, Any], spans: Sequence[Span], pool: int) -> str:
    """The page.

    Args:
        name: the run's.
        said: its summary, shown as it is.
        spans: of one session.
        pool: lanes there are.
    """
    title = f"{escape(name)}: {escape(str(said.get('mode', '')))}, bound {escape(str(said.get('bound', '')))}"
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f"{_table(said)}{figure(spans, pool)}{_legend()}</html>\n"
    )


def figure(spans: Sequence[Span], pool: int, end: float | None = None) -> str:
    """The timeline as SVG; from 0 to `end` seconds (None: to the last span's end)."""
    end = end or max((span.end for span in spans), default=1.0) or 1.0
    scale = (WIDTH - LEFT) / end
    parts: list[str] = []
    rollouts = [span for span in spans if span.kind == "rollout"]
    lanes = pool <= MOST_LANES and len(rollouts) <= MOST_SPANS
    height = LANE * pool if lanes else 4 * ROW
    if lanes:
        commits = sorted(span.end for span in spans if span.kind == "commit")
        for span in rollouts:
            tone = _TONES[sum(at <= span.start for at in commits) % 2]
            parts.append(_bar(span, scale, LANE * span.lane, LANE - 1, tone))
    else:
        parts.append(_curve(rollouts, pool, end, height))
    top = height + 4
    parts += [_bar(span, scale, top, 5, _COLOURS["held"]) for span in spans if span.kind == "held"]
    top += 5 + GAP
    parts += [_bar(span, scale, top, ROW, _COLOURS[span.kind]) for span in spans if span.kind in TRAINING]
    bottom = top + ROW
    axis = _axis(end, scale, bottom)
    labels = f"<text x=0 y={height / 2:.0f}>generation</text><text x=0 y={top + ROW / 2 + 4:.0f}>training</text>"
    return f'<svg viewBox="0 0 {WIDTH + 8} {bottom + 34}" role="img">{labels}{"".join(parts)}{axis}</svg>'


def _bar(span: Span, scale: float, y: float, height: float, colour: str) -> str:
    what = (
        span.kind
        + (f" of group {span.group}" if span.group else "")
        + (f", version {span.step}" if span.step >= 0 else "")
    )
    told = escape(f"{what}: {span.start:.2f} to {span.end:.2f} s")
    x, width = LEFT + span.start * scale, max(0.4, (span.end - span.start) * scale)
    place = f'x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}"'
    return f'<rect {place} fill="{colour}"><title>{told}</title></rect>'


def _curve(rollouts: Sequence[Span], pool: int, end: float, height: float) -> str:
    """The share of lanes in use, over time."""
    busy = [0.0] * BINS
    width = end / BINS
    for span in rollouts:
        first, last = int(span.start / width), min(BINS - 1, int(span.end / width))
        for place in range(first, last + 1):
            busy[place] += max(0.0, min(span.end, (place + 1) * width) - max(span.start, place * width))
    step = (WIDTH - LEFT) / BINS
    points = " ".join(
        f"{LEFT + (place + 0.5) * step:.1f},{height * (1 - min(1.0, value / (width * pool))):.1f}"
        for place, value in enumerate(busy)
    )
    return f'<polygon points="{LEFT},{height} {points} {WIDTH},{height}" fill="{_TONES[0]}"/>'


def _axis(end: float, scale: float, y: float) -> str:
    step = next((each for each in (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600) if end / each <= 12), 7200)
    parts = []
    for place in range(int(end / step) + 1):
        x = LEFT + place * step * scale
        parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{y + 4:.0f}" class="tick"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.0f}" text-anchor="middle">{place * step:g} s</text>')
    return "".join(parts)


def _table(said: Mapping[str, Any]) -> str:
    rows: list[str] = []
    for key, value in said.items():
        if isinstance(value, Mapping):
            inner = ", ".join(f"{name.replace('_', ' ')} {_number(each)}" for name, each in value.items())
            value = inner or "none"
        rows.append(f"<tr><th>{escape(key.replace('_', ' '))}</th><td>{escape(str(value))}</td></tr>")
    return f"<table>{''.join(rows)}</table>"


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _legend() -> str:
    told = {"rollout": _TONES[0], **_COLOURS}
    words = {"rollout": "trajectory (tones change with each version)", "held": "generation waits for a permit"}
    words |= {"wait": "training waits for groups"}
    return (
        "<p>"
        + " ".join(
            f'<span><i style="background:{colour}"></i>{escape(words.get(kind, kind))}</span>'
            for kind, colour in told.items()
        )
        + "</p>"
    )


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#222;background:#fdfcf9}h1{font-size:1.2rem}"
    "svg{width:100%;height:auto;font-size:11px;fill:#555}.tick{stroke:#0002}"
    "table{border-collapse:collapse;margin-bottom:1.5rem}th{text-align:left;font-weight:500;padding-right:1.5rem;"
    "vertical-align:top}p span{margin-right:1.2rem}i{display:inline-block;width:.9em;height:.9em;margin-right:.35em}"
)
