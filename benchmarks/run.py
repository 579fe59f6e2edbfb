"""All figures, one after another: what `make bench` runs.

    python benchmarks/run.py [--quick] [--safactory CHECKOUT]

Each benchmark runs in a process of its own and writes its own JSON; this prints which bars hold. Nothing else of weight
should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
BENCHMARKS = (
    "engine",
    "agents1000",
    "bfcl_hosts",
    "crash",
    "storage",
    "exact",
    "gateway",
    "gateway_swap",
    "gateway_hostile",
    "samples",
    "branching",
    "guidance",
    "masks",
    "ingest",
    "sealed",
    "elf",
)


def main() -> int:
    """Run them all; 0 when every bar holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="small runs, to see that they work; bars are not judged")
    parser.add_argument("--safactory", type=Path, help="a checkout of SAfactory's public repository")
    given = parser.parse_args()
    table, worst = Table(title="Figures"), 0
    for column in ("benchmark", "bar", "measured", "holds"):
        table.add_column(column)
    for name in BENCHMARKS:
        more = ["--quick"] if given.quick else []
        if name == "engine" and given.safactory:
            more += ["--safactory", str(given.safactory)]
        result = HERE / "results" / f"{name}{'.quick' if given.quick else ''}.json"
        before = _written(result)
        code = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *more], check=False).returncode
        worst = max(worst, code)
        if _written(result) == before:  # what lies there was measured another time
            table.add_row(name, "-", f"ended with {code}", "no")
            continue
        record = json.loads(result.read_text())
        table.add_row(name, record["bar"], str(record["ratio"]), "yes" if record["holds"] else "no")
    Console().print(table)
    return worst


def _written(result: Path) -> int:
    """When a result was written, in nanoseconds; 0 where there is none."""
    return result.stat().st_mtime_ns if result.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
