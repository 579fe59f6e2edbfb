"""A loop in a folder, under way, with something of everything that a loop shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from silva.cli.config import load
from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.kind import FLYWHEEL
from silva.loops.kernel.ledger import Entry
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.progress import teller
from silva.loops.kernel.shown import FILE

EXAMPLE = Path(__file__).parents[2] / "examples" / "flywheel" / "tiny.yaml"
DIFF = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n def curate(raw):\n-    return raw\n+    return raw[:9]  # <i>\u202e\n"


def entry(loop: Loop[Any], name: str, event: Any, **more: Any) -> None:
    """One more line of its ledger."""
    inputs = next(stage.inputs for stage in loop.plan if stage.name == name)
    loop.ledger.append(Entry(stage=name, event=event, inputs=inputs, at=1.0, seconds=2.0, **more))


def running_loop(folder: Path, chosen: str, rejected: str) -> Loop[Any]:
    """A flywheel whose second stage runs; its report names two steps as a pair."""
    made = FLYWHEEL.open(load(FlywheelConfig, EXAMPLE, [f"folder={folder}"]))
    made.keep_config()
    entry(made, "base", "ended", outputs={"version": "tiny-0"})
    entry(made, "survey", "begun")
    teller(made, made.plan[1], "episodes")(3, 9)
    said = {
        "curves": [{"title": "Success over steps", "x": [0, 5], "series": {"static": [0.1, 0.2], "grown": [0.1, 0.4]}}],
        "tables": [{"title": "Signals", "columns": ["signal", "tasks"], "rows": [["rare", 3]]}],
        "tasks": [{"id": "born/1", "words": "put the <b>key</b>", "signal": "rare", "verdict": "accepted", "by": "me"}],
        "pairs": [{"chosen": chosen, "rejected": rejected, "verifier": "completions", "gap": 0.5}],
        "versions": [{"digest": "c" * 64, "parent": "a" * 64, "diff": DIFF, "verdict": "rolled back", "j": 0.25}],
    }
    (folder / FILE).write_text(json.dumps(said), encoding="utf-8")
    return made
