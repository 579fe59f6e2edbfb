"""A whole CoEvolve loop of a tiny policy: killed while tasks grow and while it plays them, it grows the same tasks and
makes the same versions as one that was left alone; what it shows is there; without signals nothing grows."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from one_process import begin_whole, kill_in
from small_coevolve import growing as configuration

from silva.envs.protocol import Goal
from silva.lake import Lake
from silva.loops.coevolve import growing
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.kind import COEVOLVE
from silva.loops.coevolve.stages import grow, signals
from silva.loops.coevolve.tasks import grown, held_out
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import read_shown
from silva.loops.kernel.turn import turn
from silva.loops.line.head import registry
from silva.loops.line.play import tasks_named
from silva.loops.line.stages import train
from silva.loops.roles import Candidate, Context, Explored, Source, Walk, born
from silva.loops.roles.born import keep
from silva.rollout.acted import Acted
from silva.tree import Usage

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")


def taught(folder: Path) -> None:
    """Run a loop's stages up to the first that is not every line's own."""
    turn(CoEvolveConfig.model_validate(configuration(folder)), here=True, until="rollout")


def made(loop: Loop[CoEvolveConfig]) -> tuple[list[Any], list[str]]:
    with Lake.open(loop.lake, mode="read") as lake:
        judged = born(lake, loop.given("round-2.grow")["run"])
    tasks = [(task.id, how.verdict, how.reason, [str(each) for each in how.solution]) for task, how in judged]
    assert tasks
    return tasks, [each.digest for each in registry(loop).line("boxes").versions]


def test_a_killed_loop_grows_the_same_tasks_and_makes_the_same_versions(tmp_path: Path) -> None:
    alone, killed = tmp_path / "left alone", tmp_path / "killed"
    taught(alone)
    shutil.copytree(alone, killed)  # a folder may be moved with the lake in it
    left = begin_whole("coevolve", configuration(alone))
    for stage in ("round-2.grow", "round-3.rollout"):
        kill_in(begin_whole("coevolve", configuration(killed)), killed, stage)
    assert begin_whole("coevolve", configuration(killed)).wait(timeout=900) == 0
    assert left.wait(timeout=900) == 0

    one, other = (read_loop(each)[1] for each in (alone, killed))
    assert set(other.ledger.over()) == {stage.name for stage in other.plan}
    assert made(one) == made(other)
    _grew(one)
    _trained_on(one)
    _shows(one)
    _an_attempt_brings_about_more_than_it_was_for(one)
    _without_signals(one)
    _grows_where_a_grown_task_was_explored(one)


def _grew(loop: Loop[CoEvolveConfig]) -> None:
    said = loop.given("round-2.grow")
    assert said["contexts"] == 8 and 16 <= said["turns"] <= 80 and said["walks"] == 16 and not said["remaining"]
    assert said["candidates"] and said["refused"]  # what is there already, and what the writer says and nobody can do
    tasks = grown(loop)
    places = {task.data["place"] for task in held_out(loop)}
    assert all(how.success and how.solution and task.data["place"] not in places for task, how in tasks)
    with Lake.open(loop.lake, mode="read") as lake:
        assert len(tasks) == min(6, len(born(lake, said["run"])) - sum(said["refused"].values()))
        for task, how in tasks:
            seen = lake.trajectory(how.source.seen)  # the walk in which the signal was, and the walk from there
            assert seen.run_id == loop.given("round-2.rollout")["run"] and how.parent == seen.task_id
            assert lake.trajectory(how.source.trajectory).run_id.startswith(said["run"]) and task.born is not None
    assert loop.given("round-3.rollout")["known"] == 12 + len(tasks)


def _trained_on(loop: Loop[CoEvolveConfig]) -> None:
    trains = {each.round: each for each in loop.plan if each.kind == "train"}
    taught, learnt = (str(loop.given(f"round-{each}.register")["version"]) for each in (1, 2))
    assert train._optimiser(loop, trains[2], taught).moments is None, "what imitation gathered is of another size"
    moments = train._optimiser(loop, trains[3], learnt).moments
    there = loop.folder / "rounds" / "2" / "train" / "checkpoints" / "step-000001"
    assert moments == there and there.is_dir()


def _shows(loop: Loop[CoEvolveConfig]) -> None:
    found = read_shown(loop.folder)
    assert not found.faults and len(found.tasks) == loop.given("report-after-3")["tasks"]
    assert {"Signals", "Tasks", "Groups whose rewards differ", "SR@5 of new tasks"} <= {e.title for e in found.curves}
    assert {"From signals to tasks", "Who acted"} <= {each.title for each in found.tables}
    page = (loop.folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "Tasks born" in page


def _an_attempt_brings_about_more_than_it_was_for(loop: Loop[CoEvolveConfig]) -> None:
    with Lake.open(loop.lake, mode="read") as lake:
        played = lake.trajectories(run_id=loop.given("survey")["run"])
        walk = next(each for each in played if "/put-" in each.task_id and each.outcome.success)
    place = tasks_named(loop, [walk.task_id])[0]
    began = Walk(trajectory=walk, context=Context(trajectory=walk.id, signal="rare"), task=place, before=0)
    explored = Explored(
        run="explored",
        walks=(began,),
        turns=0,
        acted=Acted.of("explorer", "policy", Usage()),
        left_out={},
        failed={},
        remaining=0,
    )
    source = Source(seen=walk.id, signal="rare")
    goal = Goal(words=place.data["goal"]["thing"], data=place.data["goal"])
    wanted = Candidate(place=place, goal=goal, source=source)
    walks = growing.attempted(explored, wanted, [walk])
    found = asyncio.run(growing.abstracted(loop, explored.run, walks))
    thing = place.data["goal"]["thing"]
    assert {f"hold {thing}", place.instruction.partition(": ")[2]} <= {each.goal.words for each in found}
    assert {(each.source.explored, each.source.signal) for each in found} == {("explored", "rare")}

    def said(known: set[str]) -> list[str]:
        return [each.goal.words for each, _ in asyncio.run(growing.written(loop, explored, 5, known))]

    drawn = asyncio.run(growing.written(loop, explored, 5, set()))[0][1]
    assert drawn is not None and said(set()) != said({drawn.id}), "a writer does not say what is a task already"


def _without_signals(loop: Loop[CoEvolveConfig]) -> None:
    values = {**configuration(loop.folder), "grow": {"signals": {"blamed": {}}}}
    blind = COEVOLVE.open(CoEvolveConfig.model_validate(values))
    stages = {stage.name: stage for stage in blind.plan}
    assert signals.run(blind, stages["round-2.signals"])["signals"] == {"blamed": 0}
    assert grow.run(blind, stages["round-2.grow"])["accepted"] == []  # nobody was blamed, so nothing is explored


def _grows_where_a_grown_task_was_explored(loop: Loop[CoEvolveConfig]) -> None:
    task, how = grown(loop)[0]
    for run, round in (("later", 3), ("of another loop", how.round)):
        with Lake.open(loop.lake) as lake:
            asyncio.run(keep(lake, run, [task]))  # as an exploration that begins at it keeps it
        again = Candidate(place=task, goal=how.goal, solution=how.solution)
        asyncio.run(growing.admitted(loop, run, [again], round, ()))
        with Lake.open(loop.lake, mode="read") as lake:
            assert [(each.round, each.reason) for _, each in born(lake, run, round)] == [(round, "known")]
