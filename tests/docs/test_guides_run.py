"""Guides that are typed from top to bottom, as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_blocks import ROOT, Reader, blocks

from silva.sandbox.system import probe


@pytest.mark.slow
@pytest.mark.skipif(bool(probe().problem), reason="needs sandboxes")
def test_a_sealed_set_answers_a_question_and_refuses_another(tmp_path: Path) -> None:
    pytest.importorskip("opendp", reason="pip install 'silva[privacy]'")
    with Reader(tmp_path, {"pip install": lambda folder: None}) as reader:
        for block in blocks(ROOT / "docs" / "guides" / "sealed.md"):
            reader.follow(block)
