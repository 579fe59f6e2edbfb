"""A whole safety loop of a small policy that heeds every note: killed inside its own stages and gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from silva.curate.pairs import read_pairs
from silva.lake import Lake
from silva.loops.kernel.kinds import read_loop
from silva.loops.line.head import registry
from silva.train.sample_file import read_samples
from silva.tree import Author
from silva.tree.formats.tasks import write_tasks

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")

EXAMPLES = Path(__file__).parents[2] / "examples" / "safety"
sys.path.append(str(EXAMPLES))
from errands import FILES, Errands, noted  # noqa: E402

ENV = f"{EXAMPLES / 'errands.py'}:Errands"
Begin = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with errands and a policy that runs them: where a note is, it deletes, whoever asked for it."""
    folder = tmp_path_factory.mktemp("errands")
    plain, draw = [each for each in Errands.tasks() if "plain" in each.tags], Random(0)
    notes = [noted(draw, each, framing) for each in plain for framing in ("important", "authority", "fake_result")]
    asked = [each for each in notes if each.data["note"]["tool"] == "delete_file"][:100]
    (folder / "tasks.jsonl").write_text("".join(write_tasks([*asked, *plain[:60]])))
    learns = {
        "output": "taught",
        "policy": {"weights": "tiny", "method": "full", "dtype": "float32"},
        "algorithm": {"name": "sft"},
        "data": {"files": ["expert.samples"]},
        "optimiser": {"learning_rate": 3e-3, "schedule": "cosine", "warmup": 10},
        "steps": 130,
        "batch": 8,
        "micro_tokens": 2048,
        "threads": 1,
    }
    (folder / "sft.yaml").write_text(yaml.safe_dump(learns))
    shape = [f"--shape={each}" for each in ("layers=2", "width=64", "inner=128", "context=1024")]
    lake = ["--lake", "lake", "--run", "expert"]
    played = ["--policy", "expert", "--agent", "react", "--renderer", "tiny", "tasks.file=tasks.jsonl", "pool=16"]
    for words in (
        ["models", "tiny", "--env", ENV, "--output", "tiny", "--limit", "60", *shape],
        ["rollout", "--env", ENV, *lake, *played],
        ["train", "samples", *lake, "--logprobs", "optional", "--output", "expert.samples"],
        ["train", "run", "sft.yaml"],
    ):
        command = [sys.executable, "-m", "silva", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder


def configuration(home: Path, folder: Path, **changes: Any) -> Path:
    """A loop's configuration in a file: little of everything."""

    def attack(name: str, tool: str) -> dict[str, Any]:
        return {"attack": name, "goal": {"tool": tool, "arguments": {"file": FILES[tool]}}}

    said = {
        "folder": str(folder),
        "line": "errands",
        "env": ENV,
        "policy": {"base": str(home / "taught" / "policy"), "method": "full", "dtype": "float32"},
        "tasks": {"file": str(home / "tasks.jsonl"), "train": 0.5, "dev": 0.25, "test": 0.25},
        "play": {"agent": "react", "pool": 16, "max_tokens": 40, "budget": {"turns": 5}, "hosts": {"inline": True}},
        "measure": {"seeds": 1, "temperature": 0.0, "dev": 20, "test": 20},
        "attacks": {
            "tags": ["plain"],
            "tasks": 8,
            "learn": [attack("tool_result/important/call", "delete_file")],
            "held_out": [attack("tool_result/authority/call", "send_file")],
        },
        "find": {"turns": 60, "width": 1, "by": "expert", "kinds": ["exposure"]},
        "rounds": [
            {
                "tasks": 12,
                "group": 1,
                "optimiser": {"learning_rate": 1e-3},
                "steps": 20,
                "batch": 8,
                "checkpoint_every": 10,
            }
        ],
        "threads": 1,
    }
    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump({**said, **changes}), encoding="utf-8")
    return file


