"""Candidates: each is tried in a state of its own, the best goes on, and all of them stay on the tree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import plugs
import pytest
from drifting import Counting
from typer.testing import CliRunner

from silva.cli.rollout import app
from silva.envs import HostPool, Registry
from silva.errors import MissingError, SilvaError, UnreachableError, UsageError
from silva.guide import post
from silva.guide.mailroom import Mailroom
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.acted import acted_on
from silva.rollout.branching.told import lines, totals
from silva.rollout.judged import Search, answer_of, searches, verdict_of
from silva.rollout.replay import replay
from silva.rollout.run import Hooks, RunResult
from silva.tree import NO_USAGE, Author, Boundary, Node, Status, Tree

HERE = Path(__file__).parent
AWAY = "http://127.0.0.1:9/v1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with a package that registers a verifier and a stage."""
    about = tmp_path / "site" / "wavering-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: wavering\nVersion: 1.0\n")
    points = "[silva.verifiers]\nalike = wavering:Alike\n[silva.stages]\ncut = plugs:Cut\n"
    (about / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path


async def play(home: Path, kind: str = "drifting.py:Counting", cut: int | None = None, **given: Any) -> RunResult:
    """A run of the wavering policy that draws three candidates a turn; the run is stopped before turn `cut`."""
    search = {"n": 3, "verifier": "completions", **given.pop("candidates", {})}
    asked, there = given.pop("asked", "sees"), given.pop("there", True)
    options: dict[str, Any] = {"completions": {"k": 3}} if search["verifier"] == "completions" else {}
    stages: dict[str, Any] = {"candidates": {"options": options, **search}}
    stages |= {"cut": {"turn": cut}} if cut is not None else {}
    resume = given.pop("resume", False)
    folder, policy, forbidden = str(HERE), given.pop("plays", "reply"), given.pop("forbidden", "")
    judge = ScriptedServer(Script(function=f"wavering.py:{asked}", folder=folder))
    async with ScriptedServer(Script(function=f"wavering.py:{policy}", folder=folder)) as server, judge:
        if search["verifier"] == "endpoint":
            options["endpoint"] = {"model": f"{judge.url if there else AWAY}#scripted"}
        settings = {
            "run": "r",
            "env": (f"{HERE / kind}" if ".py" in kind else kind,),
            "lake": str(home / "lake"),
            "model": f"{server.url}#scripted",
            "hosts": {"inline": True},
            "retries": 0,
            "seed": 2,  # at which the policy's first draw is wrong, and a later one is not
            "stages": stages,
            **given,
        }

        def begin(scheduler: Any, ledger: Any, total: int) -> None:
            plugs.Cut.stop = scheduler.stop if cut is not None and not resume else None
            if forbidden:
                post(home / "lake", "r", "forbid", "ann", pattern=forbidden)

        config = RolloutConfig.model_validate(settings)
        room = Mailroom.of(config.lake, "r", resume=False) if forbidden else None
        return await run_rollout(config, resume=resume, hooks=Hooks(on_start=begin, guidance=room))


def read(home: Path) -> tuple[Tree, list[Search]]:
    with Lake.open(home / "lake", mode="read") as lake:
        nodes = lake.nodes(run_id="r")
    return Tree(nodes), list(searches(nodes))


def called(node: Node) -> str:
    return node.message.tool_calls[0].name


@pytest.mark.parametrize("kind", ["Counting", pytest.param("Replaying", marks=pytest.mark.slow)])
async def test_each_is_tried_in_a_state_of_its_own_and_the_best_goes_on(home: Path, kind: str) -> None:
    result = await play(home, f"drifting.py:{kind}", candidates={"also": ["random"]})
    (trajectory,) = result.trajectories
    tree, found = read(home)
    walk = list(tree.walk(trajectory.leaf_id or ""))
    assert trajectory.outcome.success and len(found) == trajectory.turns == 4
    for search in found:
        before = sum(node.author is Author.POLICY and called(node) == "count" for node in tree.walk(search.chosen.id))
        before -= called(search.chosen) == "count"
        for node, verdict in search.candidates:
            (answer,) = tree.children(node.id)
            expected = {
                "count": f"count {before + 1}",
                "delete_all": "error: all is deleted",
                "stop": f"count {before}",
            }
            assert answer.message.text == expected[called(node)], "nothing that another candidate did is seen"
            assert ("beside" in node.attributes) == ("beside" in answer.attributes) == (not verdict.chosen)
            assert (verdict.score == 0.0) == (called(node) == "delete_all") or search.searched.equal
            assert set(verdict.others) == (set() if search.searched.equal else {"random"})
        assert sum(verdict.drawn for _, verdict in search.candidates) == 3
        judges = [deed.by for deed in acted_on(search.chosen)]
        assert judges == ([] if search.searched.equal else ["completions", "random"])
    assert any(verdict_of(search.chosen).number for search in found), "another than the first draw went on"  # type: ignore[union-attr]
    own = sum((node.usage for node in tree), sum((search.searched.spent for search in found), NO_USAGE))
    used = trajectory.usage
    assert (used.prompt_tokens, used.completion_tokens) == (own.prompt_tokens, own.completion_tokens)
    with Lake.open(home / "lake", mode="read") as lake:
        (task,) = lake.tasks()
    assert (await replay(Counting(), task, trajectory.seed, walk)).divergence is None
    ways = {search.searched.way for search in found if search.searched.way}
    told = " ".join(lines(totals(result.trajectories)))
    assert ways == ({"exact"} if kind == "Counting" else {"replay"})
    assert ("copies took the actions so far again" in told) == (kind == "Replaying")


async def test_steps_of_a_verifier_that_only_scores_are_counted_too(home: Path) -> None:
    """Arms are compared at equal steps in the environment; lots pick in some, and completions only score there."""
    picked = await play(home / "picked")
    scored = await play(home / "scored", candidates={"verifier": "random", "also": ["completions"]})
    for result in (picked, scored):
        said = result.trajectories[0].attributes["candidates"]
        assert said["facts"]["steps"] >= said["searches"] - said["equal"]


async def test_a_search_that_was_cut_off_is_taken_up_and_nothing_is_drawn_twice(home: Path) -> None:
    whole = await play(home / "whole")
    assert (await play(home, cut=2)).remaining == 1
    again = await play(home, cut=2, resume=True)
    one, other = whole.trajectories[0], again.trajectories[0]
    assert [node.id for node in read(home)[0]] == [node.id for node in read(home / "whole")[0]]
    for trajectory in (one, other):
        trajectory.attributes["candidates"].pop("acted")  # seconds differ
    assert one.attributes == other.attributes
    assert one.usage.completion_tokens == other.usage.completion_tokens


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"candidates": {"verifier": "alike"}}, "verifier alike: tied in 2 of 2 searches, which give no pair (every"),
        ({"policy": "expert"}, "candidates: in 4 of 4 searches all draws said the same, which gives no pair; raise"),
        ({"kind": "wavering.py:Drifting"}, "given up in 1 episodes, whose later turns are the policy's own draw: the"),
    ],
)
async def test_a_search_that_tells_nothing_is_told_and_the_policy_goes_on(
    home: Path, given: dict[str, Any], line: str
) -> None:
    result = await play(home, **given)
    (trajectory,) = result.trajectories
    assert trajectory.outcome.status is not Status.FAILED and trajectory.turns >= 4
    assert any(line in each for each in lines(totals(result.trajectories))), lines(totals(result.trajectories))
    _, found = read(home)
    assert all(verdict_of(search.chosen).number == 0 for search in found), "the policy's own first draw went on"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("sees", ""),
        (
            "first",
            "verifier endpoint: in 2 of 2 searches it chose what stood first in both orders, which judges the place",
        ),
        pytest.param(
            "mumbles",
            "verifier endpoint: in 2 searches its answer could not be read; they count as ties",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_a_model_is_asked_in_both_orders_and_believed_where_it_says_the_same(
    home: Path, asked: str, line: str
) -> None:
    result = await play(home, asked=asked, candidates={"verifier": "endpoint"})
    (trajectory,) = result.trajectories
    told = lines(totals(result.trajectories))
    _, found = read(home)
    judged = [search for search in found if not search.searched.equal]
    for search in judged:
        (deed,) = acted_on(search.chosen)
        assert (deed.by, deed.model, bool(deed.prompt)) == ("endpoint", "scripted", True)
        assert deed.prompt_tokens == search.searched.spent.prompt_tokens - _doubled(search)
        scores = {called(node): score for node, score in search.scores()}
        if asked == "sees":
            assert scores.pop("delete_all") == 0.0 and search.searched.why == "it counts"
            assert set(scores.values()) <= {0.0, 1.0} and sum(scores.values()) == 1.0
        else:
            assert search.searched.tied and len(set(scores.values())) <= 1
    assert trajectory.outcome.success == (asked == "sees")
    assert any(line in each for each in told) if line else not any("verifier" in each for each in told), told


def _doubled(search: Search) -> int:
    """What draws cost that said what another had said: each costs what the first of them did."""
    return sum((verdict.drawn - 1) * node.usage.prompt_tokens for node, verdict in search.candidates)


@pytest.mark.slow
async def test_a_verifier_that_is_not_there_ends_the_run_in_one_line(home: Path) -> None:
    with pytest.raises(UnreachableError, match=r"the model failed every time \(verifier endpoint: "):
        await play(home, there=False, candidates={"verifier": "endpoint"})
    tree, found = read(home)
    cut = [verdict for node in tree if (verdict := verdict_of(node)) is not None and verdict.cut]
    assert len(cut) == 2 and len(found) == 1, "the search before it stands, and what was drawn is kept"


async def test_a_budget_that_is_spent_in_mid_search_ends_the_episode_where_it_stood(home: Path) -> None:
    result = await play(home, budget={"episode_tokens": 1500}, candidates={"options": {"completions": {"k": 8}}})
    (trajectory,) = result.trajectories
    failure = trajectory.outcome.failure
    assert failure is not None and failure.boundary is Boundary.BUDGET and "tokens used of 1500" in failure.message
    tree, found = read(home)
    cut = [node for node in tree if (verdict := verdict_of(node)) is not None and verdict.cut]
    assert cut and {node.parent_id for node in cut} == {trajectory.leaf_id}, "what was drawn stands behind the last"
    assert tree.node(trajectory.leaf_id or "").author is Author.ENVIRONMENT and len(found) == trajectory.turns
    assert Counter(node.message.text for node in cut if "beside" not in node.attributes) == {}


async def test_the_state_before_a_risky_action_is_kept_with_candidates_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILVA_HOME", str(home / "own"))
    await play(home, candidates={"verifier": "alike"}, snapshots={"risky": True})
    tree, found = read(home)
    risky = [search.chosen for search in found if called(search.chosen) == "delete_all" and not search.searched.equal]
    assert risky and all(tree.node(str(node.parent_id)).snapshot_id for node in risky)


async def test_what_a_person_forbids_is_not_tried_in_a_copy_either(home: Path) -> None:
    result = await play(home, forbidden="delete_all", candidates={"n": 6, "verifier": "rules"})
    tree, found = read(home)
    assert result.trajectories[0].outcome.failure is None
    errors = {called(node): verdict.error for search in found for node, verdict in search.candidates if verdict.error}
    assert errors == {"delete_all": "a person forbids it"}
    assert "error: all is deleted" not in {node.message.text for node in tree}


async def test_what_cannot_be_searched_is_refused_before_anything_is_played(home: Path) -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"candidates": {"verifier": "oracle"}}, "verifier 'oracle': is not installed; there are: alike, completions"),
        ({"candidates": {"n": 99}}, "n is from 1 to 64, not 99"),
        ({"candidates": {"options": {"rules": {}}}}, "options are given for rules, which is no verifier of this run"),
        ({"hosts": {"inline": True, "instances": 1}}, "has room for one instance, and they are tried in another"),
    )
    for given, match in wrong:
        with pytest.raises(UsageError, match=match):
            await play(home, **given)
    done = CliRunner().invoke(
        app, ["--env", "arithmetic", "--candidates", "2", "guidance.approve=all"], standalone_mode=False
    )
    assert isinstance(done.exception, SilvaError) and "tried in copies before anybody could approve" in str(
        done.exception
    )


