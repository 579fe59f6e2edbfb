"""The parts of an online run that decide, configuration, order, timeline; and short runs of each mode."""

from __future__ import annotations

import asyncio
import errno
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from online_parts import Compared, CountingEngine, Stamped, configured
from pydantic import ValidationError

from silva.errors import StoreError, UsageError
from silva.lake import Lake
from silva.models.model import Completion, Request
from silva.models.scripted import Script, ScriptedServer
from silva.models.serving.server import ServerThread
from silva.train.buffer import BufferConfig, Jobs, Refused, open_job
from silva.train.buffer.controller import Controller
from silva.train.buffer.jobs import read_job
from silva.train.buffer.serve import buffer_app
from silva.train.curves import CurveFile
from silva.train.engines.engine import StepResult
from silva.train.online.drawing import figure, page
from silva.train.online.generation import LOOK
from silva.train.online.launch import open_buffer
from silva.train.online.limits import Limits, Readable, anything
from silva.train.online.order import Order
from silva.train.online.publisher import Named
from silva.train.online.run import OnlineResult, OnlineRun
from silva.train.online.timeline import FILE, Span, Timeline, measure, read_timeline, steady
from silva.train.output import held
from silva.train.sample import Image, Sample, SampleError
from silva.tree import Task

HERE = str(Path(__file__).parent)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "sync", "staleness": 1}, "staleness must be 0"),
        ({"mode": "async", "staleness": 0}, "say mode: sync"),
        ({"rollout": {"model": "local"}}, "rollout.model: an online run decides that"),
        ({"rollout": {"agent": "program: true"}}, "programs cannot be grown online"),
        ({"rollout": {"on": "ray"}}, "grows on this machine"),
        ({"rollout": {"sampling": {"temperature": 0.5}}}, "say it once"),
        ({"curves": {"lake": "lake"}}, "curves.lake"),
        ({"scale": {"processes": 2}}, "trains in one process"),
        ({"scale": {"shard": True}, "policy": {"method": "full"}}, "trains in one process"),
        ({"data": {"files": ["a.samples"]}}, "data: an online run grows its own"),
        ({"gateway": {"url": "http://127.0.0.1:1", "model": "m"}}, "adapters"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, fields: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        configured(tmp_path, **fields)


def test_the_switch_is_the_bound(tmp_path: Path):
    assert configured(tmp_path, mode="sync").bound == 0
    assert configured(tmp_path).bound == 1
    told = configured(tmp_path, staleness=3, algorithm={"name": "grpo"})
    assert told.terms(True).bound == 3 and told.parameters() == {"mixed_versions": True}
    assert configured(tmp_path, mode="sync", algorithm={"name": "grpo"}).parameters() == {}
    assert told.growth().sampling.logprobs and told.growth().group == 4


@given(tasks=st.integers(1, 12), group=st.integers(1, 4), seed=st.integers(0, 99), number=st.integers(0, 60))
def test_a_group_is_the_same_whenever_it_is_asked_for_and_no_place_comes_twice(tasks, group, seed, number):
    listed = [("env", Task(id=f"t/{n}", env="env", instruction="")) for n in range(tasks)]
    order = Order("run", listed, group, seed)
    seen = [(slot.task.id, slot.index) for each in range(number + 1) for slot in order.slots(each)]
    assert len(set(seen)) == len(seen) == (number + 1) * group
    assert order.slots(0) == Order("run", listed, group, seed).slots(0)
    assert Order("run", listed, group, seed).slots(number) == order.slots(number)
    epoch = {order.slots(each)[0].task.id for each in range(tasks)}
    assert len(epoch) == tasks


def test_versions_of_earlier_parts_of_a_run_are_known_by_name():
    named = Named("night")
    assert [named.number(each) for each in (named.name(7), "night-12", "base@1f", "night-x", "")] == [7, 12, 0, 0, 0]


SPANS = [
    Span(kind="rollout", start=0, end=4, lane=0),
    Span(kind="rollout", start=0, end=2, lane=1),
    Span(kind="rollout", start=4, end=8, lane=0),
    Span(kind="held", start=2, end=6),
    Span(kind="wait", start=0, end=4),
    Span(kind="train", start=4, end=5),
    Span(kind="commit", start=5, end=5.5, step=1),
    Span(kind="wait", start=5.5, end=8),
    Span(kind="commit", start=8, end=9, step=2),
]


def test_idle_shares_are_of_the_time_asked_about():
    whole = measure(SPANS, 2, 0, 10)
    assert whole.generation == pytest.approx(1 - 10 / 20)
    assert (whole.held, whole.training, whole.publishing) == pytest.approx((0.4, 0.65, 0.15))
    assert (whole.trajectories, whole.windows, whole.window_seconds, whole.per_window) == (3, 1, 3.5, 1)
    half = measure(SPANS, 2, 5, 10)
    assert half.generation == pytest.approx(1 - 3 / 10) and half.training == pytest.approx(0.5)
    assert steady(SPANS) is None
    assert steady([*SPANS, Span(kind="rollout", start=7, end=9)]) == (5.5, 7)
    with pytest.raises(ValueError, match="no time"):
        measure(SPANS, 2, 3, 3)


def test_a_timeline_outlives_a_kill_and_counts_its_sessions(tmp_path: Path):
    first = Timeline(tmp_path)
    with first.span("wait", step=0):
        pass
    first.close()
    with (tmp_path / FILE).open("a") as file:
        file.write('{"kind":"train","sta')
    second = Timeline(tmp_path)
    second.add("train", 0.0, step=1)
    second.close()
    assert [(span.kind, span.session) for span in read_timeline(tmp_path)] == [("wait", 0), ("train", 1)]
    (tmp_path / FILE).write_text("nothing\n" + json.dumps({"kind": "wait", "start": 0, "end": 1}) + "\n")
    with pytest.raises(UsageError, match="line 1"):
        read_timeline(tmp_path)


@pytest.mark.parametrize("pool", [2, 64])
def test_the_page_draws_every_side_and_escapes_what_it_is_told(pool: int):
    drawn = figure(SPANS, pool)
    assert drawn.count("<rect") == (9 if pool == 2 else 6) and ("<polygon" in drawn) == (pool == 64)
    assert "<script>" not in page("<script>", {"mode": "<script>", "whole": {"a_b": 0.5}}, SPANS, pool)


def test_an_output_folder_is_held_by_one_run(tmp_path: Path):
    with (
        held(tmp_path / "out", False),
        pytest.raises(UsageError, match="another run trains"),
        held(tmp_path / "out", False),
    ):
        pass
    with pytest.raises(UsageError, match="no run to resume"), held(tmp_path / "out", True):
        pass
    (tmp_path / "out" / "buffer").mkdir()
    with pytest.raises(UsageError, match="--resume"), held(tmp_path / "out", False):
        pass


async def test_a_buffer_server_without_a_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SILVA_BUFFER_TOKEN", raising=False)
    config = configured(tmp_path, buffer={"url": "http://127.0.0.1:9"})
    with pytest.raises(UsageError, match="SILVA_BUFFER_TOKEN"):
        async with open_buffer(config, True):
            pass


async def test_a_job_of_a_server_that_another_run_uses_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with ServerThread(buffer_app(BufferConfig(folder=str(tmp_path / "buffer")), "admin")) as server:
        config = configured(tmp_path, buffer={"url": server.url})
        monkeypatch.setenv("SILVA_BUFFER_TOKEN", "wrong")
        with pytest.raises(Refused, match=r"does not take the token in \$SILVA_BUFFER_TOKEN"):
            async with open_buffer(config, True):
                pass
        async with await open_job(server.url, "admin", "online", config.terms(True)) as client:
            monkeypatch.setenv("SILVA_BUFFER_TOKEN", client._token)
            async with open_buffer(config, True) as buffer:
                await buffer.start(["0"])
            with pytest.raises(UsageError, match=r"job online: another run uses it .*; a new run needs a new job"):
                async with open_buffer(config, True):
                    pass
            async with open_buffer(config, True, resume=True) as buffer:
                assert (await buffer.status()).in_flight == 1


async def play(
    folder: Path,
    engine: CountingEngine,
    function: str = "half_right",
    stop_at: int = 99,
    readable: Readable = anything,
    served: type[Stamped] = Stamped,
    **fields: Any,
) -> OnlineResult:
    config = configured(folder, **fields)
    resume = config.output.exists()
    config.output.mkdir(exist_ok=True)
    script = Script(function=f"online_parts.py:{function}", folder=HERE, latency=0.01)
    async with ScriptedServer(script) as server, Jobs(config.output / "buffer") as jobs:
        publisher = served(server.url)
        try:
            buffer = jobs.open("online", config.terms(True))
            run = OnlineRun(
                config,
                engine,
                Compared(),
                buffer,
                publisher,
                stopping=lambda: engine.step >= stop_at,
                readable=readable,
            )
            result = await run.run(resume=resume, sinks=lambda step: [CurveFile(config.output, step)])
        finally:
            await publisher.close()
        engine.published, engine.restored = publisher.published, publisher.restored
        return result


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_every_step_trains_whole_groups_and_is_published_once(tmp_path: Path, mode: str):
    engine = CountingEngine(0.05)
    result = await play(tmp_path, engine, mode=mode, steps=4)
    assert (result.status, result.step) == ("finished", 4)
    assert [step for step, _ in engine.published] == [1, 2, 3, 4]
    assert [len(trained) for trained in engine.trained] == [8, 8, 8, 8]
    every = [name for trained in engine.trained for name in trained]
    assert len(set(every)) == len(every)
    assert max(result.staleness) == (0 if mode == "sync" else 1) and sum(result.staleness.values()) == 8
    said = json.loads((tmp_path / "out" / "online.json").read_text())
    assert said["whole"]["trajectories"] >= 32 and said["mode"] == mode
    with Lake.open(tmp_path / "lake", "read") as lake:
        run = lake.run("run")
    assert run is not None and run.summary["step"] == 4
    assert [point["step"] for point in run.summary["curve"]] == [1, 2, 3, 4]


class Behind(Stamped):
    """Says of what the third version draws that the second drew it, as after a kill what began before it has."""

    async def complete(self, request: Request) -> Completion:
        completion = await super().complete(request)
        if completion.policy_version != self.name(3):
            return completion
        return msgspec.structs.replace(completion, policy_version=self.name(2))


@pytest.mark.slow
async def test_groups_that_grow_too_old_after_the_last_has_come_are_replaced(tmp_path: Path):
    waited: list[int] = []

    def kept() -> Controller:
        return read_job(tmp_path / "out" / "buffer", "online")

    class Waiting(CountingEngine):
        """Trains its fourth step when every group of the run has come, and generation had time to see that."""

        def forward_backward(self, samples: Sequence[Sample], algorithm: Any) -> StepResult:
            if self.step == 3:
                until = time.monotonic() + 60
                while len(kept().sequences) < 10 and time.monotonic() < until:
                    time.sleep(0.05)
                waited.append(len(kept().sequences))
                time.sleep(3 * LOOK)
            return super().forward_backward(samples, algorithm)

    async with asyncio.timeout(120):
        result = await play(tmp_path, Waiting(), served=Behind, mode="async", steps=5)
    assert (result.status, result.step, waited) == ("finished", 5, [10])
    assert len(kept().withheld) == 2 and len(kept().delivered) == 10


@pytest.mark.slow
async def test_groups_that_teach_nothing_are_counted_and_too_many_end_the_run(tmp_path: Path):
    with pytest.raises(
        UsageError, match="5 groups in a row gave nothing to learn from, the last because: zero variance"
    ):
        await play(tmp_path, CountingEngine(), "always_right", most_barren=5)
    with Lake.open(tmp_path / "lake", "read") as lake:
        run = lake.run("run")
        assert run is not None and run.finished and len(lake.trajectories(run_id="run")) >= 20


@pytest.mark.slow
async def test_a_run_that_is_told_to_stop_goes_on_where_it_was(tmp_path: Path):
    stopped = await play(tmp_path, CountingEngine(0.02), stop_at=2, steps=5)
    assert (stopped.status, stopped.step) == ("interrupted", 2)
    engine = CountingEngine(0.02)
    result = await play(tmp_path, engine, steps=5)
    assert (result.status, result.step) == ("finished", 5) and len(engine.trained) == 3
    assert [step for step, _ in engine.published] == [2, 3, 4, 5]
    assert {span.session for span in read_timeline(tmp_path / "out")} == {0, 1}
    with Lake.open(tmp_path / "lake", "read") as lake:
        run = lake.run("run")
    assert run is not None and [point["step"] for point in run.summary["curve"]] == [1, 2, 3, 4, 5]


@pytest.mark.slow
async def test_a_run_that_diverges_stops_and_says_so(tmp_path: Path):
    engine = CountingEngine(loss=float("nan"))
    result = await play(tmp_path, engine)
    assert result.status == "diverged" and "loss" in result.reason and result.policy is None
    assert engine.restored == [0, 0] and result.reason.endswith("base (step 0) is served again")


class Full(CountingEngine):
    """The disk is full when its second weights are to be served."""

    def save_weights_for_sampler(self, folder: Path) -> Path:
        if self.step == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().save_weights_for_sampler(folder)


@pytest.mark.slow
async def test_weights_that_find_no_room_end_the_run_in_one_line_and_it_goes_on_when_there_is(tmp_path: Path):
    with pytest.raises(StoreError, match="the weights of step 2 cannot be written, the disk is full: free space, then"):
        await play(tmp_path, Full(), steps=3)
    engine = CountingEngine()
    result = await play(tmp_path, engine, steps=3)
    assert (result.status, result.step) == ("finished", 3)
    assert [step for step, _ in engine.published] == [2, 3] and len(engine.trained) == 1


class Growing(CountingEngine):
    """Its loss jumps once five steps have been trained, to a number like any other."""

    def forward_backward(self, samples: Sequence[Sample], algorithm: Any) -> StepResult:
        result = super().forward_backward(samples, algorithm)
        return replace(result, loss=300.0 if self.step >= 5 else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("every", "good"), [(1, 4), (2, 4), (4, 4), (3, 3)])
async def test_what_diverged_is_not_served_on(tmp_path: Path, every: int, good: int):
    engine = Growing()
    result = await play(tmp_path, engine, steps=8, checkpoints={"every": every, "weights": False})
    assert (result.status, result.step) == ("diverged", 5) and "the loss is 300" in result.reason
    assert engine.published[-1][0] == 5 and engine.restored == [0, good]
    assert result.reason.endswith(f"v-{good} (step {good}) is served again")
    resumed = CountingEngine()
    result = await play(tmp_path, resumed, steps=8, checkpoints={"every": every, "weights": False})
    assert (result.status, result.step) == ("finished", 8) and resumed.published[0][0] == good


@pytest.mark.slow
async def test_what_cannot_be_read_is_no_group(tmp_path: Path):
    limits = Limits(context=100)
    engine = CountingEngine()
    result = await play(tmp_path, engine, "at_times_long", readable=limits.check, steps=2)
    assert (result.status, result.step) == ("finished", 2)
    refused = [reason for reason in result.barren if "the policy's context holds 100" in reason]
    assert refused and all("bound what an attempt says" in reason for reason in refused)
    engine = CountingEngine()
    result = await play(tmp_path, engine, "at_times_long", readable=limits.check, steps=4)
    assert (result.status, result.step) == ("finished", 4) and len(engine.trained) == 2


def test_limits_are_those_of_all_who_read():
    def sample(length: int, **fields: Any) -> Sample:
        arrays = {name: np.zeros(length, np.float32) for name in ("logprobs", "advantages", "weights")}
        flags = np.arange(length) > 0
        return Sample(ids=np.arange(length, dtype=np.int32), mask=flags, drawn=flags, **arrays, **fields)

    limits = Limits(context=8, vocabulary=7, teacher=6)
    limits.check([sample(6)])
    for wrong, why in (
        (sample(9), "the policy's context holds 8"),
        (sample(7), "the teacher's context holds 6"),
        (sample(4, images=(Image(hash="1f", position=1),)), "shows images"),
    ):
        with pytest.raises(SampleError, match=why):
            limits.check([sample(3), wrong])
    with pytest.raises(SampleError, match="another tokenizer"):
        Limits(context=8, vocabulary=7).check([sample(8)])
