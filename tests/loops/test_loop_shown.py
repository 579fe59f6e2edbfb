"""What a loop shows of itself: read as far as it can be, bounded, and printed as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from silva.cli.config import load
from silva.cli.loop import app
from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.kind import FLYWHEEL
from silva.loops.kernel.ledger import Entry
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.seen import state
from silva.loops.kernel.shown import FILE, MOST_POINTS, Born, Curve, Shown, read_shown, write_shown
from silva.loops.kernel.turn import LOCK

EXAMPLE = Path(__file__).parents[2] / "examples" / "flywheel" / "tiny.yaml"
DIFF = "--- a\n+++ b\n@@ -1 +1 @@\n-keep(raw)\n+keep(raw)[:9]\x1b[2J"


@pytest.fixture
def begun(tmp_path: Path) -> Loop[Any]:
    """A loop whose base was measured; its first training is under way."""
    loop = FLYWHEEL.open(load(FlywheelConfig, EXAMPLE, [f"folder={tmp_path}"]))
    loop.keep_config()
    inputs = {stage.name: stage.inputs for stage in loop.plan}
    told = {"version": "tiny-0", "episodes": 4, "success": 0.25, "low": 0.1, "high": 0.5}
    for name, outputs in (("base", {"version": "tiny-0"}), ("measure", told)):
        entry = Entry(stage=name, event="ended", inputs=inputs[name], at=1.0, seconds=2.0, outputs=outputs)
        loop.ledger.append(entry)
    train = tmp_path / "rounds" / "1" / "train"
    train.mkdir(parents=True)
    (train / "curves.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": null}\n{"step": 3', "utf-8")
    return loop


def test_a_report_is_read_as_far_as_it_can_be_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    long = list(range(10 * MOST_POINTS))
    curves: list[Any] = [
        {"title": "long", "x": long, "series": {"y": long}},
        {"title": "apart", "x": [1, 2], "series": {"y": [1]}},
        {"title": "named", "x": ["a", "b"], "series": {"y": [float("nan"), 1]}},
    ]
    tasks = [{"id": "t", "words": "do", "by": "hindsight", "parent": {"node": "n"}}, "no task", {"words": "no id"}]
    (tmp_path / FILE).write_text(json.dumps({"curves": curves, "tasks": tasks, "pairs": 3, "later": []}), "utf-8")
    found = read_shown(tmp_path)
    assert [each.title for each in found.curves] == ["long", "named"] and len(found.curves[0].x) == MOST_POINTS
    assert found.curves[1].series == {"y": (None, 1.0)}
    assert found.tasks == (Born(id="t", words="do", parent='{"node": "n"}', more={"by": "hindsight"}),)
    assert [fault.split(": ")[1].split(" (")[0] for fault in found.faults] == [
        "curves 2 is none",
        "tasks 2 is none",
        "tasks 3 is none",
        "pairs is no list",
    ]
    write_shown(tmp_path, found)
    assert read_shown(tmp_path) == Shown(curves=found.curves, tasks=found.tasks)
    (tmp_path / FILE).write_text("{", "utf-8")
    assert "cannot be read" in read_shown(tmp_path).faults[0]


def test_show_draws_what_runs_and_what_the_report_says_and_lets_nothing_drive_the_terminal(
    begun: Loop[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    versions = [{"digest": "d" * 64, "parent": "p" * 64, "diff": DIFF, "verdict": "kept", "j": 0.25}]
    pairs = [{"parent": "p", "chosen": "left", "rejected": "right", "verifier": "completions", "gap": 0.5}]
    tasks = [{"id": f"born/{n}", "signal": "rare", "verdict": "accepted"} for n in range(30)]
    said = {"curves": [], "tasks": tasks, "pairs": pairs, "versions": versions}
    (begun.folder / FILE).write_text(json.dumps(said), encoding="utf-8")

    def show(*more: str) -> str:
        assert not app(["show", str(begun.folder), *more], standalone_mode=False)
        return capsys.readouterr().out

    text = show()
    assert "Success on dev by version" in text and "Round 1: loss" in text  # no report has said so yet
    assert "tasks born: 30 (rare, accepted: 30)" in text and "born/29" not in text and "born/29" in show("--all")
    assert "version dddddddddddd from pppppppppppp: kept, J 0.2500" in text and "+keep(raw)[:9]<U+001B>[2J" in text
    body = json.loads(show("--json"))
    assert body["state"] == "stopped" and body["pairs"][0]["gap"] == 0.5
    assert body["curves"][0] == {
        "title": "Success on dev by version",
        "x": ["tiny-0"],
        "series": {"success": [0.25], "success low": [0.1], "success high": [0.5]},
    }
    if Path("/proc/locks").exists():
        with FileLock(begun.folder / LOCK):
            assert state(begun) == "running"
    assert begun.plan[0].name == body["stages"][0]["name"] and body["stages"][0]["state"] == "ended"


def test_what_a_kind_shows_stands_before_its_report_and_is_not_said_twice() -> None:
    one = Curve(title="one", x=(1,), series={"y": (1.0,)})
    old = Shown(curves=(Curve(title="one", x=(1,), series={"y": (0.0,)}),), tasks=(Born(id="a"),))
    assert Shown(curves=(one,)).beside(old) == Shown(curves=(one,), tasks=(Born(id="a"),))
