"""What every benchmark hands in: a table for people, and one JSON file under `results/`.

    Measurement(name, bar, rows) ─▶ table on the terminal ─▶ results/NAME.json ─▶ exit code (0: the bar holds)

A figure without something beside it says little, so every file holds the ratio against a peer or a bound measured in
the same run, with the versions, the number of cores and the load of the machine while it ran. No path and no host name
is written.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("silva", "msgspec", "aiohttp", "uvloop", "lancedb", "pyarrow", "duckdb")


@dataclass
class Measurement:
    """One benchmark's outcome. `ratio` is what `bar` is about; `holds` says whether it is met."""

    name: str
    question: str
    bar: str
    ratio: float
    holds: bool
    rows: list[dict[str, Any]]
    details: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    quick: bool = False


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The arguments every benchmark takes: `--quick`."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="a smaller run, to see that it works; the bar is not judged"
    )
    return parser


def hand_in(measured: Measurement, load_before: float) -> int:
    """Print the table, write the JSON, and return the exit code. A quick run is written as `NAME.quick.json`."""
    console = Console()
    table = Table(title=measured.question, title_justify="left")
    for column in measured.rows[0]:
        table.add_column(
            column.replace("_", " "), justify="left" if column == next(iter(measured.rows[0])) else "right"
        )
    for row in measured.rows:
        table.add_row(*(_shown(value) for value in row.values()))
    console.print(table)
    verdict = "holds" if measured.holds else "does not hold"
    if measured.quick:
        verdict += " (a quick run: not judged)"
    console.print(f"{measured.bar}: measured {_shown(measured.ratio)}, {verdict}")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{measured.name}{'.quick' if measured.quick else ''}.json"
    path.write_text(json.dumps(_record(measured, load_before), indent=2) + "\n")
    console.print(f"written to results/{path.name}")
    return 0 if measured.holds or measured.quick else 1


def load() -> float:
    """How many processes wanted a core over the last minute; above the number of cores, figures suffer."""
    return round(os.getloadavg()[0], 2)


def _record(measured: Measurement, load_before: float) -> dict[str, Any]:
    return {
        "benchmark": measured.name,
        "question": measured.question,
        "bar": measured.bar,
        "ratio": round(measured.ratio, 4),
        "holds": measured.holds,
        "quick": measured.quick,
        "rows": measured.rows,
        "details": measured.details,
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *map(_nameless, sys.argv[1:])]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": platform.system(),
            "processor": platform.machine(),
            "load_before": load_before,
            "load_after": load(),
        },
        "versions": {"python": platform.python_version(), **_packages(PACKAGES), **measured.versions},
    }


def _nameless(word: str) -> str:
    """An argument as it may stand in a result."""
    if "://" in word:
        return "URL"
    return "PATH" if Path(word).is_absolute() else word


def _packages(names: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            sys.stderr.write(f"{name} is not installed as a package; its version is left out\n")
    return found


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
