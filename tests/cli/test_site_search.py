"""Searching the site: the words people use lead to the page they mean, by the search that the site's pages run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]
ASK = Path(__file__).with_name("site_search.mjs")
ASKED = {
    "mask": "guides/masking/",
    "masks": "guides/masking/",
    "masking": "guides/masking/",
    "loss mask": "guides/masking/",
    "which turns are trained": "guides/masking/",
    "unmask": "guides/masking/",
    "gateway": "guides/gateway/",
    "exit codes": "reference/exit-codes/",
    "approve": "guides/guidance/",
    "snapshot": "guides/branching/",
    "silva envs new": "reference/cli/",
    "flywheel": "guides/flywheel/",
    "token ids": "concepts/exact-tokens/",
}
"""What people type, and the page that must be among the first three; masks come first of all."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the site's search")
def test_words_people_use_find_the_page_they_mean(tmp_path: Path) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    # without the Python reference, which takes most of a build's time and comes last anyhow
    build(load_config(str(ROOT / "mkdocs.yml"), plugins=["search"], site_dir=str(tmp_path)))
    said = subprocess.run(["node", str(ASK), str(tmp_path), *ASKED], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    found = {asked: list(dict.fromkeys(pages)) for asked, pages in json.loads(said.stdout).items()}
    for asked, page in ASKED.items():
        first = 1 if page == "guides/masking/" else 3
        assert page in found[asked][:first], f"{asked}: {found[asked][:6]}"
