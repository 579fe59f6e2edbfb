"""Who is the head: what `judge` and `prove` decide over attempts in a lake, and what they do to the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from policy_folders import adapter as adapter_folder
from policy_folders import base as base_weights_folder

from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.kind import FLYWHEEL
from silva.loops.kernel.ledger import Entry
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import part_file, registry, task_file
from silva.loops.line.play import learnt
from silva.loops.line.stages import decide
from silva.train.data import dataset as data
from silva.tree import Json, Outcome, Status, Task, Trajectory
from silva.tree.formats.tasks import write_tasks

BASE, TRAINED = "flywheel-0", "flywheel-1"


def loop_with(folder: Path, part: str, solved: dict[str, int]) -> Loop[LineConfig]:
    """A loop whose first round has trained a version; of a part's 20 tasks each version solved so many."""
    rounds = [{"source": "expert", "steps": 1}]
    loop = FLYWHEEL.open(
        FlywheelConfig.model_validate({"folder": folder / "loop", "env": "arithmetic", "rounds": rounds})
    )
    kept = registry(loop)
    kept.begin("flywheel", base_weights_folder(folder / "small"))
    kept.register("flywheel", adapter_folder(folder / "trained"))
    note(loop, "base", {"version": BASE})
    note(loop, "round-1.register", {"version": TRAINED})
    with Lake.open(loop.lake) as lake:
        for version, count in solved.items():
            lake.append_sync([attempt(f"flywheel.{part}.{version}", n, n < count) for n in range(20)])
    return loop


def note(loop: Loop[LineConfig], stage: str, outputs: Json) -> None:
    loop.ledger.append(Entry(stage=stage, event="ended", inputs="", at=1.0, outputs=outputs))


def attempt(run: str, number: int, success: bool) -> Trajectory:
    return Trajectory(
        id=f"{run}-{number}",
        tree_id=f"{run}-{number}",
        run_id=run,
        task_id=f"task/{number}",
        env="arithmetic",
        index=0,
        attempt=0,
        seed=0,
        leaf_id=None,
        outcome=Outcome(status=Status.COMPLETED, score=float(success), success=success, failure=None),
    )


def decided(loop: Loop[LineConfig], kind: str) -> Json:
    return FLYWHEEL.run(loop, next(stage for stage in loop.plan if stage.kind == kind))


def head(loop: Loop[LineConfig]) -> str:
    line = registry(loop).line("flywheel")
    return line.versions[line.head].name


@pytest.mark.parametrize(("after", "promoted"), [(16, True), (6, False), (0, False)])
def test_a_candidate_is_promoted_only_where_the_whole_interval_of_its_gain_lies_above_nought(
    tmp_path: Path, after: int, promoted: bool
) -> None:
    loop = loop_with(tmp_path, "dev", {BASE: 4, TRAINED: after})
    said = decided(loop, "judge")
    assert said["promoted"] is promoted and said["verdict"]["tasks"] == 20
    assert head(loop) == (TRAINED if promoted else BASE)
    events = len(registry(loop).line("flywheel").events)
    assert decided(loop, "judge") == said and len(registry(loop).line("flywheel").events) == events


def test_a_round_learns_from_the_tasks_of_its_tags(tmp_path: Path) -> None:
    loop = loop_with(tmp_path, "dev", {})
    note(loop, "survey", {"run": "flywheel.survey"})
    tasks = [
        Task(id=f"t/{n}", env="arithmetic", instruction=str(n), split="train", tags=("odd",) if n % 2 else ())
        for n in range(4)
    ]
    known = task_file(loop, "flywheel.survey")
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text("".join(write_tasks(tasks)), encoding="utf-8")
    entries = tuple(
        data.Entry(lake="l", run_id="r", env=task.env, task_id=task.id, trajectory_id=task.id) for task in tasks[1:]
    )
    data.write_dataset(part_file(loop, "train"), data.DataSet(part="train", entries=entries))
    assert learnt(loop, ()) == ["t/1", "t/2", "t/3"] and learnt(loop, ("odd", "other")) == ["t/1", "t/3"]
    with pytest.raises(UsageError, match=r"rounds.tags even: none of 3 tasks has one of them"):
        learnt(loop, ("even",))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempts are in the lake: nothing is played."""

    def measure(loop: Loop[LineConfig], stage: Stage, version: str, part: str) -> dict[str, Any]:
        return {"version": version, "part": part}

    monkeypatch.setattr(decide, "measure", measure)


def proving(folder: Path, after: int) -> Loop[LineConfig]:
    loop = loop_with(folder, "test", {BASE: 12, TRAINED: after})
    registry(loop).promote(TRAINED, over=BASE)
    note(loop, "round-1.judge", {"promoted": True, "candidate": TRAINED})
    return loop


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize(("after", "back"), [(0, True), (11, False), (18, False)])
def test_a_head_that_is_worse_on_tasks_no_decision_saw_is_rolled_back(tmp_path: Path, after: int, back: bool) -> None:
    loop = proving(tmp_path, after)
    said = decided(loop, "prove")
    assert said["rolled_back"] is back and head(loop) == (BASE if back else TRAINED)
    assert decided(loop, "prove") == said  # killed before the ledger had it, and begun again


@pytest.mark.usefixtures("played")
def test_nothing_is_said_to_be_rolled_back_where_somebody_else_has_promoted(tmp_path: Path) -> None:
    loop = proving(tmp_path, 0)
    theirs = registry(loop).register("flywheel", adapter_folder(tmp_path / "theirs", seed=2))
    registry(loop).promote(theirs.name, by="somebody else")
    said = decided(loop, "prove")
    assert said["rolled_back"] is False and head(loop) == theirs.name
