"""A home of its own for every test of guidance."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a run and its mailbox lie."""
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    return tmp_path
