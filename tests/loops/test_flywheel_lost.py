"""A model server or a host of environments that dies while a loop plays: nothing of it counts against the policy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from ray_cluster import needs_ray, two_nodes
from small_flywheel import configuration, sums

from silva.errors import Exit, UnreachableError
from silva.lake import Lake
from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.kind import FLYWHEEL
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import registry
from silva.loops.line.play import PARTS, play
from silva.tree import Boundary, Task, Trajectory
from silva.tree.formats.tasks import read_tasks

HERE = Path(__file__).parent

STAGE = Stage(name="rollout", kind="rollout", round=1, seed=0, inputs="")


def loop_in(folder: Path, env: str = "arithmetic", **more: Any) -> Loop[LineConfig]:
    """A loop whose agents wait so short a time for their model that one which is gone is soon noticed."""
    playing = {"agent": "tools", "pool": 8, "deadlines": {"model": 2.5}, **more}
    rounds = [{"source": "expert", "steps": 1}]
    return FLYWHEEL.open(
        FlywheelConfig.model_validate({"folder": folder, "env": env, "play": playing, "rounds": rounds})
    )


def questions(folder: Path, count: int) -> list[Task]:
    file = sums(folder / "tasks.jsonl", count)
    return read_tasks(file.read_text(encoding="utf-8"), file.name, "arithmetic")


def dying(folder: Path, deaths: int, **script: Any) -> str:
    """The spec of a scripted model whose server dies so often."""
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "dying.py", folder)
    (folder / "deaths").write_text(str(deaths))
    (folder / "script.yaml").write_text(yaml.safe_dump({"function": "dying.py:reply", **script}))
    return f"scripted:{folder / 'script.yaml'}"


def attempts(loop: Loop[LineConfig], run: str = "run") -> list[Trajectory]:
    return Lake.open(loop.lake, mode="read").trajectories(run_id=run)


def counting(loop: Loop[LineConfig], run: str = "run") -> dict[tuple[str, int], tuple[float | None, list[str]]]:
    """Score and words of the one attempt that counts at each place."""
    lake = Lake.open(loop.lake, mode="read")
    found: dict[tuple[str, int], tuple[float | None, list[str]]] = {}
    for each in lake.trajectories(run_id=run):
        if not each.superseded:
            assert (each.task_id, each.index) not in found, "two attempts count at one place"
            found[each.task_id, each.index] = each.outcome.score, [node.message.text for node in lake.walk(each)]
    return found


@pytest.mark.parametrize("count", [6, pytest.param(20, marks=pytest.mark.slow)])  # with many a run gives up midway
def test_a_model_server_that_dies_in_a_stage_leaves_the_attempts_of_one_that_lived(tmp_path: Path, count: int) -> None:
    alone, struck = loop_in(tmp_path / "alone"), loop_in(tmp_path / "struck")
    model = dying(tmp_path / "policy", 0)
    tasks = questions(tmp_path, count)
    play(alone, STAGE, "run", tasks, {"model": model, "group": 2})
    dying(tmp_path / "policy", 1)
    result = play(struck, STAGE, "run", tasks, {"model": model, "group": 2})
    assert counting(struck) == counting(alone) and len(counting(alone)) == 2 * count
    gone = [each for each in attempts(struck) if each.superseded]
    assert gone and all(each.outcome.failure and each.outcome.failure.boundary is Boundary.MODEL for each in gone)
    assert sum(not each.superseded for each in result.trajectories) == 2 * count


def test_a_server_that_dies_every_time_stops_the_stage_in_a_line_and_begun_again_it_goes_on(tmp_path: Path) -> None:
    loop, tasks = loop_in(tmp_path / "loop"), questions(tmp_path, 16)
    model = dying(tmp_path / "policy", 99)
    with pytest.raises(UnreachableError, match=rf"run run: in {PARTS} parts.*attempts were lost \(model\.") as told:
        play(loop, STAGE, "run", tasks, {"model": model})
    assert "\n" not in str(told.value) and "begin the loop again" in str(told.value)
    assert told.value.code is Exit.UNREACHABLE
    assert "--retry-failed" not in str(told.value), "the advice is a loop's, not a rollout's"
    assert (tmp_path / "policy" / "deaths").read_text() == str(99 - PARTS)
    dying(tmp_path / "policy", 0)
    played = {each.id for each in attempts(loop) if each.outcome.failure is None}
    play(loop, STAGE, "run", tasks, {"model": model})
    assert {score for score, _ in counting(loop).values()} == {1.0} and len(counting(loop)) == 16
    assert played <= {each.id for each in attempts(loop) if not each.superseded}, "what had ended was not played again"


def test_what_the_policy_or_the_environment_did_itself_stays_what_it_is(tmp_path: Path) -> None:
    loop, tasks = loop_in(tmp_path / "loop"), questions(tmp_path, 4)
    full = {"when": {"last": "12 [+] 0"}, "fault": {"kind": "context_length"}}
    play(loop, STAGE, "run", tasks, {"model": dying(tmp_path / "policy", 0, rules=[full])})
    broken = [each for each in attempts(loop) if each.outcome.failure]
    assert [(each.task_id, each.attempt, each.superseded) for each in broken] == [("sum/12", 0, False)]


def test_a_host_that_dies_more_often_than_a_run_forgives_is_played_again(tmp_path: Path) -> None:
    deaths = tmp_path / "deaths"
    deaths.write_text("4")  # three within the first part, one in the second
    env = f"{HERE / 'falling.py'}:Falling"
    loop = loop_in(tmp_path / "loop", env, pool=1, options={"deaths": str(deaths)})  # one after the other on one host
    tasks = [Task(id=f"falling/{name}", env=env, split="train") for name in ("fine", "raises")]
    play(loop, STAGE, "run", tasks, {"policy": "expert"})
    counted = {each.task_id: each for each in attempts(loop) if not each.superseded}
    assert counted["falling/fine"].outcome.success and counted["falling/fine"].attempt == 4
    failure = counted["falling/raises"].outcome.failure
    assert failure is not None and failure.code == "env.raised" and counted["falling/raises"].attempt == 0


@needs_ray
@pytest.mark.slow
def test_a_run_played_on_ray_is_the_one_played_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, model = questions(tmp_path, 6), dying(tmp_path / "policy", 0)
    here = loop_in(tmp_path / "here")
    play(here, STAGE, "run", tasks, {"model": model, "group": 2})
    with two_nodes(tmp_path / "log", monkeypatch) as cluster:
        there = loop_in(tmp_path / "there", on="ray", ray={"address": cluster.address})
        play(there, STAGE, "run", tasks, {"model": model, "group": 2})
    assert counting(there) == counting(here) and len(counting(here)) == 12


# A whole loop


def servers(process: subprocess.Popen[bytes]) -> list[int]:
    """The model servers that a loop has started; the warden of each, whose words name it too, is none."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
        return [each.pid for each in below if each.cmdline()[1:4] == ["-P", "-m", "silva.models.local"]]
    except psutil.Error:
        return []


