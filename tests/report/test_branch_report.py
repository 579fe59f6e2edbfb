"""`silva trees branch --report`: the page of the branches, with the tree that they were grown in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from silva.cli.trees_branch import app
from silva.rollout import RolloutConfig, run_rollout

ENV = f"{Path(__file__).parents[1] / 'rollout' / 'drifting.py'}:Counting"


@pytest.mark.slow
def test_the_page_of_branches_shows_where_they_left_and_what_came_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    lake, page = str(tmp_path / "lake"), tmp_path / "branches.html"
    settings = {
        "run": "night",
        "env": (ENV,),
        "policy": "expert",
        "lake": lake,
        "hosts": {"inline": True},
        "snapshots": {"every": 1},
        "options": {ENV: {"marker": str(tmp_path / "marker"), "log": str(tmp_path / "log")}},
    }
    grown = asyncio.run(run_rollout(RolloutConfig.model_validate(settings))).trajectories[0]
    words = ["branch", f"{grown.id}@2", "--n", "2", "--run", "tried", "--lake", lake, "--report", str(page)]
    done = CliRunner().invoke(app, words, standalone_mode=False)
    assert done.exception is None and done.return_value == 0, done.output
    text = page.read_text(encoding="utf-8")
    trees = text[text.index('<section class="trees">') : text.index('<section class="attempts">')]
    assert trees.count('<details class="grove"') == 1
    assert "turn 2, 3 ways on" in trees and "(exact)" in trees
    assert "night #0" in trees and "reached by snapshot" in trees
    assert trees.count('href="#t-') == 2, "the two branches lead to their conversations"
