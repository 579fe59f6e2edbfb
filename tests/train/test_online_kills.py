"""An online run that is killed, again and again, wherever it happens to be: nothing is lost and nothing done twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from online_parts import Compared, CountingEngine, Stamped, configured

from silva.errors import UnreachableError
from silva.lake import Lake
from silva.models.retry import Retry
from silva.models.scripted import Script, ScriptedProcess
from silva.train.buffer import Jobs
from silva.train.buffer.jobs import read_job
from silva.train.online.run import OnlineResult, OnlineRun

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent

ENTRY = """
import asyncio, json, sys
from pathlib import Path
from online_parts import Compared, CountingEngine, Stamped, configured, stamped_process
from silva.models.scripted import Script
from silva.train.buffer import Jobs
from silva.train.online.run import OnlineRun

async def main(folder, mode, every):
    config = configured(folder, mode=mode, steps=5, checkpoints={"every": every, "weights": False})
    resume = config.output.exists()
    config.output.mkdir(exist_ok=True)
    script = Script(function="online_parts.py:half_right", folder=sys.argv[4], latency=0.02)
    async with Jobs(config.output / "buffer") as jobs, stamped_process(script) as publisher:
        engine = CountingEngine(0.1)
        run = OnlineRun(config, engine, Compared(), jobs.open("online", config.terms(True)), publisher)
        print("begun", flush=True)
        result = await run.run(resume=resume)
        print(json.dumps([result.status, result.step, engine.total]), flush=True)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""


def start(folder: Path, mode: str, every: int) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", ENTRY, str(folder), mode, str(every), str(HERE)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)


def finished(folder: Path, mode: str, every: int) -> list[object]:
    process = start(folder, mode, every)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


def killed(folder: Path, mode: str, every: int, after: float) -> None:
    process = start(folder, mode, every)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize(
    ("mode", "every"), [pytest.param("sync", 1, marks=pytest.mark.weekly), ("sync", 2), ("async", 1)]
)
def test_a_killed_run_ends_as_one_that_was_not(tmp_path: Path, mode: str, every: int):
    draw = random.Random(f"{mode}{every}")
    folder = tmp_path / "disturbed"
    folder.mkdir()
    for _ in range(3):
        killed(folder, mode, every, draw.uniform(0.0, 1.2))
    status, step, total = finished(folder, mode, every)  # pyright: ignore[reportAssignmentType]
    assert (status, step) == ("finished", 5)
    if mode == "sync":  # which groups a step gets does not depend on who was faster
        (tmp_path / "calm").mkdir()
        assert finished(tmp_path / "calm", mode, every) == ["finished", 5, total]
    controller = read_job(folder / "out" / "buffer", "online")
    assert len(controller.delivered) == len(set(controller.delivered)) == 10
    assert (controller.committed, controller.version, controller.checkpointed) == (10, 5, 10)
    # Of a run that never waits, a kill may leave a group too old: it is withheld, and another takes its place.
    assert not (set(controller.withheld) & set(controller.delivered))
    assert len(controller.withheld) <= (3 if mode == "async" else 0)
    with Lake.open(folder / "lake", "read") as lake:
        ended = Counter((each.task_id, each.index) for each in lake.trajectories(run_id="run"))
        run = lake.run("run")
    assert set(ended.values()) == {1}
    assert run is not None and run.status == "finished"


async def played(folder: Path, kill_after: int | None = None) -> OnlineResult:
    """One part of a run before a model server of its own, which is killed once so many steps are trained."""
    config = configured(folder, mode="async", steps=5, rollout={"pool": 8})
    resume = config.output.exists()
    config.output.mkdir(exist_ok=True)
    script = Script(function="online_parts.py:half_right", folder=str(HERE), latency=0.02)
    server = await asyncio.to_thread(ScriptedProcess(script).start)
    publisher = Stamped(server.url, server.token, Retry(attempts=2, first=0.05))
    engine = CountingEngine(0.1)

    def stopping() -> bool:
        if kill_after is not None and engine.step >= kill_after:
            server.stop()  # who stops it once more does nothing
        return False

    try:
        async with Jobs(config.output / "buffer") as jobs:
            buffer = jobs.open("online", config.terms(True))
            run = OnlineRun(config, engine, Compared(), buffer, publisher, stopping=stopping)
            return await run.run(resume=resume)
    finally:
        await publisher.close()
        await asyncio.to_thread(server.stop)


async def test_what_failed_at_a_dead_model_server_is_tried_again(tmp_path: Path):
    with pytest.raises(UnreachableError, match=r"the model failed every time \(.*go on with --resume"):
        await played(tmp_path, kill_after=2)
    with Lake.open(tmp_path / "lake", "read") as lake:
        run = lake.run("run")
        failed = {(each.task_id, each.index) for each in lake.trajectories(run_id="run") if each.outcome.failure}
    assert run is not None and run.status == "stopped" and len(failed) >= 20
    result = await played(tmp_path)
    assert (result.status, result.step) == ("finished", 5)
    with Lake.open(tmp_path / "lake", "read") as lake:
        ended = lake.trajectories(run_id="run")
    again = {(each.task_id, each.index) for each in ended if each.attempt and not each.outcome.failure}
    assert again and again <= failed and not any("failed" in reason for reason in result.barren)
    places = Counter((each.task_id, each.index) for each in ended if not each.outcome.failure)
    assert set(places.values()) == {1} and len(places) >= 5 * 2 * 4
