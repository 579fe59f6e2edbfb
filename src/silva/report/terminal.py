"""A summary as tables in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silva.report.compare import Comparison, Difference
from silva.report.interval import Interval
from silva.report.summary import Summary
from silva.report.wording import MISSING, bounds, dollars, number, percent, seconds, share, unsaid

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_summary(summary: Summary, console: Console) -> None:
    """Print the figures of a run: per environment, where attempts broke, where time went."""
    if not summary.attempts:
        console.print("No attempt has ended yet: nothing to sum up.")
        return
    console.print(_environments(summary))
    if len(summary.passes) > 1:
        console.print(_passes(summary))
    if summary.roles:
        console.print(_roles(summary))
    if summary.counted:
        console.print(_counted(summary))
    if summary.failures:
        console.print(_failures(summary))
    console.print(_costs(summary))
    for line in unsaid(summary):
        console.print(line)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print what changed from the left run to the right one, on the tasks both judged."""
    table = _table(f"{comparison.right} against {comparison.left}: success in percent")
    table.add_column("environment", no_wrap=True)
    for heading in ("tasks", comparison.left, comparison.right, "change", "better / worse"):
        table.add_column(heading, justify="right")
    rows = [*comparison.envs, comparison.overall] if len(comparison.envs) > 1 else [comparison.overall]
    for row in rows:
        table.add_row(*_difference(row, comparison.envs))
    console.print(table)
    if comparison.only_left or comparison.only_right:
        console.print(
            f"Left out: {comparison.only_left} tasks judged only in {comparison.left}, "
            f"{comparison.only_right} only in {comparison.right}."
        )


def _difference(row: Difference, envs: tuple[Difference, ...]) -> list[str]:
    return [
        row.env or (envs[0].env if len(envs) == 1 else "all"),
        str(row.tasks),
        share(row.left),
        share(row.right),
        _change(row.success),
        f"{row.better} / {row.worse}",
    ]


def _change(interval: Interval | None) -> str:
    if interval is None:
        return MISSING
    return f"{share(interval.value, signed=True)} {bounds(interval, signed=True)}".strip()


def _environments(summary: Summary) -> Table:
    table = _table("Success in percent, with 95 % intervals by task")
    table.add_column("environment", no_wrap=True)
    for heading in ("tasks", "tries", "success", "score", "over null", "broke"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in _rows(summary):
        table.add_row(
            row.env or "all",
            str(row.tasks),
            str(row.attempts),
            f"{share(row.success.value if row.success else None)} {bounds(row.success)}".strip(),
            share(row.score.value if row.score else None),
            share(row.lift.value if row.lift else None, signed=True),
            str(row.failed),
        )
    return table


def _passes(summary: Summary) -> Table:
    largest = summary.passes[-1].k
    shown = sorted({1, largest, *(2**i for i in range(1, 5) if 2**i < largest)})
    table = _table("pass@k / pass^k in percent")
    table.add_column("environment", no_wrap=True)
    for k in shown:
        table.add_column(f"k = {k}", justify="right", no_wrap=True)
    for row in _rows(summary):
        at = {item.k: item for item in row.passes}
        cells = [f"{share(at[k].any)} / {share(at[k].all)}" if k in at else MISSING for k in shown]
        table.add_row(row.env or "all", *cells)
    return table


def _roles(summary: Summary) -> Table:
    table = _table("Roles, each an agent of its own")
    table.add_column("role", no_wrap=True)
    table.add_column("played by")
    for heading in ("tries", "turns", "score", "tokens"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in summary.roles:
        score = f"{share(row.score.value if row.score else None)} {bounds(row.score)}".strip()
        tokens = number(row.prompt_tokens + row.completion_tokens)
        table.add_row(row.role, ", ".join(row.models), str(row.attempts), number(row.turns), score, tokens)
    return table


def _counted(summary: Summary) -> Table:
    table = _table("Counted by the environment, in percent")
    table.add_column("environment", no_wrap=True)
    table.add_column("figure", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("right of asked")
    for row in summary.counted:
        share_of = f"{share(row.share.value if row.share else None)} {bounds(row.share)}".strip()
        table.add_row(row.env, row.title, share_of, f"{row.right} of {row.asked} {row.of}")
    return table


def _rows(summary: Summary) -> list[Summary]:
    return [*summary.envs, summary] if len(summary.envs) != 1 else [*summary.envs]


def _failures(summary: Summary) -> Table:
    from rich.text import Text

    table = _table("Where attempts broke")
    table.add_column("boundary", no_wrap=True)
    table.add_column("code", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("first message")
    for failure in summary.failures:
        # As text, never markup: the words may be an environment's.
        words = Text(" ".join(failure.example.split())[:120])
        table.add_row(failure.boundary.value, failure.code, str(failure.count), words)
    return table


def _costs(summary: Summary) -> Table:
    table = _table("Cost and time, summed over attempts")
    table.add_column("")
    table.add_column("total", justify="right")
    table.add_column("median", justify="right")
    table.add_column("95th percentile", justify="right")
    for name, spread in (
        ("turns", summary.turns),
        ("prompt tokens", summary.prompt_tokens),
        ("completion tokens", summary.completion_tokens),
    ):
        silent = name != "turns" and summary.silent["tokens"] == summary.attempts
        table.add_row(name, *((MISSING,) * 3 if silent else map(number, (spread.total, spread.median, spread.p95))))
    clock = summary.seconds
    silent = summary.silent["seconds"] == summary.attempts
    table.add_row("seconds", *((MISSING,) * 3 if silent else map(seconds, (clock.total, clock.median, clock.p95))))
    waiting = summary.waiting
    total = waiting.total or 1.0
    for name, value in (
        ("waiting for the model", waiting.model),
        ("waiting for the environment", waiting.environment),
        ("in Silva", waiting.silva),
        ("elsewhere", waiting.other),
    ):
        table.add_row(f"  {name}", seconds(value), percent(value / total), "")
    if summary.usd:
        table.add_row("US dollars", dollars(summary.usd), "", "")
        if summary.spent_superseded.usd:
            table.add_row("  of it superseded", dollars(summary.spent_superseded.usd), "", "")
    return table


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
