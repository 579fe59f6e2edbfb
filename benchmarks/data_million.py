"""A million rows: copies out, scored by rules, the best of each cluster kept; here with two processes, and on Daft with two workers.

rows made by a seed (two in ten are copies, one in twenty is broken) ─▶ Lance ─▶ `silva data select` ─▶ rows a second, peak memory

    python benchmarks/data_million.py                    # a million rows here, then on Daft (extra daft)
    python benchmarks/data_million.py --rows 100000      # fewer

Both make the same of every row: words' digest, quality by rules, vector (hashed words, projected to 64 dimensions); ranks, clusters and
quotas are one process's in both. The peak is of the largest process and of the sum of all at one moment, sampled twice a second.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from report import Measurement, arguments, hand_in, load

ROWS, KEPT = 1_000_000, 50_000
PART = 50_000


def make(path: Path, rows: int) -> None:
    """The table, in fragments."""
    import lance

    draw = np.random.default_rng(0)
    words = np.array(
        [
            f"{a}{b}{c}"
            for a in ("ka", "lo", "mi", "ne", "ru")
            for b in ("ba", "do", "fi", "gu")
            for c in ("n", "st", "r", "l", "m")
        ]
    )
    for begin in range(0, rows, PART):
        count = min(PART, rows - begin)
        picked = draw.choice(words, (count, 32))
        said = [" ".join(row) + "." for row in picked]
        for at in range(0, count, 5):  # a copy of a row near by, in other letters
            said[at] = said[(at + 7) % count].upper()
        for at in range(3, count, 20):
            said[at] = said[at][:40]
        table = pa.table({"key": [f"r{begin + at}" for at in range(count)], "said": said})
        lance.write_dataset(table, str(path), mode="append" if begin else "create", max_rows_per_file=PART)


def run(folder: Path, source: Path, on: str, keep: int) -> dict[str, Any]:
    """One selection: what it says, its wall and processor seconds, its peak memory."""
    output = folder / f"kept-{on}{'.lance' if on == 'daft' else '.parquet'}"
    words = [
        sys.executable,
        "-m",
        "silva",
        "data",
        "select",
        str(source),
        "columns.answer=said",
        "columns.id=key",
        "--by",
        "quality_rules",
    ]
    words += ["--keep", str(keep), "--on", on, "workers=2", "clusters=500", "-o", str(output), "--json"]
    began = time.perf_counter()
    child = psutil.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    largest = whole = 0
    used: dict[int, float] = {}
    while child.poll() is None:
        sizes: list[int] = []
        for each in (child, *_children(child)):
            try:
                sizes.append(each.memory_info().rss)
                used[each.pid] = sum(each.cpu_times()[:2])
            except psutil.Error:
                continue
        largest, whole = max([largest, *sizes]), max(whole, sum(sizes))
        time.sleep(0.5)
    said, wrong = child.communicate()
    if child.returncode:
        raise SystemExit(f"{on}: {wrong[-800:]}")
    told = json.loads(said)
    return {
        "on": on, "seconds": time.perf_counter() - began, "processor_seconds": sum(used.values()),
        "largest_GB": largest / 1e9, "all_GB": whole / 1e9, "fates": told["fates"],
    }  # fmt: skip


def _children(child: psutil.Popen) -> list[psutil.Process]:
    try:
        return child.children(recursive=True)
    except psutil.Error:
        return []


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--here", action="store_true", help="leave Daft out")
    given = parser.parse_args()
    before, rows = load(), 20_000 if given.quick else given.rows
    keep = max(100, rows * KEPT // ROWS)
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "rows.lance"
        make(source, rows)
        ways = ["here"] + ["daft"] * (not given.here and importlib.util.find_spec("daft_lance") is not None)
        made = [run(Path(name), source, on, keep) for on in ways]
    table = [
        {"on": each["on"], "rows": rows, "seconds": each["seconds"], "rows a second": rows / each["seconds"],
         "processor seconds": each["processor_seconds"], "largest process GB": each["largest_GB"], "all GB": each["all_GB"],
         "kept": each["fates"]["kept"], "copies": each["fates"].get("copy", 0)}
        for each in made
    ]  # fmt: skip
    same = all(each["fates"] == made[0]["fates"] for each in made)
    return hand_in(
        Measurement(
            name="data_million",
            question=f"What does it take to choose among {rows:,} rows, here and on Daft?",
            bar="both keep as many and find the same copies",
            ratio=made[-1]["seconds"] / made[0]["seconds"],
            holds=same,
            rows=table,
            details={"made": made},
            quick=given.quick,
        ),
        before,
    )


if __name__ == "__main__":
    raise SystemExit(main())
