"""A whole flywheel of a tiny policy in a real environment: killed, gone on with, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from silva.loops.flywheel.loop import Loop

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")

LOOP = "import sys; from silva.cli.loop import app; sys.exit(app(sys.argv[1:], standalone_mode=False) or 0)"


def sums(path: Path) -> Path:
    """Tasks of arithmetic that a tiny policy learns within seconds: a number and nought."""
    rows = [
        {
            "id": f"sum/{n}",
            "env": "arithmetic",
            "instruction": f"{n} + 0 = ?",
            "split": "train",
            "data": {"numbers": [n, 0]},
        }
        for n in range(10, 70)
    ]
    path.write_text("".join(yaml.safe_dump([row]) for row in rows), encoding="utf-8")
    return path


def configuration(folder: Path, tasks: Path) -> dict[str, Any]:
    train = {"batch": 16, "checkpoint_every": 20}
    return {
        "folder": str(folder),
        "line": "sums",
        "env": "arithmetic",
        "policy": {
            "base": "tiny",
            "method": "full",
            "dtype": "float32",
            "tiny_tasks": 20,
            "shape": {"width": 64, "inner": 128, "layers": 2, "context": 256},
        },
        "tasks": {"file": str(tasks), "train": 0.5, "dev": 0.25, "test": 0.25},
        "play": {"agent": "tools", "pool": 8, "max_tokens": 8},
        "measure": {"seeds": 1},
        "rounds": [
            {"source": "expert", "optimiser": {"learning_rate": 5e-3}, "steps": 60, **train},
            {
                "tasks": 10,
                "group": 6,
                "algorithm": {"name": "grpo"},
                "optimiser": {"learning_rate": 2e-4},
                "steps": 6,
                **train,
            },
        ],
    }


@pytest.fixture
def begin() -> Iterator[Callable[[Path], subprocess.Popen[bytes]]]:
    begun: list[subprocess.Popen[bytes]] = []

    def start(config: Path) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen([sys.executable, "-c", LOOP, "flywheel", str(config)], start_new_session=True))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()


def test_a_killed_loop_goes_on_to_its_report_with_one_version_a_round(
    tmp_path: Path, begin: Callable[[Path], subprocess.Popen[bytes]]
) -> None:
    folder = tmp_path / "loop"
    config = tmp_path / "loop.yaml"
    config.write_text(yaml.safe_dump(configuration(folder, sums(tmp_path / "tasks.yaml"))), encoding="utf-8")
    for stage in ("survey", "round-1.train"):  # both go on inside: by the run's name, by the checkpoint
        process = begin(config)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            begun = (folder / "ledger.jsonl").read_bytes() if (folder / "ledger.jsonl").exists() else b""
            if f'"stage":"{stage}"'.encode() in begun:
                break
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert begin(config).wait(timeout=600) == 0
    loop = Loop.read(folder)
    over = loop.ledger.over()
    assert set(over) == {stage.name for stage in loop.plan}
    assert [entry.stage for entry in loop.ledger.entries if entry.event == "begun"].count("survey") == 2
    line = loop.registry().line("sums")
    keys = [version.key for version in line.versions[1:]]
    assert len(keys) == len(set(keys)) >= 1
    judged = loop.given("round-1.judge")
    assert (line.versions[line.head].name == "sums-0") == (
        not any((loop.outputs(f"round-{n}.judge") or {}).get("promoted") for n in (1, 2))
    )
    assert judged["verdict"]["tasks"] > 5
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "sums-1" in page and "<svg" in page
    again = begin(config)
    assert again.wait(timeout=60) == 0
    assert len(Loop.read(folder).ledger.entries) == len(loop.ledger.entries)
