"""Guides that are typed from top to bottom, as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_blocks import ROOT, Reader, blocks

from silva.cli.config import load
from silva.loops.kernel.kinds import kind
from silva.sandbox.system import probe


@pytest.mark.slow
@pytest.mark.skipif(bool(probe().problem), reason="needs sandboxes")
def test_a_sealed_set_answers_a_question_and_refuses_another(tmp_path: Path) -> None:
    pytest.importorskip("opendp", reason="pip install 'silva[privacy]'")
    with Reader(tmp_path, {"pip install": lambda folder: None}) as reader:
        for block in blocks(ROOT / "docs" / "guides" / "sealed.md"):
            reader.follow(block)


@pytest.mark.parametrize("page", ["loops", "sport", "coevolve", "curateevo"])
def test_what_a_guide_of_loops_tries_dry_can_be_meant(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    of = [block for block in blocks(ROOT / "docs" / "guides" / f"{page}.md") if block.kind == "console"]
    words = [command.partition("#  ")[0].replace("\\\n", " ").split() for block in of for command in block.commands]
    dry = [each[2:] for each in words if each[:2] == ["silva", "loop"] and "--dry-run" in each]
    assert len(dry) >= 2
    for name, file, *overrides in dry:
        mine = kind(name)
        made = mine.open(load(mine.config, Path(file), [each for each in overrides if "=" in each]))
        assert made.plan[-1].kind == "report"
