"""One training by TRL: gone on with, run to its end, and what came of it.

    resume: last whole checkpoint ─▶ run: TRL trains ─▶ finished: published, policy written
                                              ├ told to stop, no more groups: interrupted, after a checkpoint
                                              ├ loss or weights no numbers to go on with: diverged, set aside
                                              └ TRL fails: one line; what was published and checkpointed stays

A checkpoint is TRL's folder and, written after it, `silva.json`: the source's position, the losses divergence is judged
by, and what the run was. One without that file is of a process that was killed while it wrote, and counts for nothing.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silva.errors import Exit, SilvaError, StoreError, UsageError
from silva.lake.durable import write_whole
from silva.train.curves import Point, Sink
from silva.train.divergence import DivergenceWatch
from silva.train.online.trl_async.engine import TrlEngine
from silva.train.online.trl_async.handover import Diverged
from silva.train.online.trl_async.settings import FOLDER
from silva.train.online.trl_async.trainer import Told
from silva.train.trainer import TrainResult, write_policy

if TYPE_CHECKING:
    from silva.train.online.config import OnlineConfig
    from silva.train.online.source import BufferSource

MARK = "silva.json"
warnings.filterwarnings("ignore", message="Could not find a config file in")  # peft looks for the base by its name
_NAME = re.compile(r"checkpoint-(\d+)")
_FIGURES = {
    "loss": "loss",
    "reward": "reward",
    "ratio": "ratio",
    "kl": "kl_sampler",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clipped",
    "grad_norm": "gradient_norm",
    "learning_rate": "learning_rate",
    "batch/forwarded_tokens_per_step": "tokens",
    "batch/trained_tokens_per_step": "loss_tokens",
    "perf/forwarded_tok_s_fwd_bwd": "tokens_per_second",
}


class TrainerDied(SilvaError):
    """TRL's trainer ended by a fault of its own; what was checkpointed is kept."""

    code = Exit.INCOMPLETE


class TrlTraining:
    """See the module; a `Training` (silva.train.online.training).

    Args:
        config: of the run.
        engine: built for it.
        source: of groups; publishes and commits.
    """

    def __init__(self, config: OnlineConfig, engine: TrlEngine, source: BufferSource) -> None:
        self._config, self._engine, self._source = config, engine, source
        self._sinks: list[Sink] = []
        self._watch = DivergenceWatch(config.divergence)
        self._from: Path | None = None
        self._aligned = False

    def follow(self, sinks: Sequence[Sink]) -> None:
        """Send the curves here."""
        self._sinks = list(sinks)

    def resume(self) -> int:
        """See `Training`."""
        last = self._latest()
        if last is None:
            return 0
        try:
            said = json.loads((last / MARK).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{last.name}: {MARK} cannot be read ({error})") from error
        mine = json.loads(json.dumps(self._config.decisive()))
        for name in sorted(set(mine) | set(said["decisive"])):
            if mine.get(name) != said["decisive"].get(name):
                raise UsageError(f"{last.name}: {name} was another; resume with what the run began with")
        self._from = last
        self._source.seek(int(said["position"]))
        self._watch = DivergenceWatch(self._config.divergence, said["losses"])
        return int(said["step"])

    def run(self, stopping: Callable[[], bool], begun: Callable[[], None]) -> TrainResult:
        """See `Training`."""
        engine, config = self._engine, self._config
        engine.rollouts.follow(self._source, config.batch, engine.context, begun)
        engine.handover.follow(self._hand_over)
        engine.trainer.watch = self._judge
        engine.trainer.add_callback(Told(stopping, self._write, self._mark))
        try:
            engine.trainer.train(resume_from_checkpoint=None if self._from is None else str(self._from))
            if engine.step >= config.steps:
                if not engine.sound:
                    raise Diverged("the trained weights hold values that are no finite numbers")
                return self._finished()
        except Diverged as fault:
            self._set_aside(engine.step)
            return TrainResult(status="diverged", step=engine.step, reason=str(fault), checkpoint=self._latest())
        except SilvaError:
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StoreError(
                    "a checkpoint cannot be written, the disk is full: free space, then go on with --resume"
                ) from error
            raise self._died(error) from error
        except Exception as error:
            raise self._died(error) from error
        reason = "it was told to stop" if stopping() else "the source has no more groups"
        return TrainResult(status="interrupted", step=engine.step, reason=reason, checkpoint=self._latest())

    def _finished(self) -> TrainResult:
        self._source.hand_over(checkpointed=True)
        policy = write_policy(self._engine, self._config.output)  # pyright: ignore[reportArgumentType]
        return TrainResult(status="finished", step=self._engine.step, policy=policy, checkpoint=self._latest())

    def _died(self, error: Exception) -> TrainerDied:
        said = " ".join(str(error).split())[:200]
        return TrainerDied(
            f"engine trl-async: TRL's trainer ended after step {self._engine.step} ({type(error).__name__}: {said}); "
            "mend that and go on with --resume"
        )

    def _hand_over(self) -> None:
        """The weights of a step are in place: before the first, align; the last's wait for their checkpoint."""
        if not self._aligned:
            self._aligned = True
            self._source.align()
        elif self._engine.step < self._config.steps:
            self._source.hand_over()

    def _judge(self, loss: float) -> None:
        if reason := self._watch.of_loss(loss):
            self._write(self._engine.step + 1, {"loss": loss})
            raise Diverged(reason)

    def _write(self, step: int, logs: dict[str, Any]) -> None:
        values = {mine: float(logs[name]) for name, mine in _FIGURES.items() if logs.get(name) is not None}
        for sink in self._sinks:
            sink.write(Point(step=step, values=values))

    def _mark(self, step: int) -> None:
        said = {
            "step": step,
            "position": self._source.position,
            "losses": self._watch.losses,
            "decisive": self._config.decisive(),
        }
        write_whole(self._folder / f"checkpoint-{step}" / MARK, json.dumps(said).encode())

    def _latest(self) -> Path | None:
        whole = [(step, path) for step, path in self._checkpoints() if (path / MARK).is_file()]
        return max(whole)[1] if whole else None

    def _set_aside(self, step: int) -> None:
        for number, path in self._checkpoints():
            if number >= step:
                aside = path.with_name(f"diverged-{path.name}")
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)

    def _checkpoints(self) -> list[tuple[int, Path]]:
        found = self._folder.glob("checkpoint-*")
        return [(int(match[1]), path) for path in found if (match := _NAME.fullmatch(path.name))]

    @property
    def _folder(self) -> Path:
        return self._config.output / FOLDER
