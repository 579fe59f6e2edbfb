"""The explorer: alternatives at chosen decisions within a budget, and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_branch import COUNTER, grown, silva, walk

from silva.errors import UsageError
from silva.models.scripted import ScriptedServer
from silva.tree import Author


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))


def ruined(tmp_path: Path) -> Any:
    """A trajectory that fails because its third action deletes everything."""
    with ScriptedServer(COUNTER) as server:
        return grown(tmp_path, policy="model", model=f"{server.url}#scripted", snapshots={"risky": True})


@pytest.mark.slow
def test_explorer_finds_the_decision_and_its_cheapest_fix(tmp_path: Path) -> None:
    before = ruined(tmp_path)
    done = silva(tmp_path, "explore", before.id, "--budget", "20", "--policy", "expert", "--run", "x")
    (finding,) = done["findings"]
    third = [node for node in walk(tmp_path, before.id) if node.author is Author.POLICY][2]
    assert finding["decision"]["node_id"] == third.id and finding["decision"]["turn"] == 3
    assert finding["decision"]["reasons"] == ["failure", "risky"] and finding["decision"]["risks"] == ["delete"]
    assert finding["swing"] == 1.0 and done["hinges"] == [third.id]
    assert [(tried["value"], tried["paths"], tried.get("taken", False)) for tried in finding["tried"]] == [
        (1.0, 2, False),
        (0.0, 1, True),
    ]
    assert finding["value"] == pytest.approx(2 / 3)
    fix = done["cheapest"][before.id]
    assert (fix["turn"], fix["turns"], fix["before"], fix["score"]) == (3, 2, 0.0, 1.0) and "count" in fix["action"]
    assert done["coverage"] == 1.0 and done["risky"] == {"delete": 1} and done["avoided"] == 2
    assert done["new_turns"] == 4
    again = silva(tmp_path, "explore", before.id, "--policy", "expert", "--run", "x", "--resume")
    assert again["findings"] == done["findings"] and again["new_turns"] == 4


@pytest.mark.slow
def test_budget_holds_and_paths_it_cut_are_no_evidence(tmp_path: Path) -> None:
    ruined(tmp_path)
    done = silva(tmp_path, "explore", "r", "--budget", "3", "--policy", "expert", "--pool", "1")
    assert done["new_turns"] == 3 and done["status"] == "finished"
    (finding,) = done["findings"]
    assert [tried["paths"] for tried in finding["tried"]] == [1, 1] and finding["left"] == 1


def test_nothing_to_choose_is_said(tmp_path: Path) -> None:
    before = grown(tmp_path)
    with pytest.raises(UsageError, match="no rule chooses a decision"):
        silva(tmp_path, "explore", before.id, "--policy", "expert")
    with pytest.raises(UsageError, match="unknown rule 'luck'"):
        silva(tmp_path, "explore", before.id, "--rule", "luck")
