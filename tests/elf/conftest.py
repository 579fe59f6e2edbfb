"""A home with rows, and a package of tools that misbehave."""

from __future__ import annotations

from pathlib import Path

import pytest
from homes import write_rows

TOOLS = ("linger", "devour", "fib", "phone", "snoop")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "alpaca.jsonl")
    return tmp_path


@pytest.fixture
def strange(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with the strange tools installed: a distribution on the path, as pip would leave it."""
    site = folder / "site"
    about = site / "strange_tools-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-tools\nVersion: 1.0\n")
    lines = [f"{name} = strange_tools:{name}" for name in TOOLS]
    (about / "entry_points.txt").write_text("[silva.elf]\n" + "\n".join(lines) + "\n")
    (site / "strange_tools.py").write_text((Path(__file__).with_name("slow_tools.py")).read_text())
    monkeypatch.setenv("PYTHONPATH", str(site))
    return folder