def strike(process: subprocess.Popen[bytes], loop: Path, stage: str, run: str, times: int) -> int:
    """Kill the model server so often while a stage plays, each time once an attempt has ended; how often it was."""
    struck: set[int] = set()
    deadline = time.monotonic() + 400
    while process.poll() is None and len(struck) < times and time.monotonic() < deadline:
        time.sleep(0.02)
        ledger = loop / "ledger.jsonl"
        begun = ledger.read_bytes() if ledger.exists() else b""
        if f'"stage":"{stage}","event":"begun"'.encode() not in begun or not (loop / "lake").exists():
            continue
        found = [pid for pid in servers(process) if pid not in struck]
        if found and Lake.open(str(loop / "lake"), mode="read").trajectories(run_id=run, limit=1):
            for pid in found:
                os.kill(pid, signal.SIGKILL)
            struck.update(found)
    return len(struck)


@pytest.mark.slow
@pytest.mark.weekly
def test_a_loop_whose_model_server_is_killed_decides_as_one_left_alone(
    tmp_path: Path, begin: Callable[[Path], subprocess.Popen[bytes]]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("peft")
    tasks = sums(tmp_path / "tasks.jsonl", 30)
    files: dict[str, Path] = {}
    for name in ("alone", "struck"):
        values = configuration(tmp_path / name, tasks, line="sums", seeds=4, played=6, steps=2, every=20)
        values["rounds"] = [values["rounds"][0] | {"steps": 30}]
        values["tasks"] |= {"train": 0.6, "dev": 0.4, "test": 0.0}
        values["play"] |= {"pool": 2, "deadlines": {"model": 8.0}}
        files[name] = tmp_path / f"{name}.yaml"
        files[name].write_text(yaml.safe_dump(values), encoding="utf-8")
    assert begin(files["alone"]).wait(timeout=600) == 0

    struck = tmp_path / "struck"
    process = begin(files["struck"])
    assert strike(process, struck, "measure", "sums.dev.sums-0", PARTS) == PARTS
    assert process.wait(timeout=300) != 0
    last = read_loop(struck)[1].ledger.entries[-1]
    assert (last.stage, last.event) == ("measure", "failed") and f"in {PARTS} parts" in last.note
    process = begin(files["struck"])
    assert strike(process, struck, "round-1.measure", "sums.dev.sums-1", 1) == 1
    assert process.wait(timeout=600) == 0

    one, other = (read_loop(tmp_path / name)[1] for name in ("alone", "struck"))
    lines = [registry(each).line("sums") for each in (one, other)]
    versions = [[(v.name, v.digest, v.parent, line.status(v)) for v in line.versions] for line in lines]
    assert versions[0] == versions[1] and len(versions[0]) >= 2
    assert one.given("round-1.judge") == other.given("round-1.judge")
    for run in ("sums.dev.sums-0", "sums.dev.sums-1"):
        assert counting(one, run) == counting(other, run)
        assert any(each.superseded for each in attempts(other, run)), "no attempt was lost to the kill"
