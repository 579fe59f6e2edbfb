"""`silva loop`: what it prints before anything runs, and of a loop that stands still."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from silva.cli.config import load
from silva.cli.loop import app
from silva.errors import UsageError
from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.kind import FLYWHEEL
from silva.loops.kernel.ledger import Entry

EXAMPLES = Path(__file__).parents[2] / "examples" / "flywheel"


def run(*words: str) -> int:
    return app(list(words), standalone_mode=False) or 0


@pytest.mark.parametrize("name", ["tiny.yaml", "demo.yaml"])
def test_the_examples_are_configurations_with_an_expert_round_first(name: str) -> None:
    settings = load(FlywheelConfig, EXAMPLES / name)
    assert [each.source for each in settings.rounds] == ["expert", "policy"]
    assert settings.tasks.test > 0


def test_a_dry_run_names_the_stages_and_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "loop"
    assert run("flywheel", str(EXAMPLES / "tiny.yaml"), f"folder={folder}", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "# round-2.rollout: to do" in said and "# prove-after-2: to do" in said
    assert yaml.safe_load(said)["measure"]["seeds"] == 2
    assert not folder.exists()


def test_show_tells_what_a_loop_has_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = FLYWHEEL.open(load(FlywheelConfig, EXAMPLES / "tiny.yaml", [f"folder={tmp_path}"]))
    loop.keep_config()
    first = loop.plan[0]
    for event in ("begun", "ended"):
        outputs = {"version": "tiny-babyai-0", "label": "x"} if event == "ended" else {}
        loop.ledger.append(
            Entry(stage="base", event=event, inputs=first.inputs, at=1.0, seconds=2.5, outputs=outputs)  # pyright: ignore[reportArgumentType]
        )
    loop.ledger.append(Entry(stage="survey", event="failed", inputs="x", at=2.0, note="no disk"))
    assert run("show", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "ended        5.0 s  base" in said and "survey: no disk" in said and "head: tiny-babyai-0" in said
    assert run("show", str(tmp_path), "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert [stage["state"] for stage in body["stages"]][:2] == ["ended", "failed"]


def test_show_of_a_folder_without_a_loop_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no loop"):
        run("show", str(tmp_path))


def test_an_unknown_key_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"measure\.seed: unknown key \(did you mean 'seeds'"):
        run("flywheel", str(EXAMPLES / "tiny.yaml"), "measure.seed=3", "--dry-run")
