"""A training run from its configuration: everything opened in the order in which it can be refused cheaply.

output folder locked ─▶ algorithm ─▶ data read ─▶ engine ─▶ (resume) ─▶ curves ─▶ Trainer.run ─▶ TrainResult

With `scale` this process starts the others and waits (`silva.train.scale.launch`); each of them walks the same way, and
the first alone locks the folder and has curves. A process that torchrun or another launcher started finds its place in
the environment and needs no `scale`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, TextIO

from silva.errors import UsageError
from silva.train.algorithms import Algorithm, algorithm
from silva.train.config import TrainConfig
from silva.train.curves import CurveFile, LakeCurve, Sink, TerminalCurve, read_curve
from silva.train.engines.group import ALONE, Group
from silva.train.engines.open import open_engine, require, share_cores
from silva.train.engines.share import check_enough
from silva.train.left_out import left_out
from silva.train.output import held, keep_config
from silva.train.readable import readable
from silva.train.scale.environment import placed
from silva.train.sources import Epochs, Prepared, held_out, prepare
from silva.train.trackers import trackers
from silva.train.trainer import Trainer, TrainResult


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    out: TextIO | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> TrainResult:
    """Train as configured.

    Args:
        config: of the run.
        resume: go on from the last checkpoint in the output folder.
        out: where progress is told; None for nowhere.
        stopping: asked between steps; True ends the run after a checkpoint.

    Raises:
        UsageError: the output folder is in use or holds another run, or something configured cannot be used.
        MissingError: a library is not installed.
        StoreError: the disk refused.
        LostTouch: a process of several is gone.
    """
    share_cores()
    if placed():
        require("torch", "transformers", "peft", "safetensors")
        from silva.train.scale.joined import join

        with join(config.scale, config.policy.device) as group:
            return train_in(group, config, resume=resume, out=out, stopping=stopping)
    if config.scale.ranks > 1:
        from silva.train.scale.launch import train_in_processes

        return train_in_processes(config, resume=resume, out=out, stopping=stopping)
    return train_in(ALONE, config, resume=resume, out=out, stopping=stopping)


def train_in(
    group: Group,
    config: TrainConfig,
    *,
    resume: bool = False,
    out: TextIO | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> TrainResult:
    """Train in this process, which is one of the group. See `train`; what goes out is the first process's word."""
    with held(config.output, resume) if group.leads else nullcontext():
        loss = algorithm(config.algorithm.name, config.algorithm.parameters)
        if config.engine == "trl":
            if resume:
                raise UsageError("engine trl: it keeps no checkpoints to resume from; take engine: local")
            from silva.train.trl import train_with_trl

            on_processor = config.policy.model_copy(update={"device": "cpu"})
            result = train_with_trl(
                config.model_copy(update={"policy": on_processor}), loss, prepare(config.data, loss), out
            )
            keep_config(config.output, config.model_dump(mode="json"))
            return result
        prepared = prepare(config.data, loss)
        measured = held_out(config.data, loss, prepared)
        check_enough(prepared.groups, config.batch, group.size, "pairs" in loss.needs)
        engine = open_engine(config, group)
        with ExitStack() as closing:
            closing.callback(engine.close)
            prepared, measured = readable(prepared, measured, engine, loss)
            check_enough(prepared.groups, config.batch, group.size, "pairs" in loss.needs)
            source = Epochs(prepared.groups, config.seed, config.data.shuffle)
            trainer = Trainer(config, engine, loss, source, held_out=measured, group=group)
            start = trainer.resume() if resume else 0
            _check_alike(group, start, prepared)
            if not group.leads:
                return trainer.run(stopping)
            keep_config(config.output, config.model_dump(mode="json"))
            sinks = _sinks(config, prepared, start, out, closing)
            trainer.follow(sinks)
            trained, everything = engine.parameters
            if out is not None:
                out.write(f"{told(config, prepared, measured)}; {trained:,} of {everything:,} parameters\n")
                out.write(left_out(prepared.dropped))
                if start:
                    out.write(f"going on after step {start}\n")
            result = trainer.run(stopping)
            for sink in sinks:
                if isinstance(sink, LakeCurve):
                    sink.status = result.status
            return result


def plan(config: TrainConfig) -> dict[str, Any]:
    """What a run would do, from its data alone: nothing is trained, no weights are loaded.

    Raises:
        UsageError: the algorithm or the data cannot be used.
    """
    share_cores()
    loss: Algorithm = algorithm(config.algorithm.name, config.algorithm.parameters)
    prepared = prepare(config.data, loss)
    measured = held_out(config.data, loss, prepared)
    check_enough(prepared.groups, config.batch, config.scale.ranks, "pairs" in loss.needs)
    samples = [sample for group in prepared.groups for sample in group]
    return {
        "run": config.run,
        "algorithm": loss.name,
        "groups": len(prepared.groups),
        "samples": len(samples),
        "held_out": len(measured),
        "ids": sum(map(len, samples)),
        "with_loss": sum(int(sample.mask.sum()) for sample in samples),
        "longest": max(map(len, samples)),
        "left_out": prepared.left_out,
        "dropped": len(prepared.dropped),
        "groups_alike": prepared.alike,
        "steps": config.steps,
        "epochs": round(config.steps * config.batch / len(prepared.groups), 2),
        "processes": config.scale.ranks,
    }


def told(config: TrainConfig, prepared: Prepared, measured: Sequence[object]) -> str:
    """One line that says what is trained on."""
    epochs = config.steps * config.batch / len(prepared.groups)
    left = prepared.left_out + prepared.alike + len(prepared.dropped)
    return (
        f"{config.run}: {config.algorithm.name} on {len(prepared.groups)} groups"
        f"{f' ({left} left out)' if left else ''}{f', {len(measured)} samples held out' if measured else ''}, "
        f"{config.steps} steps of {config.batch} ({math.ceil(epochs * 10) / 10:g} epochs)"
    )


def _check_alike(group: Group, start: int, prepared: Prepared) -> None:
    if group.size == 1:
        return
    read = hashlib.blake2b(digest_size=12)
    for sample in (sample for samples in prepared.groups for sample in samples):
        read.update(sample.ids.tobytes() + sample.mask.tobytes())
    told = group.told((start, read.hexdigest()))
    if len({step for step, _ in told}) > 1:
        raise UsageError(
            f"output: processes found checkpoints of steps {sorted({step for step, _ in told})}; all machines must see "
            "one and the same folder"
        )
    if len(set(told)) > 1:
        raise UsageError("data: processes read different samples; all machines must see the same files or lake")


def _sinks(config: TrainConfig, prepared: Prepared, start: int, out: TextIO | None, closing: ExitStack) -> list[Sink]:
    """Where curves go. Each is closed in the end, also where a later one refuses: the lake's record says by then that
    the run runs."""
    points = [point for point in read_curve(config.output) if point.step <= start] if start else []
    found: list[Sink] = []

    def add(sink: Sink) -> None:
        closing.callback(sink.close)
        found.append(sink)

    add(CurveFile(config.output, start if start else -1))
    if config.curves.lake is not None:
        add(LakeCurve(config.curves.lake, config, prepared.parents, points))
    if out is not None:
        add(TerminalCurve(out, config.steps, config.curves.print_every))
    for tracker in trackers(config):
        add(tracker)
    return found
