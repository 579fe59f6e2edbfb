"""From a walk that failed to a task that is new: explored in branches, looked back on, validated by execution, kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from silva.cli.tasks import app
from silva.envs import HostPool, Registry
from silva.envs.protocol import Goal
from silva.errors import UnreachableError, UsageError
from silva.lake import Lake
from silva.loops.roles import (
    AdmissionConfig,
    Candidate,
    Context,
    ExploreConfig,
    Held,
    Validator,
    admit,
    born,
    explore,
    make,
)
from silva.loops.roles.admission import SafetyConfig, decide
from silva.loops.roles.validation import ValidationConfig
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.acted import acted_on
from silva.tree import Author, Message, Task, assistant, call
from silva.tree.formats.tasks import write_tasks

HERE = Path(__file__).parent
SHELF = f"{HERE / 'shelf.py'}:Shelf"


def acts(*names: str) -> list[Message]:
    return [assistant("", call("act", {"action": name})) for name in names]


def settings(tmp_path: Path, run: str, env: str = SHELF, **more: Any) -> RolloutConfig:
    fields = {"run": run, "env": env, "lake": str(tmp_path / "lake"), "policy": "null", "hosts": {"inline": True}}
    return RolloutConfig.model_validate({**fields, **more})


def place(kind: str = "Shelf") -> HostPool:
    return HostPool(Registry.load().entry(f"{HERE / 'shelf.py'}:{kind}"))


@pytest.mark.slow
async def test_walks_are_explored_in_branches_looked_back_on_validated_and_kept_with_where_they_come_from(tmp_path):
    made = await run_rollout(settings(tmp_path, "first", policy="expert", tasks={"ids": ["shelf/3", "shelf/4"]}))
    contexts = [Context(trajectory=each.id, signal="rare", signal_id="s", focus="drop") for each in made.trajectories]
    config = ExploreConfig(rounds=2, steps=12)
    async with Lake.open(str(tmp_path / "lake")) as lake, place() as pool:
        explorer = make("explorer", "random")
        explored = await explore(lake, settings(tmp_path, "explored"), explorer, contexts, config)
        assert len(explored.walks) == 4 and not explored.failed and 0 < explored.turns <= 48
        assert explored.acted.role == "explorer" and explored.acted.by == "random"
        # The walks stand in the tree of what they explore, each action saying who took it.
        for walk in explored.walks:
            nodes = lake.walk(walk.trajectory)
            mine = [node for node in nodes if node.author is Author.POLICY and node.run_id == "explored"]
            assert mine and all(acted_on(node)[0].by == "random" for node in mine)
            assert walk.trajectory.tree_id in {each.tree_id for each in made.trajectories}
        again = await explore(lake, settings(tmp_path, "explored"), explorer, contexts, config)
        assert [each.trajectory.id for each in again.walks] == [each.trajectory.id for each in explored.walks]

        # Behind an action a walk goes on from it, and takes its place where nothing came after it.
        walked = made.trajectories[0]
        done = [node.id for node in lake.walk(walked) if node.author is Author.POLICY]
        behind = [Context(trajectory=walked.id, node=node, behind=True) for node in (done[0], done[-1])]
        on = await explore(lake, settings(tmp_path, "on"), explorer, behind, ExploreConfig(rounds=1, steps=2))
        gone = {each.context.node: {node.id for node in lake.walk(each.trajectory)} for each in on.walks}
        assert done[0] in gone[done[0]] and done[-1] not in gone[done[-1]]

        async with pool.lease() as env:
            held = await Held.of(env, await pool.tasks(ids=["shelf/1"]))
            found = await make("abstracter", "hindsight", {"whole": True}).abstract(env, lake, explored.walks)
            assert found and all(len(each.solution) >= 2 and each.acted[0].by == "hindsight" for each in found)
        admission = AdmissionConfig(validation=ValidationConfig(similarity_below=1.01))
        done = await admit(lake, "explored", pool, found, held, admission, round=3)
        accepted = done.of("accepted")
        assert accepted and done.steps > 0
        kept = {task.id: said for task, said in born(lake, "explored")}
        assert set(kept) == {task.id for task in done.tasks}
        for task in accepted:
            said = kept[task.id]
            assert said.success and said.round == 3 and said.similarity is not None and said.nearest == "shelf/1"
            assert said.source.explored == "explored" and said.source.signal == "rare"
            assert lake.trajectory(said.source.trajectory).run_id == "explored"
            assert lake.trajectory(said.source.seen).run_id == "first"
        # Asked for again, nothing is made twice.
        more = await admit(lake, "explored", pool, found, held, admission)
        assert not more.of("accepted") and "known" in more.reasons
    # What is kept is played like any other task.
    ids = [task.id for task in accepted]
    file = tmp_path / "born.jsonl"
    file.write_text("".join(write_tasks(accepted)))
    replayed = await run_rollout(settings(tmp_path, "second", policy="expert", tasks={"file": str(file)}))
    assert sorted(each.task_id for each in replayed.trajectories) == sorted(ids)
    assert [each.outcome.success for each in replayed.trajectories] == [True] * len(ids)


def silva(*words: str) -> Result:
    """What a command of `silva tasks` came to."""
    return CliRunner().invoke(app, list(words), standalone_mode=False)


@pytest.mark.slow
async def test_what_brought_nothing_new_is_not_tried_again(tmp_path):
    file = tmp_path / "far.jsonl"
    far = Task(
        id="shelf/1/far", env="shelf", instruction="stand at 9", split="test", data={"seed": 1, "goal": {"stand": 9}}
    )
    file.write_text("".join(write_tasks([far])), encoding="utf-8")
    did: dict[bool, list[str]] = {}
    for untried in (False, True):
        stages = {"explore": {"untried": untried}}
        more = {"policy": "expert", "stages": stages, "tasks": {"file": str(file)}}
        result = await run_rollout(settings(tmp_path, f"untried-{untried}", **more))
        async with Lake.open(str(tmp_path / "lake"), mode="read") as lake:
            nodes = lake.walk(result.trajectories[0])
        did[untried] = [call.parsed()["action"] for node in nodes for call in node.message.tool_calls]
    assert set(did[False]) == {"right"} and len(did[False]) == 20
    # The end of the shelf is where going on shows nothing new: what has not been done there yet is done in its place.
    assert did[True][:5] == ["right"] * 5 and "right" not in did[True][5:7] and {"left", "take"} & set(did[True])


async def test_what_is_infeasible_trivial_or_held_out_is_refused_with_the_reason_and_its_likeness(tmp_path):
    async with place() as pool, pool.lease() as env:
        tasks = await pool.tasks()
        held = await Held.of(env, tasks[:1])
        goals = {goal.words: goal for goal in await env.goals(tasks[1])}
        cases = [
            ("stand at cell 9", acts("right", "right", "right"), "infeasible"),
            ("stand at cell 0", acts("right", "left"), "trivial"),  # it holds before anybody acts
            ("stand at cell 1", acts("right"), "trivial"),
            ("hold the cup", acts("right", "right"), "infeasible"),
            ("stand at cell 3", [], "unsolved"),
            ("stand at cell 4", acts(*["left", "right"] * 40), "long"),
            ("stand at cell 2", acts("right", "right", "left"), ""),
            ("stand at cell 2", acts("left", "right", "right"), "known"),
        ]
        candidates = [Candidate(place=tasks[1], goal=goals[words], solution=tuple(done)) for words, done, _ in cases]
        candidates.append(Candidate(place=tasks[1], goal=Goal(words="fly", data={"fly": 1})))
        candidates.append(Candidate(place=tasks[0], goal=goals["stand at cell 2"], solution=tuple(acts("right") * 2)))
    async with place() as pool:
        found = await Validator(pool.lease, held, ValidationConfig(similarity_below=1.01)).validate(candidates)
        assert [each.reason for each in found] == [*[reason for *_, reason in cases], "goal", "copy"]
        assert all(each.why for each in found if each.reason)
        assert len(found[6].solution) == 2, "what came after the goal was reached is no part of the solution"
        assert found[0].similarity is not None and found[0].score == 0.0
        # The bound on likeness refuses by what an agent is shown; without execution nothing else is found out.
        alike = Candidate(place=tasks[2], goal=goals["hold the cup"], solution=tuple(acts("take", "take")))
        strict = await Validator(pool.lease, held, ValidationConfig()).validate([alike])
        assert strict[0].reason == "copy" and strict[0].similarity == pytest.approx(1) and "looks like" in strict[0].why
        free = await Validator(pool.lease, held, ValidationConfig(similarity_below=1.01, execute=False)).validate(
            [alike]
        )
        assert free[0].accepted and free[0].score is None


async def test_a_person_and_a_safety_filter_stand_before_admission(tmp_path):
    async with Lake.open(str(tmp_path / "lake")) as lake, place() as pool:
        async with pool.lease() as env:
            tasks = await pool.tasks()
            drawn = await make("writer", "synthesis").write(env, tasks[1], 20, known=["hold the cup"])
            assert {each.goal.words for each in drawn} == {f"stand at cell {n}" for n in (0, 1, 2, 3, 4, 9)}
            nothing = await Held.of(env, [])
        config = AdmissionConfig(validation=ValidationConfig(expert=True, most=10), approval=True)
        done = await admit(lake, "written", pool, drawn, nothing, config)
        assert {task.data["goal"]["stand"] for task in done.of("waiting")} == {2, 3, 4}
        assert done.reasons == {"trivial": 2, "infeasible": 1}
        assert all(task.born.get("similarity") is None for task in done.tasks), "nothing is held out"
        ids = [task.id for task in done.of("waiting")]
        there = str(tmp_path / "lake")
    for words in (["approve", "written", ids[0]], ["reject", "written", ids[1], "--why", "dull"]):
        told = await asyncio.to_thread(silva, *words, "--by", "ada", "--lake", there)
        assert told.exception is None and ids[words[0] == "reject"] in told.output
    told = await asyncio.to_thread(silva, "list", "written", "--lake", there)
    assert "6 tasks: 1 accepted, 4 refused, 1 waiting" in told.output and "(person: dull)" in told.output
    async with Lake.open(there) as lake, place() as pool:
        said = {task.id: each for task, each in born(lake, "written")}
        assert said[ids[0]].verdict == "accepted" and said[ids[0]].approval.by == "ada"
        assert said[ids[1]].reason == "person" and said[ids[1]].why == "dull"
        for asked, told in (
            (ids[0], "does not wait: it is accepted"),
            ("no-such", "has no synthesised task 'no-such'"),
        ):
            with pytest.raises(UsageError, match=told):
                await decide(lake, "written", [asked], "ada", True)

        secret = Candidate(
            place=tasks[2],
            goal=drawn[0].goal,
            solution=(assistant("the key is AKIAIOSFODNN7EXAMQLE", call("act", {"action": "right"})),) * 2,
        )
        sending = Candidate(
            place=tasks[3],
            goal=Goal(words="stand at cell 2", data={"stand": 2}),
            solution=tuple(acts("right", "right")),
        )
        safety = SafetyConfig(checkers=("secret",), forbid=("send",))
        made = await admit(lake, "safe", pool, [sending, secret], nothing, AdmissionConfig(safety=safety))
        assert len(made.of("accepted")) == 1
        for wrong in (SafetyConfig(forbid=("fly",)), SafetyConfig(checkers=("no-such",))):
            with pytest.raises(UsageError):
                await admit(lake, "x", pool, [], nothing, AdmissionConfig(safety=wrong))


@pytest.mark.slow
async def test_explorations_that_cannot_be_begun_or_all_break_are_one_line(tmp_path):
    plain = f"{HERE / 'shelf.py'}:Plain"
    made = await run_rollout(settings(tmp_path, "first", env=plain, tasks={"limit": 1}))
    context = Context(trajectory=made.trajectories[0].id)
    async with Lake.open(str(tmp_path / "lake")) as lake:
        for explorer, contexts, told, kind in (
            ("random", [], "no context to explore", UsageError),
            ("random", [context], "lists no valid actions", UnreachableError),
            ("random", [Context(trajectory="no-such")], "none of 1 contexts can be begun from", UsageError),
        ):
            with pytest.raises(kind, match=told):
                base = settings(tmp_path, "explored", env=plain)
                await explore(lake, base, make("explorer", explorer), contexts, ExploreConfig())
        # The same name for other contexts is refused, not mixed up.
        with pytest.raises(UsageError, match="explored other contexts"):
            await explore(lake, base, make("explorer", "random"), [context] * 2, ExploreConfig())
