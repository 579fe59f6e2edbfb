"""Branches: back to a node of a stored tree, and down new paths of the same tree, at the cost of new turns alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from silva.cli.trees_branch import app
from silva.errors import Exit, MissingError, UsageError
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.snapshots.restore import BranchDiverged
from silva.rollout.snapshots.snapshot import snapshot_of
from silva.tree import Author, Node, Trajectory

HERE = Path(__file__).parent
COUNTER = Script(function="counter.py:reply", folder=str(HERE))


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))


def grown(tmp_path: Path, kind: str = "Counting", **fields: Any) -> Trajectory:
    """One trajectory of the expert (or as `fields` say) in the lake at `tmp_path/lake`."""
    env = f"{HERE / 'drifting.py'}:{kind}"
    files = {"marker": str(tmp_path / "marker"), "log": str(tmp_path / "log")}
    settings = {
        "run": "r",
        "env": (env,),
        "policy": "expert",
        "lake": str(tmp_path / "lake"),
        "hosts": {"inline": True},
        "options": {env: files},
        **fields,
    }
    return asyncio.run(run_rollout(RolloutConfig.model_validate(settings))).trajectories[0]


def silva(tmp_path: Path, *words: str) -> dict[str, Any]:
    """What a command of `silva trees` prints as JSON, with its exit code as `exit`.

    Raises:
        SilvaError: what the command line would print as one line.
    """
    done = CliRunner().invoke(app, [*words, "--lake", str(tmp_path / "lake"), "--json"], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return {**json.loads(done.stdout), "exit": done.return_value}


def walk(tmp_path: Path, trajectory: str) -> list[Node]:
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        return list(lake.walk(lake.trajectory(trajectory)))


def said(tmp_path: Path, trajectory: str) -> list[str]:
    return [
        " ".join(call.name for call in node.message.tool_calls) or node.message.text
        for node in walk(tmp_path, trajectory)
        if node.author is not Author.ENVIRONMENT
    ]


def answers(tmp_path: Path, trajectory: str) -> list[str]:
    nodes = walk(tmp_path, trajectory)
    return [node.message.text for node in nodes if node.author is Author.ENVIRONMENT and node.message.role == "tool"]


def steps(tmp_path: Path) -> int:
    log = tmp_path / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def calls(*names: str) -> list[str]:
    return [word for name in names for word in ("--action", json.dumps({"name": name}))]


def test_branches_share_the_walk_and_add_only_what_is_new(tmp_path: Path) -> None:
    before = grown(tmp_path, snapshots={"every": 1})
    taken = steps(tmp_path)
    done = silva(tmp_path, "branch", f"{before.id}@2", *calls("stop", "delete_all"), "--run", "b")
    assert done["exit"] == Exit.OK and done["status"] == "finished"
    stop, ruin = done["branches"]
    assert [each["outcome"]["score"] for each in (stop, ruin)] == [0.0, 0.0]
    assert [each["attributes"]["branch"]["turns"] for each in (stop, ruin)] == [1, 3]
    assert done["new_turns"] == steps(tmp_path) - taken == 4, "the environment took no action again"
    assert stop["attributes"]["branch"]["restored"]["fidelity"] == "exact"
    assert said(tmp_path, stop["id"]) == ["count", "count", "stop"]
    old, new = walk(tmp_path, before.id), walk(tmp_path, stop["id"])
    assert new[:5] == old[:5] and new[5].id != old[5].id
    assert {node.run_id for node in new[5:]} == {"b"} and {node.slot for node in new[5:]} == {"1.0"}
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        tree = lake.tree(before.tree_id)
        assert len(tree.leaves) == 3 and len(lake.trajectories(run_id="r")) == 1
        run = lake.run("b")
        assert run is not None and run.command == "branch" and run.lineage.parents == ("r",)


@pytest.mark.slow
def test_only_new_turns_cost_model_calls(tmp_path: Path) -> None:
    with_model = {"policy": "model", "snapshots": {"every": 1}}
    with ScriptedServer(COUNTER) as server:
        before = grown(tmp_path, model=f"{server.url}#scripted", **with_model)
        asked = server.requests
        done = silva(tmp_path, "branch", f"{before.id}@4", "--n", "3")
        assert before.turns == asked == 5
        assert server.requests - asked == 3 == done["new_turns"]
    assert len({each["index"] for each in done["branches"]} | {0}) == 4


@pytest.mark.slow
def test_another_policy_a_message_and_the_place_of_an_action(tmp_path: Path) -> None:
    with ScriptedServer(COUNTER) as server:
        before = grown(tmp_path, policy="model", model=f"{server.url}#scripted")
    assert before.outcome.success is False
    words = ("--instead", "--policy", "expert", "--n", "1", "--message", "Do not delete.")
    (mended,) = silva(tmp_path, "branch", f"{before.id}@3", *words)["branches"]
    assert mended["outcome"]["success"] is True
    assert said(tmp_path, mended["id"]) == ["count", "count", "Do not delete.", "count", "stop"]
    person = next(node for node in walk(tmp_path, mended["id"]) if node.author is Author.PERSON)
    assert person.message.role == "user"
    assert mended["attributes"]["branch"]["instead_of"] == walk(tmp_path, before.id)[5].id


@pytest.mark.slow
def test_damaged_gone_and_foreign_snapshots_are_passed_over_and_said(tmp_path: Path) -> None:
    before = grown(tmp_path, snapshots={"every": 1})
    first, second, third = (kept for node in walk(tmp_path, before.id) if (kept := snapshot_of(node)))
    assert first.size and first.seal and first.versions["source"]
    place = tmp_path / "lake" / "blobs"
    (place / third.id[:2] / third.id).write_bytes(b"damaged")
    (place / second.id[:2] / second.id).unlink()
    words = ("branch", f"{before.id}@3", "--n", "1")
    restored = silva(tmp_path, *words)["branches"][0]["attributes"]["branch"]["restored"]
    assert restored["snapshot"] == first.id and restored["replayed"] == 2
    assert "damaged" in restored["passed_over"][0] and "has no blob" in restored["passed_over"][1]
    (tmp_path / "home" / "snapshots.key").write_bytes(os.urandom(32))  # as on another machine
    done = silva(tmp_path, *words)
    restored = done["branches"][0]["attributes"]["branch"]["restored"]
    assert restored["snapshot"] == "" and restored["replayed"] == 3
    assert "not made on this machine" in restored["passed_over"][-1]
    assert done["branches"][0]["outcome"]["success"] is True


@pytest.mark.slow
def test_divergence_is_said_and_refused_unless_accepted(tmp_path: Path) -> None:
    before = grown(tmp_path, "Replaying")
    (tmp_path / "marker").touch()
    with pytest.raises(BranchDiverged, match=r"count 1.*count 101.*--accept-divergence") as caught:
        silva(tmp_path, "branch", f"{before.id}@2", "--run", "b")
    assert caught.value.code == Exit.FAULT
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        assert lake.run("b") is None and len(lake.tree(before.tree_id).leaves) == 1
    (branched,) = silva(tmp_path, "branch", f"{before.id}@2", "--n", "1", "--accept-divergence")["branches"]
    assert branched["attributes"]["branch"]["divergence"]["turn"] == 1


@pytest.mark.slow
def test_environment_without_state_is_brought_there_by_replay(tmp_path: Path) -> None:
    before = grown(tmp_path, "Replaying", snapshots={"every": 1})
    assert not any(node.snapshot_id for node in walk(tmp_path, before.id))
    taken = steps(tmp_path)
    done = silva(tmp_path, "branch", f"{before.id}@2", "--n", "2")
    assert [each["outcome"]["success"] for each in done["branches"]] == [True, True]
    assert steps(tmp_path) - taken == done["new_turns"] + 2 * 2, "the first is not brought there twice"


REFUSED = [
    (("TRAJECTORY@4",), "the episode is over there"),
    (("TRAJECTORY@9",), "has turns 1 to 4"),
    (("TRAJECTORY@x",), "has turns 1 to 4"),
    (("zzz",), "has no node zzz"),
    ((), "which node?"),
    (("ROOT", "--instead"), "no action stands at or above it"),
    (("TRAJECTORY@1", "--action", '{"nam": 1}'), "a call is"),
    (("TRAJECTORY@1", "--run", "r"), "no run of branches"),
    (("TRAJECTORY@1", "--agent", "program: x", "--policy", "model"), "a program keeps its own memory"),
    (("TRAJECTORY@1", "--resume"), "--resume takes --run"),
    (("--resume", "--run", "nothing"), "nothing to resume"),
    (("TRAJECTORY@1", "budget.turns=1"), "the walk has 1 turns of at most 1"),
]


@pytest.mark.slow
def test_what_cannot_be_branched_is_refused_in_one_line(tmp_path: Path) -> None:
    before = grown(tmp_path)
    root = walk(tmp_path, before.id)[0].id
    for words, why in REFUSED:
        words = tuple(word.replace("TRAJECTORY", before.id[:9]).replace("ROOT", root) for word in words)
        with pytest.raises(UsageError) as caught:
            silva(tmp_path, "branch", *words)
        assert why in str(caught.value) and "\n" not in str(caught.value)
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        assert [run.id for run in lake.runs()] == ["r"]


@pytest.mark.slow
def test_words_are_an_action_too_and_a_node_is_found_by_its_beginning(tmp_path: Path) -> None:
    before = grown(tmp_path)
    node = walk(tmp_path, before.id)[2]
    done = silva(tmp_path, "branch", node.id[:14], "--action", "I give up.", "--action", '[{"name": "count"}]')
    first, second = done["branches"]
    assert said(tmp_path, first["id"])[-1] == "I give up." and first["turns"] == 2
    assert second["outcome"]["success"] is True, "the expert went on"
    assert done["points"][0]["turn"] == 1


@pytest.mark.parametrize(
    ("settings", "turns"),
    [({"every": 2}, [2, 4]), ({"risky": True}, [2]), ({"requested": True}, [1]), ({}, [])],
)
def test_snapshots_are_taken_when_the_configuration_says(
    tmp_path: Path, settings: dict[str, Any], turns: list[int]
) -> None:
    with ScriptedServer(COUNTER) as server:
        before = grown(tmp_path, policy="model", model=f"{server.url}#scripted", snapshots=settings)
    actions, kept = 0, []
    for node in walk(tmp_path, before.id):
        actions += node.author is Author.POLICY
        kept += [actions] if node.snapshot_id else []
    assert kept == turns


@pytest.mark.parametrize("every", [2, 3])
def test_what_a_restore_could_not_bring_back_is_told_with_the_first_new_answer_alone(
    tmp_path: Path, every: int
) -> None:
    before = grown(tmp_path, "Forgetful", snapshots={"every": every})
    first = silva(tmp_path, "branch", f"{before.id}@3", *calls("delete_all"), "--run", "b")["branches"][0]
    assert first["attributes"]["branch"]["restored"]["replayed"] == 3 % every
    assert answers(tmp_path, first["id"])[2:] == [
        "count 3",
        "[the music begins anew]\n\nerror: all is deleted",
        "count 3",
    ]
    # The walk of a branch holds the notice; the environment, taken there again, does not say it, and is the same.
    second = silva(tmp_path, "branch", f"{first['id']}@4", *calls("count"), "--run", "c")["branches"][0]
    assert second["attributes"]["branch"]["restored"]["fidelity"] == "files+replay"
    assert answers(tmp_path, second["id"])[3:5] == [
        "[the music begins anew]\n\nerror: all is deleted",
        "[the music begins anew]\n\ncount 4",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("every", [2, 3])
def test_a_terminal_is_brought_to_a_place_between_its_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.delenv("SILVA_HOME")  # what is installed is there
    options = {"terminal": {"snapshots": str(tmp_path / "kept")}}
    settings = {"env": ("terminal",), "tasks": {"ids": ["terminal/fix-invoice"]}, "snapshots": {"every": every}}
    try:
        before = grown(tmp_path, **settings, options=options, hosts={})
    except MissingError as missing:
        pytest.skip(str(missing))
    done = silva(tmp_path, "branch", f"{before.id}@{every + 1}", "--n", "1")["branches"][0]
    restored = done["attributes"]["branch"]["restored"]
    assert restored["replayed"] == 1 and restored["snapshot"] and "divergence" not in done["attributes"]["branch"]
    assert done["outcome"]["score"] == 1.0
    assert sum("begin anew" in text for text in answers(tmp_path, done["id"])) == 1


@pytest.fixture
def slow_model() -> Iterator[str]:
    script = Script(function="counter.py:reply", folder=str(HERE), latency=0.4)
    with ScriptedServer(script) as server:
        yield f"{server.url}#scripted"


@pytest.mark.slow
def test_killed_in_the_midst_of_a_branch_it_resumes_and_repeats_nothing(tmp_path: Path, slow_model: str) -> None:
    before = grown(tmp_path)
    words = ["branch", f"{before.id}@1", "--n", "2", "--run", "b", "--model", slow_model, "hosts.inline=false"]
    command = [sys.executable, "-c", _MAIN, *words, "--lake", str(tmp_path / "lake")]
    process = subprocess.Popen(command, start_new_session=True)
    stored: dict[str, Node] = {}
    deadline = time.monotonic() + 60
    while len(stored) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        with Lake.open(tmp_path / "lake", mode="read") as lake:
            stored = {node.id: node for node in lake.nodes(run_id="b") if node.author is Author.POLICY}
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        stored = {node.id: node for node in lake.nodes(run_id="b")}
        assert stored and not lake.trajectories(run_id="b")
    done = silva(tmp_path, "branch", "--resume", "--run", "b")
    assert done["status"] == "finished" and len(done["branches"]) == 2
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        after = {node.id: node for node in lake.nodes(run_id="b")}
        lake.tree(before.tree_id)  # whole, and no node twice
    assert {name: after[name] for name in stored} == stored
    assert done["new_turns"] == sum(node.author is Author.POLICY for node in after.values())


_MAIN = """
import sys, typer
from silva.cli.trees_branch import app
sys.exit(typer.main.get_command(app).main(sys.argv[1:], standalone_mode=False))
"""
