"""A whole flywheel of a tiny policy in a real environment: killed, gone on with, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from small_flywheel import configuration, sums

from silva.loops.kernel.kinds import read_loop
from silva.loops.line.head import registry

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")


def test_a_killed_loop_goes_on_to_its_report_with_one_version_a_round(
    tmp_path: Path, begin: Callable[[Path], subprocess.Popen[bytes]]
) -> None:
    folder = tmp_path / "loop"
    config = tmp_path / "loop.yaml"
    tasks = sums(tmp_path / "tasks.jsonl", 60)
    values = configuration(folder, tasks, line="sums", seeds=1, played=10, steps=6, every=20)
    values["rounds"] = values["rounds"][:1]  # what the policy played itself is trained on in README.md's loop
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
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
    loop = read_loop(folder)[1]
    over = loop.ledger.over()
    assert set(over) == {stage.name for stage in loop.plan}
    assert [entry.stage for entry in loop.ledger.entries if entry.event == "begun"].count("survey") == 2
    line = registry(loop).line("sums")
    keys = [version.key for version in line.versions[1:]]
    assert len(keys) == len(set(keys)) >= 1
    judged = loop.given("round-1.judge")
    assert (line.versions[line.head].name == "sums-0") == (not judged["promoted"])
    assert judged["verdict"]["tasks"] > 5
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "sums-1" in page and "<svg" in page
    again = begin(config)
    assert again.wait(timeout=60) == 0
    assert len(read_loop(folder)[1].ledger.entries) == len(loop.ledger.entries)