def test_a_killed_loop_goes_on_and_learns_from_the_experts_siblings(home: Path, tmp_path: Path, begin: Begin) -> None:
    folder = tmp_path / "loop"
    config = configuration(home, folder)
    for stage in ("round-1.explore", "round-1.train"):
        process = begin(config, "safety")
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and process.poll() is None:
            begun = (folder / "ledger.jsonl").read_bytes() if (folder / "ledger.jsonl").exists() else b""
            if f'"stage":"{stage}"'.encode() in begun:
                break
            time.sleep(0.05)
        time.sleep(1.0)  # into the stage; where it has ended already, the next is cut off
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert begin(config, "safety").wait(timeout=600) == 0

    loop = read_loop(folder)[1]
    assert set(loop.ledger.over()) == {stage.name for stage in loop.plan}
    attacked, explored = loop.given("round-1.attack"), loop.given("round-1.explore")
    assert attacked["episodes"] == 12 and attacked["exposed"] >= 6
    pairs = read_pairs(folder / explored["file"])
    assert len(pairs) == explored["pairs"] >= 2
    with Lake.open(loop.lake, mode="read") as lake:
        plain = {each.task_id for each in lake.trajectories(run_id=attacked["run"])}
        assert plain and not any("file" in each for each in plain)  # what asks for a note is not attacked
        for pair in pairs:
            nodes = {node.id: node for node in lake.nodes(tree_id=pair.tree_id)}
            good, bad = (nodes[each].message.tool_calls for each in (pair.chosen_id, pair.rejected_id))
            assert good and good[0].name in ("take", "give") and (not bad or bad[0].name != good[0].name)
    selected = loop.given("round-1.select")
    samples = list(read_samples(folder / selected["file"]))
    assert len(samples) == selected["samples"] == 2 * selected["pairs"] > 0
    assert any("file" in each.task_id for each in samples)  # what asks for a note stands among the benign rows
    kept = registry(loop).line("errands")
    keys = [version.key for version in kept.versions[1:]]
    assert len(keys) == len(set(keys)) == 1
    judged = loop.given("round-1.judge")
    assert judged["safety"]["tasks"] > 4 and judged["verdict"]["tasks"] == 20
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "tool_result/authority/call" in page
    assert begin(config, "safety").wait(timeout=60) == 0
    assert len(read_loop(folder)[1].ledger.entries) == len(loop.ledger.entries)


@pytest.mark.weekly  # how siblings become rows is seen above, how preferences teach in test_sport_run.py
def test_a_policy_learns_from_its_own_siblings_by_preference(home: Path, tmp_path: Path, begin: Begin) -> None:
    folder = tmp_path / "loop"
    little = {"tasks": 12, "group": 2, "temperature": 1.1, "steps": 4, "batch": 4, "optimiser": {"learning_rate": 1e-4}}
    config = configuration(
        home,
        folder,
        find={"turns": 120, "width": 4, "by": "policy", "kinds": ["exposure"]},
        measure={"seeds": 1, "temperature": 0.0, "dev": 6, "test": 6},
        rounds=[{**little, "algorithm": {"name": "dpo"}}],
    )
    assert begin(config, "safety").wait(timeout=600) == 0

    loop = read_loop(folder)[1]
    assert set(loop.ledger.over()) == {stage.name for stage in loop.plan}
    explored, selected = loop.given("round-1.explore"), loop.given("round-1.select")
    pairs = read_pairs(folder / explored["file"])
    assert len(pairs) == explored["pairs"] >= 1
    with Lake.open(loop.lake, mode="read") as lake:
        played = {loop.given("round-1.attack")["run"], "errands.round-1.explore.a1"}
        for pair in pairs:
            nodes = {node.id: node for node in lake.nodes(tree_id=pair.tree_id)}
            sides = nodes[pair.chosen_id], nodes[pair.rejected_id]
            assert all(each.author is Author.POLICY and each.tokens is not None for each in sides)  # its own words
            assert {each.run_id for each in sides} <= played
    samples = list(read_samples(folder / selected["file"]))
    assert len(samples) == 2 * selected["pairs"] == 2 * len(pairs)
    for chosen, rejected in zip(samples[::2], samples[1::2], strict=True):
        begins = int(chosen.mask.argmax())
        assert begins == int(rejected.mask.argmax()) and (chosen.ids[:begins] == rejected.ids[:begins]).all()
    trained = loop.given("round-1.train")
    assert trained["algorithm"] == "dpo" and trained["steps"] == 4
    assert len(registry(loop).line("errands").versions) == 2
