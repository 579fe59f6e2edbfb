"""A whole CoEvolve loop of a tiny policy: killed while tasks grow and while it plays them, it grows the same tasks and
makes the same versions as one that was left alone; what it shows is there; without signals nothing grows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from silva.lake import Lake
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.kind import COEVOLVE
from silva.loops.coevolve.stages import grow, signals
from silva.loops.coevolve.tasks import grown, held_out
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import read_shown
from silva.loops.line.head import registry
from silva.loops.roles import born

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")

BOXES = Path(__file__).parents[2] / "examples" / "coevolve" / "boxes.py"
TURN = """
import json, sys
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.kernel.turn import turn
turn(CoEvolveConfig.model_validate(json.loads(sys.argv[1])), here=True)
"""


def configuration(folder: Path) -> dict[str, Any]:
    """Little of everything: one round of the expert, two of the policy, one growth between them."""
    train = {"optimiser": {"learning_rate": 4e-3}, "batch": 8, "checkpoint_every": 20}
    return {
        "folder": str(folder),
        "line": "boxes",
        "env": f"{BOXES}:Boxes",
        "policy": {
            "base": "tiny",
            "method": "full",
            "dtype": "float32",
            "tiny_tasks": 40,
            "shape": {"width": 64, "inner": 128, "layers": 2, "context": 512},
        },
        "tasks": {"limit": 80, "train": 0.8, "dev": 0.1, "test": 0.1},
        "play": {"agent": "react", "pool": 16, "max_tokens": 32, "budget": {"turns": 6}, "hosts": {"inline": True}},
        "measure": {"seeds": 1, "dev": 4, "test": 4},
        "judge": {"every": 3},
        "initial": 12,
        "grow": {
            "contexts": 8,
            "tasks": 6,
            "signals": {"forgetting": {}, "boundary": {}, "rare": {"least": 20, "share": 20}},
            "explore": {"rounds": 2, "steps": 5},
            "explorer": {"name": "policy", "options": {"share": 0.8}},
            "abstracter": {"name": "hindsight", "options": {"least": 1, "whole": True}},
            "written": 1,
            "attempts": 2,
            "admission": {"validation": {"least": 1}},
        },
        "rounds": [
            {"source": "expert", "algorithm": {"name": "sft"}, "steps": 70, **train},
            {"times": 2, "tasks": 8, "group": 4, "algorithm": {"name": "grpo"}, "steps": 1, **train, "batch": 2},
        ],
        "threads": 1,
    }


def begin(folder: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", TURN, json.dumps(configuration(folder))]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)


def made(loop: Loop[CoEvolveConfig]) -> tuple[list[Any], list[str]]:
    with Lake.open(loop.lake, mode="read") as lake:
        judged = born(lake, loop.given("round-2.grow")["run"])
    tasks = [(task.id, how.verdict, how.reason, [str(each) for each in how.solution]) for task, how in judged]
    assert tasks
    return tasks, [each.digest for each in registry(loop).line("boxes").versions]


def test_a_killed_loop_grows_the_same_tasks_and_makes_the_same_versions(tmp_path: Path) -> None:
    left_alone = begin(tmp_path / "left alone")
    assert left_alone.wait(timeout=900) == 0
    folder = tmp_path / "killed"
    for stage in ("round-2.grow", "round-3.rollout"):
        process = begin(folder)
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and process.poll() is None:
            ledger = folder / "ledger.jsonl"
            if ledger.exists() and f'"stage":"{stage}"'.encode() in ledger.read_bytes():
                break
            time.sleep(0.02)
        time.sleep(0.3)  # into the stage
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert begin(folder).wait(timeout=900) == 0

    one, other = (read_loop(each)[1] for each in (tmp_path / "left alone", folder))
    assert set(other.ledger.over()) == {stage.name for stage in other.plan}
    assert made(one) == made(other)
    _grew(one)
    _shows(one)
    _without_signals(one)


def _grew(loop: Loop[CoEvolveConfig]) -> None:
    said = loop.given("round-2.grow")
    assert said["contexts"] == 8 and 16 <= said["turns"] <= 80 and said["walks"] == 16 and not said["remaining"]
    assert said["candidates"] and said["refused"]  # what is there already, and what the writer says and nobody can do
    tasks = grown(loop)
    places = {task.data["place"] for task in held_out(loop)}
    assert all(how.success and how.solution and task.data["place"] not in places for task, how in tasks)
    with Lake.open(loop.lake, mode="read") as lake:
        assert len(born(lake, said["run"])) == len(tasks) + sum(said["refused"].values())
        for task, how in tasks:
            seen = lake.trajectory(how.source.seen)  # the walk in which the signal was, and the walk from there
            assert seen.run_id == loop.given("round-2.rollout")["run"] and how.parent == seen.task_id
            assert lake.trajectory(how.source.trajectory).run_id.startswith(said["run"]) and task.born is not None
    assert loop.given("round-3.rollout")["known"] == 12 + len(tasks)


def _shows(loop: Loop[CoEvolveConfig]) -> None:
    found = read_shown(loop.folder)
    assert not found.faults and len(found.tasks) == loop.given("report-after-3")["tasks"]
    assert {"Signals", "Tasks", "Groups whose rewards differ", "SR@5 of new tasks"} <= {e.title for e in found.curves}
    assert {"From signals to tasks", "Who acted"} <= {each.title for each in found.tables}
    page = (loop.folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "Tasks born" in page


def _without_signals(loop: Loop[CoEvolveConfig]) -> None:
    values = {**configuration(loop.folder), "grow": {"signals": {"blamed": {}}}}
    blind = COEVOLVE.open(CoEvolveConfig.model_validate(values))
    stages = {stage.name: stage for stage in blind.plan}
    assert signals.run(blind, stages["round-2.signals"])["signals"] == {"blamed": 0}
    assert grow.run(blind, stages["round-2.grow"])["accepted"] == []  # nobody was blamed, so nothing is explored
