"""What `make demo` promises: in a quarter of an hour a small model gets better at tasks that no decision saw.

    python benchmarks/demo.py

The commands of the demo, in a folder of its own: the environment is installed (where it is, that takes a moment), the
loop of `examples/flywheel/demo.yaml` turns. Wall time of all of it, of every stage, and the proof on the test tasks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import Measurement, arguments, hand_in

MOST_SECONDS = 900.0
CONFIG = Path(__file__).parents[1] / "examples" / "flywheel" / "demo.yaml"


def turned(folder: Path, *more: str) -> float:
    """Run the demo; seconds."""
    silva = [sys.executable, "-m", "silva"]
    began = time.perf_counter()
    for command in (["envs", "install", "babyai"], ["loop", "flywheel", str(CONFIG), f"folder={folder}", *more]):
        subprocess.run([*silva, *command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def stages(folder: Path) -> list[dict[str, Any]]:
    """What the loop wrote of every stage that ended."""
    lines = (folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if entry["event"] == "ended"]


def main() -> int:
    """Measure it; 0 where it is quick enough and the gain's interval lies above 0."""
    given = arguments(__doc__).parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="silva-demo-") as name:
        folder = Path(name) / "loop"
        seconds = turned(folder, *(["measure.dev=4", "measure.test=4"] if given.quick else []))
        found = stages(folder)
    verdict = next(entry["outputs"]["verdict"] for entry in reversed(found) if "prove" in entry["stage"])
    gain = verdict["gain"]
    return hand_in(
        Measurement(
            name="demo",
            question="How long does the demo take, and what does the model learn in it?",
            bar="15 minutes; the gain's interval above 0",
            ratio=round(seconds / MOST_SECONDS, 3),
            holds=seconds <= MOST_SECONDS and gain["low"] > 0,
            rows=[
                {
                    "minutes": round(seconds / 60, 1),
                    "tasks": verdict["tasks"],
                    "before": round(verdict["left_rate"], 3),
                    "after": round(verdict["right_rate"], 3),
                    "gain": round(gain["value"], 3),
                    "low": round(gain["low"], 3),
                    "high": round(gain["high"], 3),
                }
            ],
            details={"stages": {entry["stage"]: round(entry["seconds"], 1) for entry in found}},
            quick=given.quick,
        ),
        load,
    )


if __name__ == "__main__":
    sys.exit(main())
