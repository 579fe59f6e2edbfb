"""A SPORT loop of a small policy that reads a number off a question: killed in its own stages and gone on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from one_process import begin_whole, kill_in
from small_flywheel import sums
from small_sport import preferring

from silva.curate.pairs import read_pairs
from silva.lake import Lake
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.ledger import Entry
from silva.loops.line.head import registry
from silva.loops.sport.config import SportConfig
from silva.loops.sport.kind import SPORT
from silva.train.sample_file import read_samples

pytestmark = pytest.mark.slow

pytest.importorskip("torch")


def here(folder: Path, last: int) -> None:
    """Run a loop's stages up to those of a round in this process, which costs less than a process each."""
    loop = read_loop(folder)[1]
    for stage in loop.plan:
        if stage.name not in loop.ledger.over() and stage.round <= last and (stage.kind != "report" or last > 1):
            outputs = SPORT.run(loop, stage)
            loop.ledger.append(Entry(stage=stage.name, event="ended", inputs=stage.inputs, at=1.0, outputs=outputs))


def made(folder: Path) -> dict[str, Any]:
    """What a loop made that a kill must not change: pairs, what was trained on, versions, checks of the verifier."""
    loop = read_loop(folder)[1]
    rounds = range(1, len(loop.config.rounds) + 1)
    found = {kind: {n: loop.outputs(f"round-{n}.{kind}") for n in rounds} for kind in ("pairs", "select", "check")}
    return {
        "pairs": {n: read_pairs(folder / each["file"]) for n, each in found["pairs"].items() if each},
        "selected": {n: each["content"] for n, each in found["select"].items() if each},
        "checked": found["check"],
        "versions": {each.name: each.digest for each in registry(loop).line("sums").versions},
    }


def test_a_killed_loop_ends_with_the_pairs_and_versions_of_one_that_was_not(tmp_path: Path) -> None:
    tasks = sums(tmp_path / "tasks.jsonl", 50)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    SPORT.open(SportConfig.model_validate(preferring(whole, tasks))).keep_config()
    here(whole, last=1)
    shutil.copytree(whole, killed)  # a folder may be moved with the lake in it
    here(whole, last=3)

    for stage in ("round-2.search", "round-2.check", "round-3.train"):
        kill_in(begin_whole("sport", preferring(killed, tasks)), killed, stage)
    assert begin_whole("sport", preferring(killed, tasks)).wait(timeout=900) == 0

    one, other = made(whole), made(killed)
    assert one == other and one["pairs"] and len(one["versions"]) == 4
    loop = read_loop(killed)[1]
    assert set(loop.ledger.over()) == {stage.name for stage in loop.plan}
    sft = loop.given("round-1.register")["version"]
    assert {loop.given(f"round-{n}.train")["parent"] for n in (2, 3)} == {sft}  # every arm begins at SFT
    picks = list(read_samples(killed / loop.given("round-3.select")["file"]))
    assert {each.actions[-1].node_id for each in picks} == {pair.chosen_id for pair in one["pairs"][2]}
    searched = loop.given("round-2.search")
    assert searched["steps"] > searched["turns"] == searched["searches"] == 12
    with Lake.open(loop.lake, mode="read") as lake:
        for pair in one["pairs"][2]:
            nodes = {node.id: node for node in lake.nodes(tree_id=pair.tree_id)}
            better, worse = nodes[pair.chosen_id], nodes[pair.rejected_id]
            assert better.parent_id == worse.parent_id == pair.parent_id
            assert better.message.text != worse.message.text
            assert better.message.text in nodes[pair.parent_id].message.text  # the verifier is right: it is the number
    page = (killed / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "Pairs by round" in page
    said = json.loads((killed / "report.json").read_text(encoding="utf-8"))
    assert said["pairs"] and {"chosen", "rejected", "parent", "verifier", "gap"} <= said["pairs"][0].keys()
