"""How figures are put into words: one place, so that the terminal and the page never disagree."""

from __future__ import annotations

from datetime import UTC, datetime

from silva.report.interval import Interval
from silva.report.summary import Summary

MISSING = "–"


def percent(value: float | None, *, signed: bool = False) -> str:
    """A share as a percentage with one decimal."""
    if value is None:
        return MISSING
    return f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"


def share(value: float | None, *, signed: bool = False) -> str:
    """A share in percent without the sign, for tables whose heading says so."""
    if value is None:
        return MISSING
    return f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"


def bounds(interval: Interval | None, *, signed: bool = False) -> str:
    """The 95 % interval in percent, in brackets."""
    if interval is None or interval.low is None or interval.high is None:
        return ""
    sign = "+" if signed else ""
    return f"[{100 * interval.low:{sign}.1f}, {100 * interval.high:{sign}.1f}]"


def number(value: float | None) -> str:
    """A quantity in at most four figures: 12, 3.4, 12.3k, 4.5M."""
    if value is None:
        return MISSING
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = 1e3 if suffix == "k" else limit
            return f"{value / scale:.1f}{suffix}"
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.1f}"


def dollars(value: float) -> str:
    """US dollars: cents where they matter, more digits where the sum is small."""
    return "$0" if value == 0 else f"${value:.4f}" if value < 0.1 else f"${value:,.2f}"


def seconds(value: float) -> str:
    """A duration in the unit a person would use."""
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    if value < 3600:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"


def unsaid(summary: Summary) -> list[str]:
    """What figures of a summary could not be made of, a line each."""
    lines = [
        f"{count:,} of {summary.attempts:,} attempts say nothing of their {name}: they are left out of that figure."
        for name, count in summary.silent.items()
        if count
    ]
    spent = summary.spent_superseded
    if spent.attempts:
        tokens = spent.prompt_tokens + spent.completion_tokens
        cost = f" and {dollars(spent.usd)}" if spent.usd else ""
        lines.append(
            f"{spent.attempts:,} superseded attempts count nowhere else; they took {number(tokens)} tokens{cost}."
        )
    return lines


def moment(unix: float) -> str:
    """A point in time, in UTC."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if unix else MISSING
