"""A training run from its configuration: everything opened in the order in which it can be refused cheaply.

output folder locked ─▶ algorithm ─▶ data read ─▶ engine ─▶ (resume) ─▶ curves ─▶ Trainer.run ─▶ TrainResult
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

import yaml
from filelock import FileLock, Timeout

from silva.errors import UsageError
from silva.lake.durable import write_whole
from silva.train.algorithms import Algorithm, algorithm
from silva.train.config import TrainConfig
from silva.train.curves import CurveFile, LakeCurve, Sink, TerminalCurve, read_curve
from silva.train.engines.open import open_engine, share_cores
from silva.train.sources import Epochs, Prepared, held_out, prepare
from silva.train.trackers import trackers
from silva.train.trainer import Trainer, TrainResult

CONFIG = "config.yaml"


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
    """
    share_cores()
    with _held(config.output, resume):
        loss = algorithm(config.algorithm.name, config.algorithm.parameters)
        if config.engine == "trl":
            if resume:
                raise UsageError("engine trl: it keeps no checkpoints to resume from; take engine: local")
            from silva.train.engines.trl import train_with_trl

            result = train_with_trl(config, loss, prepare(config.data, loss))
            _keep(config)
            return result
        prepared, measured = prepare(config.data, loss), held_out(config.data, loss)
        engine = open_engine(config)
        source = Epochs(prepared.groups, config.seed, config.data.shuffle)
        trainer = Trainer(config, engine, loss, source, held_out=measured)
        with ExitStack() as closing:
            closing.callback(engine.close)
            start = trainer.resume() if resume else 0
            _keep(config)
            sinks = _sinks(config, prepared, start, out)
            for sink in sinks:
                closing.callback(sink.close)
            trainer.follow(sinks)
            trained, everything = engine.parameters
            if out is not None:
                out.write(f"{told(config, prepared, measured)}; {trained:,} of {everything:,} parameters\n")
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
    prepared, measured = prepare(config.data, loss), held_out(config.data, loss)
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
        "groups_alike": prepared.alike,
        "steps": config.steps,
        "epochs": round(config.steps * config.batch / len(prepared.groups), 2),
    }


def told(config: TrainConfig, prepared: Prepared, measured: Sequence[object]) -> str:
    """One line that says what is trained on."""
    epochs = config.steps * config.batch / len(prepared.groups)
    left = prepared.left_out + prepared.alike
    return (
        f"{config.run}: {config.algorithm.name} on {len(prepared.groups)} groups"
        f"{f' ({left} left out)' if left else ''}{f', {len(measured)} samples held out' if measured else ''}, "
        f"{config.steps} steps of {config.batch} ({math.ceil(epochs * 10) / 10:g} epochs)"
    )


def _sinks(config: TrainConfig, prepared: Prepared, start: int, out: TextIO | None) -> list[Sink]:
    points = [point for point in read_curve(config.output) if point.step <= start] if start else []
    found: list[Sink] = [CurveFile(config.output, start if start else -1)]
    if config.curves.lake is not None:
        found.append(LakeCurve(config.curves.lake, config, prepared.parents, points))
    if out is not None:
        found.append(TerminalCurve(out, config.steps, config.curves.print_every))
    return [*found, *trackers(config)]


def _keep(config: TrainConfig) -> None:
    values = config.model_dump(mode="json")
    write_whole(config.output / CONFIG, yaml.safe_dump(values, sort_keys=False, allow_unicode=True).encode())


@contextmanager
def _held(output: Path, resume: bool) -> Iterator[None]:
    if output.exists() and not output.is_dir():
        raise UsageError(f"output {output}: is a file; name a folder")
    used = (output / CONFIG).exists() or (output / "checkpoints").exists()
    if used and not resume:
        raise UsageError(f"output {output}: holds a run already; go on with --resume, or name another folder")
    if resume and not used:
        raise UsageError(f"output {output}: holds no run to resume; leave --resume out to begin one")
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = FileLock(output / ".lock")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UsageError(f"output {output}: another run trains into it; wait for it, or name another folder") from error
    except OSError as error:
        raise UsageError(f"output {output}: cannot be written ({error.strerror or error})") from error
    try:
        yield
    finally:
        lock.release()
