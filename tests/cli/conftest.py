"""A lake of one's own, and one with a trajectory that branches."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_trees import HASH, conversation, steps, stored

from silva.tree import (
    Boundary,
    Failure,
    ImagePart,
    Message,
    Outcome,
    Status,
    Supervision,
    assistant,
)
from silva.tree.formats import Bundle


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "lake"
    monkeypatch.setenv("SILVA_LAKE", str(where))
    monkeypatch.chdir(tmp_path)
    return where


@pytest.fixture
def grown(lake: Path) -> Bundle:
    broke = Failure(boundary=Boundary.MODEL, code="model.timeout", message="no reply")
    picture = Message(role="user", parts=(ImagePart(hash=HASH),))
    first = conversation(0, *steps(), assistant("Done \x1b[31m[bold]."))
    second = conversation(1, *steps()[:2], assistant("I will not."), picture)
    third = conversation(2, *steps()[:2], outcome=Outcome(status=Status.FAILED, failure=broke))
    judged = Supervision(
        id="s", node_id=first.nodes[-1].id, run_id="r1", verdict="good", source="person", by="p", reason="so"
    )
    return stored(lake, first, second, third, Bundle(run=first.run, supervisions=(judged,)))
