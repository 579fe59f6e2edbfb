"""The experiments of `benchmarks/learning` as a user runs them: a policy made from nothing learns BabyAI."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")

from silva.envs import Registry
from silva.envs.install import installed

LEARNING = Path(__file__).parents[2] / "benchmarks" / "learning"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not installed(Registry.load().entry("babyai")), reason="needs BabyAI: silva envs install babyai"
    ),
]


def run(name: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(LEARNING / f"{name}.py"), "--env", "babyai", "--policy", "tiny", "--no-keep"]
    return subprocess.run([*command, "--folder", str(folder), *more], capture_output=True, text=True, timeout=600)


def rows(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "rows.json").read_text(encoding="utf-8"))


def mean(rates: dict[str, float]) -> float:
    return sum(rates.values()) / len(rates)


def test_a_tiny_policy_learns_from_experts_and_then_from_itself(tmp_path: Path):
    ended = run("grpo", tmp_path, "--seeds", "0")
    assert ended.returncode in (0, 1), ended.stderr[-2000:]
    (row,) = rows(tmp_path / "grpo-babyai-tiny-0")
    assert mean(row["before"]) > 0.3, "SFT on the expert's episodes taught it little"
    assert mean(row["after"]) > mean(row["before"]) - 0.1, "GRPO took away what it had learnt"
    assert row["more"]["reward_last"] > row["more"]["reward_first"] - 0.1
    assert "SFT → SFT, then GRPO" in ended.stdout


def test_an_unknown_environment_is_refused(tmp_path: Path):
    ended = run("sft", tmp_path, "--env", "nowhere")
    assert ended.returncode == 2 and "nowhere" in ended.stderr
