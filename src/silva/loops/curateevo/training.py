"""The fixed recipe: from the base and a curation's data to a policy version, by one seed.

sft rows ─▶ samples ─▶ SFT, so many updates ─▶ version ─┬▶ rl tasks ─▶ play ─▶ GRPO ─▶ version ─▶ … ─▶ the last
                                                        └▶ no rl: it is the last
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from silva.curate.curation.corpus import Corpus
from silva.curate.curation.curated import Curated, SftRow
from silva.lake import Lake
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.memories import Memories
from silva.loops.curateevo.plan import JUDGING
from silva.loops.curateevo.raw import of_part
from silva.loops.curateevo.rendering import rendered
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage, seed_of
from silva.loops.line.head import registry
from silva.loops.line.play import drawn, play, tasks_named
from silva.loops.line.weights import context, playing, renderer, trained_from, with_logprobs
from silva.models.exact import open_renderer
from silva.train.algorithms.advantages import alike
from silva.train.config import TrainConfig
from silva.train.lake_samples import collect
from silva.train.launch import train
from silva.train.output import CONFIG
from silva.train.registry import Data
from silva.train.sample import Sample
from silva.train.sample_file import write_samples
from silva.train.stretch import Reading
from silva.train.truncation import fit
from silva.tree import digest


class Diverged(Exception):
    """Training diverged; the message says after which step."""


class Training:
    """A training of one curation's data by one seed.

    Args:
        loop: whose recipe, base and lake.
        stage: that has it done.
        corpus: that the data is of.
        data: a curation's.
        seed: its number.
    """

    def __init__(self, loop: Loop[CurateEvoConfig], stage: Stage, corpus: Corpus, data: Curated, seed: int) -> None:
        self._loop, self._stage, self._corpus, self._data = loop, stage, corpus, data
        # By what decides it, recipe and base with it: a lake may hold the runs of several loops.
        decided = next(each.inputs for each in loop.plan if each.kind == JUDGING)
        name = digest(decided, data.digest)[:12]
        self.name = f"{name}.s{seed}"
        self._seed = seed_of(
            loop.config.seed, f"curated {seed}"
        )  # the same for all curations: what is compared is data
        self._folder = loop.folder / "trained" / name / str(seed)
        self.left_out = 0

    def version(self, memories: Memories) -> str:
        """Train; the name of the last version. Begun before, it goes on.

        Raises:
            Diverged: it did.
            SampleError, UsageError: no row can be trained on.
        """
        version = str(self._loop.given("base")["version"])
        if self._data.sft:
            version = self._sft(version, memories)
        recipe = self._loop.config.recipe.rl
        tasks = [row.task for row in self._data.rl if row.task in set(of_part(self._loop, "train"))]
        for number in range(1, recipe.rounds + 1 if tasks else 1):
            version = self._practised(version, tasks, number, memories)
        return version

    def _sft(self, base: str, memories: Memories) -> str:
        draw = Random(f"memory {self._data.digest}")
        shown = self._loop.config.memory.shown

        def memory(row: SftRow) -> str:
            return memories.text(self._corpus.rows[row.walk], row.words) if draw.random() < shown else ""

        made = rendered(self._data.sft, self._corpus, open_renderer(renderer(self._loop)), _form(self._loop), memory)
        fitted = fit(made.samples, context(self._loop), "truncate")
        self.left_out = made.left_out + fitted.dropped
        if made.why:
            sys.stderr.write(f"{self.name}: {made.left_out} rows cannot be written ({made.why})\n")
        if not fitted.samples:
            raise Diverged(f"none of {len(self._data.sft)} rows can be trained on ({made.why or 'all are too long'})")
        recipe = self._loop.config.recipe
        values = {
            "algorithm": {"name": "sft"},
            "optimiser": recipe.optimiser,
            "steps": recipe.steps,
            "batch": recipe.batch,
        }
        return self._fit("sft", base, fitted.samples, values)

    def _practised(self, version: str, tasks: list[str], number: int, memories: Memories) -> str:
        recipe = self._loop.config.recipe.rl
        seed = seed_of(self._seed, f"rl {number}")
        chosen = tasks_named(self._loop, drawn(tasks, recipe.tasks, seed))
        name = f"{self._loop.config.line}.rl.{self.name}.{number}"
        more = {
            "model": playing(self._loop, version),
            "group": recipe.group,
            "seed": seed,
            "sampling": {"temperature": recipe.temperature, "logprobs": True},
            **memories.stages(),
        }
        play(self._loop, self._stage, name, chosen, more)
        with Lake.open(self._loop.lake, mode="read") as lake:
            found = collect(lake, lake.trajectories(run_id=name), Reading(logprobs="required")).samples
        fitted = fit(found, context(self._loop), "truncate").samples
        rewards: dict[str, list[float]] = {}
        for sample in fitted:
            rewards.setdefault(sample.task_id, []).append(sample.reward)
        mixed = {task for task, of in rewards.items() if np.isfinite(of).all() and not alike(np.array(of))}
        samples = [sample for sample in fitted if sample.task_id in mixed]
        if not samples:
            return version  # all attempts at each task ended alike: there is nothing to tell apart
        samples, _ = with_logprobs(self._loop, version, samples, recipe.temperature)
        values = {
            "algorithm": {"name": "grpo"},
            "optimiser": recipe.optimiser,
            "steps": recipe.steps,
            "batch": min(recipe.batch, len(mixed)),
            "temperature": recipe.temperature,
        }
        return self._fit(f"rl-{number}", version, samples, values)

    def _fit(self, what: str, parent: str, samples: list[Sample] | tuple[Sample, ...], values: dict[str, Any]) -> str:
        recipe = self._loop.config.recipe
        folder = self._folder / what
        file = self._folder / f"{what}.samples"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_samples(file, list(samples), force=True)
        config = TrainConfig.model_validate(
            {
                "run": f"{self._loop.config.line}.{self.name}.{what}",
                "output": folder,
                "policy": trained_from(self._loop, parent),
                "data": {"files": [file]},
                "micro_tokens": recipe.micro_tokens,
                "seed": self._seed,
                "threads": self._loop.config.threads,
                "checkpoints": {"every": 1000, "weights": False},
                "divergence": recipe.divergence,
                "curves": {"print_every": 1_000_000},
                **values,
            }
        )
        result = train(config, resume=_begun(config.output))
        if result.status == "diverged" or result.policy is None:
            raise Diverged(f"training {result.status} after step {result.step}: {result.reason}")
        made = registry(self._loop).register(
            self._loop.config.line,
            result.policy,
            parent=parent,
            data=Data(runs=tuple(self._loop.given("raw")["runs"]), samples=(self._data.digest,)),
            config=digest(repr(sorted(config.decisive().items()))),
            note=f"curated data {self._data.digest[:12]}, {what}",
            by=self._loop.config.loop,
            key=f"{self._loop.config.line}/{self.name}/{what}",
        )
        return made.name


def _begun(output: Path) -> bool:
    return (output / CONFIG).exists() or (output / "checkpoints").exists()


def _form(loop: Loop[CurateEvoConfig]) -> Any:
    return loop.config.play.agent