@pytest.mark.slow
@pytest.mark.parametrize("env", ["babyai", "textworld", "gymnasium/FrozenLake-v1"])
async def test_in_real_gyms_every_answer_is_what_the_same_actions_give_from_the_beginning(home: Path, env: str) -> None:
    hosts = HostPool(Registry.load().entry(env))
    try:
        await hosts.__aenter__()
    except MissingError as missing:
        pytest.skip(str(missing))
    try:
        given = {"hosts": {"count": 1}, "budget": {"turns": 4}, "tasks": {"limit": 1}, "sampling": {"temperature": 1}}
        result = await play(home, env, plays="roams", candidates={"verifier": "rules"}, **given)
        with Lake.open(home / "lake", mode="read") as lake:
            tasks = {each.id: each for each in lake.tasks()}
            trees = {each.id: lake.tree(each.tree_id) for each in result.trajectories}
        aside = 0
        for each in result.trajectories:
            assert each.outcome.failure is None
            for search in searches(trees[each.id]):
                for node, verdict in search.candidates:
                    if search.searched.equal or not (answer := answer_of(trees[each.id], node)):
                        continue
                    aside += not verdict.chosen
                    async with hosts.lease() as copy:
                        walk = list(trees[each.id].walk(answer[-1].id))
                        assert (await replay(copy, tasks[each.task_id], each.seed, walk)).divergence is None
        assert aside >= 3
    finally:
        await hosts.close()
