"""The APOLLO loop: its plan and switches, and a whole one of a tiny policy in a real environment."""

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
import yaml
from pydantic import ValidationError
from small_flywheel import COMMAND, configuration, sums

from silva.cli.config import load
from silva.cli.loop import app
from silva.errors import UsageError
from silva.loops.apollo.config import ApolloConfig
from silva.loops.apollo.kind import APOLLO
from silva.loops.apollo.plan import stages
from silva.loops.kernel.kinds import read_loop

EXAMPLES = Path(__file__).parents[2] / "examples" / "apollo"
EXPERT: dict[str, Any] = {"source": "expert", "steps": 4}
OWN: dict[str, Any] = {"source": "policy", "group": 2, "steps": 2}


def config(folder: Path = Path("loop"), **more: Any) -> ApolloConfig:
    return ApolloConfig.model_validate({"folder": folder, "env": "babyai", "rounds": [EXPERT, OWN], **more})


def names(**more: Any) -> list[str]:
    return [stage.name for stage in stages(config(**more))]


def test_a_round_is_played_masked_made_into_rows_trained_and_judged() -> None:
    assert [name for name in names() if name.startswith("round-2")] == [
        f"round-2.{kind}" for kind in ("rollout", "mask", "select", "train", "register", "measure", "judge")
    ]
    assert "round-1.rollout" not in names(), "the expert's attempts are there already"


def test_without_masking_nothing_is_judged_and_without_training_the_rows_are_the_end() -> None:
    assert not [name for name in names(masking=False) if "mask" in name]
    assert names(training=False) == [
        "base", "survey", "split", "round-1.mask", "round-1.select", "round-2.rollout", "round-2.mask",
        "round-2.select", "report-after-2",
    ]  # fmt: skip


@pytest.mark.parametrize("switch", [{"guidance": False}, {"masking": False}, {"copies": {"actions": 1}}])
def test_an_ablation_is_another_loop_from_its_first_round_on(switch: dict[str, Any]) -> None:
    one, other = stages(config()), {stage.name: stage for stage in stages(config(**switch))}
    same = [stage.name for stage in one if other.get(stage.name) == stage]
    assert same == ["base", "survey", "split", "measure"]


def test_the_factors_are_the_papers_and_a_person_may_stand_in_a_file(tmp_path: Path) -> None:
    assert (config().copies.actions, config().copies.summary) == (7, 10)
    file = tmp_path / "coach.yaml"
    file.write_text(yaml.safe_dump({"by": "coach", "rules": [{"when": {"turn": 1}, "say": "so"}]}))
    inline = config(person=yaml.safe_load(file.read_text()))
    assert config(person=str(file)) == inline and stages(config(person=str(file))) == stages(inline)


def test_a_script_that_a_loop_keeps_is_read_as_the_same() -> None:
    deeds = [
        {"when": {"waits": ".", "expert": "another"}, "edit": {"expert": True}},
        {"when": {"expert": "another"}, "back": {"action": {"expert": True}}},
        {"when": {"waits": "."}, "edit": {"name": "act", "arguments": {"action": "toggle"}}},
        {"when": {"turn": 3}, "back": {"turn": 1, "action": "turn_left"}},
    ]
    given = config(person={"by": "coach", "rules": deeds})
    assert ApolloConfig.model_validate(yaml.safe_load(yaml.safe_dump(given.model_dump(mode="json")))) == given


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"rounds": [{**OWN, "algorithm": {"name": "grpo"}}]}, "APOLLO imitates kept actions"),
        ({"mask": {"rules": ["x"]}}, "no rule 'x'"),
        ({"person": "none.yaml"}, "no such file"),
        ({"rounds": []}, "at least 1"),
        ({"copies": {"actions": -1}}, "greater than or equal to 0"),
    ],
)
def test_bad_configurations_are_told(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        config(**more)


def test_the_folder_of_a_loop_says_which_kind_it_is(tmp_path: Path) -> None:
    APOLLO.open(config(tmp_path)).keep_config()
    kind, loop = read_loop(tmp_path)
    assert kind is APOLLO and isinstance(loop.config, ApolloConfig)
    with pytest.raises(UsageError, match="holds no loop"):
        read_loop(tmp_path / "other")


def test_a_dry_run_of_the_example_names_its_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = load(ApolloConfig, EXAMPLES / "tiny.yaml")
    assert settings.person is not None and settings.summary.at
    words = ["apollo", str(EXAMPLES / "tiny.yaml"), f"folder={tmp_path / 'loop'}", "masking=false", "--dry-run"]
    assert (app(words, standalone_mode=False) or 0) == 0
    said = capsys.readouterr().out
    assert "# round-2.rollout: to do" in said and "round-2.mask" not in said and not (tmp_path / "loop").exists()


@pytest.mark.slow
def test_a_killed_loop_goes_on_to_rows_a_version_and_a_page_that_shows_what_was_said(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("peft")
    folder = tmp_path / "loop"
    made = configuration(folder, sums(tmp_path / "tasks.jsonl", 24), line="sums", seeds=1, played=6, steps=4, every=20)
    made["policy"]["shape"]["context"] = 512  # room for what is said
    made["mask"] = {"rules": ["repeated-action"]}  # so short a training leaves every answer malformed
    made["rounds"] = [made["rounds"][0] | {"steps": 12}, {"source": "policy", "tasks": 6, "group": 2, "steps": 2}]
    made |= {
        "loop": "apollo",
        "person": {"by": "coach", "rules": [{"when": {"turn": 0}, "say": "<b>Mind</b> the carry."}]},
        "copies": {"actions": 2, "summary": 3},
    }
    file = tmp_path / "loop.yaml"
    file.write_text(yaml.safe_dump(made))
    environment = {**os.environ, "SILVA_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", COMMAND, "apollo", str(file)]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    deadline = time.monotonic() + 500
    ledger = folder / "ledger.jsonl"
    while time.monotonic() < deadline and not (ledger.exists() and b'"stage":"round-2.rollout"' in ledger.read_bytes()):
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert subprocess.run(command, env=environment, timeout=900, check=False).returncode == 0
    kind, loop = read_loop(folder)
    assert kind is APOLLO and set(loop.ledger.over()) == {stage.name for stage in loop.plan}
    played, rows = loop.given("round-2.rollout"), loop.given("round-2.select")
    assert played["words"] == played["episodes"] == 12, "one to each trajectory, none twice"
    assert rows["samples"] == 2 * rows["actions"] and loop.given("round-2.register")["version"] == "sums-2"
    lines = [json.loads(line) for line in (folder / rows["readable"]).read_text().splitlines()]
    assert all("Mind</b> the carry" in json.dumps(line["messages"]) for line in lines)
    page = (folder / "report.html").read_text()
    assert "&lt;b&gt;Mind&lt;/b&gt; the carry." in page and "<script" not in page and "Guidance and masks" in page
