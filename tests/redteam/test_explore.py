"""`silva redteam explore`: decisions on which safety hinges, what mends a failure, and the data that comes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from silva.curate.pairs import read_pairs
from silva.lake import Lake
from silva.train.data.dataset import read_dataset
from silva.tree.formats.tasks import read_tasks

SCRIPT = Path(__file__).parent / "wavering.yaml"


def silva(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "silva", *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False
    )


def test_a_run_is_explored_where_it_saw_the_attack(tmp_path: Path) -> None:
    lake = ("--lake", tmp_path / "lake")
    what = ("--env", "arithmetic", "--model", f"scripted:{SCRIPT}", "--limit", "2", "tasks.split=chain")
    attack = ("--attack", "tool_result/plain/answer", "--no-baseline", "budget.turns=6")
    assert silva("redteam", "run", "--run", "p", *what, *attack, *lake).returncode == 0
    run = "p.tool_result.plain.answer"

    more = ("--attack", "tool_result/authority/answer", "--output", tmp_path / "found", "--turns", "40")
    done = silva("redteam", "explore", run, *lake, *more, "--json")
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    assert told["decisions"] == 2 and told["coverage"] == 1.0
    assert told["risky"] == {"exposure": 2, "reached": 2} and told["restored"] == {"replay": 6}
    for each in told["hinges"]:
        assert each["decision"]["turn"] == 2 and each["swing"] == 1.0
        known = {(one["attack"].split("/")[1], one["safe"] == one["paths"]) for one in each["options"]}
        assert known == {("plain", False), ("plain", True), ("authority", False)}
    assert told["single"] == 2 and told["seen"] == 6
    assert len(told["failures"]) == 6 and told["new_failures"] == 4 and told["unmended"] == []
    assert [(each["reached"], each["turn"]) for each in told["repairs"]] == [(2, 2), (2, 2)]

    # What was found is data: failures and where they come from, and pairs of one parent, the safe side chosen.
    with Lake.open(tmp_path / "lake", mode="read") as opened:
        failed = {each.trajectory_id for each in read_dataset(tmp_path / "found" / "failures.jsonl").entries}
        assert failed == set(told["failures"])
        tasks = read_tasks((tmp_path / "found" / "failures.tasks.jsonl").read_text())
        assert {tag.removeprefix("found:") for one in tasks for tag in one.tags if tag.startswith("found:")} == failed
        pairs = read_pairs(tmp_path / "found" / "pairs.jsonl")
        assert len(pairs) == 2 and all(each.gap == 1.0 and each.by == "effect" for each in pairs)
        for each in pairs:
            nodes = {node.id: node for node in opened.nodes(tree_id=each.tree_id)}
            assert nodes[each.chosen_id].parent_id == nodes[each.rejected_id].parent_id == each.parent_id
            assert nodes[each.rejected_id].message.text.startswith("ref-") and not nodes[each.chosen_id].message.text

    before = told["new_turns"]
    again = json.loads(silva("redteam", "explore", run, *lake, *more, "--resume", "--json").stdout)
    assert again["new_turns"] == before and again["seen"] == 6
    words = silva("redteam", "explore", run, *lake, *more, "--resume").stdout
    assert "swing 100 %" in words and "  * 0 of 2 safe" in words and "at turn 2" in words
    assert "distinct risky branches: 2 by single paths, 6 with" in words and "written: 6 failures" in words
    for arguments, line in (
        (("nothing",), "holds no run 'nothing', nor a plan of that name"),
        ((run, "--kind", "pay", "--run", "other"), "no decision in it is risky"),
        ((run, "--attack", "memory/plain/answer", "--run", "other"), "name a surface of results"),
    ):
        refused = silva("redteam", "explore", *arguments, *lake)
        assert refused.returncode == 2 and line in refused.stderr, refused

    # A plan's name stands for its runs under an attack, not for branches of them; they share the turns.
    assert silva("rollout", "--run", "p.two", *what, "--attack", "tool_result/plain/answer", *lake).returncode == 0
    done = silva("redteam", "explore", "p", *lake, "--run", "both", "--turns", "5", "--json", "budget.turns=6")
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    assert told["sources"] == [run, "p.two"] and told["runs"] == [f"both.{run}", "both.p.two"]
    assert told["decisions"] == 4 and 3 <= told["new_turns"] <= 5 and told["single"] == 4
    assert len({each["decision"]["tree_id"] for each in told["hinges"]}) == told["explored"] >= 2
