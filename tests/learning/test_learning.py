"""The experiments of `benchmarks/learning` as a user runs them: a policy made from nothing learns BabyAI."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean
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
    return subprocess.run([*command, "--folder", str(folder), *more], capture_output=True, text=True, timeout=1500)


def rows(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "rows.json").read_text(encoding="utf-8"))


def mean(rates: dict[str, float]) -> float:
    return sum(rates.values()) / len(rates)


@pytest.mark.weekly  # that it learns from an expert and from itself, beyond doubt, is seen in README.md's flywheel
def test_a_tiny_policy_learns_from_experts_from_itself_and_from_a_teacher(tmp_path: Path):
    """Three seeds: of one alone, how a processor rounds tells more than what was learnt."""
    ended = run("all_four", tmp_path, "--seeds", "0", "1", "2", "--parallel", "2")
    assert ended.returncode in (0, 1), ended.stderr[-2000:]
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(3):
        for row in rows(tmp_path / f"all_four-babyai-tiny-{seed}"):
            found.setdefault(row["right"], []).append(row)
    gains = {kind: fmean(mean(row["after"]) - mean(row["before"]) for row in of) for kind, of in found.items()}
    assert set(gains) == {"SFT, then GRPO", "SFT, then DPO", "SFT, then OPD"}
    grpo = found["SFT, then GRPO"]
    assert fmean(mean(row["before"]) for row in grpo) > 0.3, "SFT on the expert's episodes taught it little"
    assert min(gains.values()) > -0.1, f"it lost what it had learnt: {gains}"
    rewards = {end: fmean(row["more"][f"reward_{end}"] for row in grpo) for end in ("first", "last")}
    assert rewards["last"] > rewards["first"] - 0.1
    assert all(f"SFT → {kind}" in ended.stdout for kind in gains)


def test_another_recipe_has_results_of_its_own(tmp_path: Path):
    for more, said in (
        (["--recipe", "grpo_steps=3", "--named", "x"], "a recipe has no such value"),
        (["--recipe", "attempts=few", "--named", "x"], "comes JSON"),
    ):
        ended = run("grpo", tmp_path, *more)
        assert ended.returncode == 2 and said in ended.stderr, ended.stderr
    command = [sys.executable, str(LEARNING / "grpo.py"), "--policy", "tiny", "--recipe", "attempts=1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and "name them with --named" in ended.stderr


def test_an_unknown_environment_is_refused(tmp_path: Path):
    ended = run("sft", tmp_path, "--env", "nowhere")
    assert ended.returncode == 2 and "nowhere" in ended.stderr
