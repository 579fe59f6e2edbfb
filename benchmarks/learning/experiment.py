"""One seed of an experiment in a folder of its own: rollouts into its lake, samples, training, measurement.

    tasks ─▶ play (expert or student) ─▶ trees in the lake ─▶ samples ─▶ train ─▶ student ─▶ measure on held-out tasks

Everything goes through Silva's own commands' functions. A seed that was cut off goes on: a run plays what is left of it,
what was trained or measured to its end is taken as it is, what was trained in part is trained anew.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from settings import Setting
from student import Student

from silva.lake import Lake
from silva.models.local.shared import sharing
from silva.models.tiny.folder import write_tiny
from silva.models.tiny.shape import Shape
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.conversations import Conversation, shown
from silva.rollout.policies import SLIP
from silva.rollout.run import Hooks
from silva.train.config import TrainConfig
from silva.train.curves import read_curve
from silva.train.lake_samples import collect
from silva.train.launch import train
from silva.train.online.config import OnlineConfig
from silva.train.online.launch import train_online
from silva.train.sample import Sample
from silva.train.sample_file import write_samples
from silva.train.stretch import Reading
from silva.train.trainer import POLICY
from silva.tree import Supervision, Task, Trajectory, digest
from silva.tree.formats.tasks import write_tasks

TEMPERATURE = 1.0
"""Of everything a student plays, measured or not: what is measured is the policy that is trained."""
LOST = frozenset({"model", "infrastructure"})
"""What failed here says nothing of a policy; a seed that goes on plays it again."""
MICRO_TOKENS = 2048
"""Computed at once. Changes no result; samples that begin alike are computed once where they fit in together."""


class Experiment:
    """One seed.

    Args:
        folder: its own, new or with what was done of the same seed.
        setting: the environment.
        seed: of everything drawn.
        threads: torch's.
    """

    def __init__(self, folder: Path, setting: Setting, seed: int, threads: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.setting, self.seed, self.threads = folder, setting, seed, threads
        self.lake = folder / "lake"
        self.learn, self.held_out = setting.tasks()
        random.Random(seed).shuffle(self.learn)

    def play(
        self, run: str, tasks: Sequence[Task], group: int = 1, hooks: Hooks | None = None, **more: Any
    ) -> list[Trajectory]:
        """Play tasks, `group` attempts each; what came of them."""
        file = self.folder / f"{run}.jsonl"
        file.write_text("".join(write_tasks(list(tasks))), encoding="utf-8")
        play = dict(self.setting.play)
        sampling = {**play.pop("sampling"), **more.pop("sampling", {})}
        settings = RolloutConfig.model_validate(
            {
                "run": run,
                "env": self.setting.env,
                "lake": str(self.lake),
                "seed": self.seed,
                "group": group,
                "tasks": {"file": str(file)},
                "sampling": sampling,
                **play,
                **more,
            }
        )
        hooks = hooks or Hooks(retry=LOST)
        with sharing(within=self.threads == 1):
            result = asyncio.run(run_rollout(settings, resume=self.begun(run), hooks=hooks))
        if result.remaining:
            raise SystemExit(f"run {run}: {result.remaining} episodes are left ({result.stopped})")
        return result.trajectories

    def begun(self, run: str) -> bool:
        """Whether a run of that name has begun."""
        if not self.lake.is_dir():
            return False
        with Lake.open(str(self.lake), mode="read") as lake:
            return lake.run(run) is not None

    def heard(self) -> list[Conversation]:
        """What an expert says on tasks to learn from: a tiny policy's words are read from it."""
        self.play("heard", self.learn[:100], policy="expert")
        return self.conversations("heard")

    def from_nothing(self, name: str, shape: Shape, tasks: Sequence[Task]) -> Student:
        """A policy made from nothing, once: its words are what the expert says on these tasks."""
        folder = self.folder / "tiny"
        if not folder.is_dir():
            self.play("heard", tasks, policy="expert")
            write_tiny(folder, self.conversations("heard"), shape, self.seed)
        return Student(name=name, base=str(folder))

    def first(self, count: int) -> list[Task]:
        """Tasks that the expert teaches on before, where those are of levels of their own."""
        tasks = self.setting.first_tasks()
        random.Random(self.seed).shuffle(tasks)
        return tasks[:count]

    def conversations(self, run: str) -> list[Conversation]:
        """What was said in a run."""
        form = self.setting.play["agent"]
        with Lake.open(str(self.lake), mode="read") as lake:
            return [shown(lake, each, form) for each in lake.trajectories(run_id=run) if each.outcome.failure is None]

    def expert(self, run: str, count: int, student: Student, skip: int = 0) -> list[Sample]:
        """Samples of the expert on `count` tasks to learn from, with the ids the student's tokenizer gives."""
        self.play(run, self.learn[skip : skip + count], policy="expert", renderer=student.base)
        return self.samples(run)

    def slipping(
        self, run: str, count: int, student: Student, slips: float, **more: Any
    ) -> tuple[list[Sample], list[Sample], int]:
        """The expert again, with a share of its turns taken by another action: samples with loss on all actions,
        samples with loss on those that are the expert's own, and how many are not."""
        self.play(run, self.learn[:count], policy="expert", renderer=student.base, slips=slips, **more)
        everything = self.samples(run)
        masked = asyncio.run(self._mask(run))
        return everything, self.samples(run), masked

    async def _mask(self, run: str) -> int:
        async with Lake.open(str(self.lake)) as lake:
            slips = [node for node in lake.nodes(run_id=run) if node.attributes.get(SLIP)]
            judged = [
                Supervision(
                    id=digest("mask", node.id)[:24],
                    node_id=node.id,
                    run_id=node.run_id,
                    verdict="mask",
                    source="rule",
                    by="injected",
                    reason="put in the place of the expert's action",
                )
                for node in slips
            ]
            await lake.append(judged)
        return len(slips)

    def attempts(self, run: str, student: Student, tasks: Sequence[Task], group: int) -> list[Sample]:
        """Samples of the student's own attempts."""
        sampling = {"temperature": TEMPERATURE, "logprobs": True}
        self.play(run, tasks, group, model=student.model(self.lake, self.folder / "merged"), sampling=sampling)
        return self.samples(run)

    def samples(self, run: str) -> list[Sample]:
        """The samples of a run."""
        with Lake.open(str(self.lake), mode="read") as lake:
            return list(collect(lake, lake.trajectories(run_id=run), Reading(logprobs="optional")).samples)

    def fit(
        self,
        name: str,
        student: Student,
        samples: Sequence[Sample],
        algorithm: dict[str, Any],
        *,
        epochs: float = 1,
        batch: int = 8,
        rate: float = 1e-3,
        groups: int | None = None,
        **more: Any,
    ) -> Student:
        """Train on samples; `groups` there are of them (each sample one when left out)."""
        trained = self._trained(name)
        if trained is not None:
            return student.after(name, trained)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        file = self.folder / f"{name}.samples"
        write_samples(file, list(samples), force=True)  # there already where an earlier run was cut off
        steps = max(2, round(epochs * (groups or len(samples)) / batch))
        config = TrainConfig.model_validate(
            {
                "run": name,
                "output": self.folder / name,
                "policy": student.policy(),
                "algorithm": algorithm,
                "data": {"files": [file], **more.pop("data", {})},
                "optimiser": {"learning_rate": rate, "schedule": "cosine", "warmup": max(1, steps // 10), "floor": 0.1},
                "steps": steps,
                "batch": batch,
                "micro_tokens": MICRO_TOKENS,
                "temperature": TEMPERATURE,
                "seed": self.seed,
                "threads": self.threads,
                "checkpoints": {"every": 1000, "weights": False},
                **more,
            }
        )
        result = train(config)
        if result.policy is None:
            raise SystemExit(f"training {name} {result.status}: {result.reason}")
        return student.after(name, result.policy)

    def fit_online(
        self,
        name: str,
        student: Student,
        algorithm: dict[str, Any],
        *,
        steps: int,
        batch: int,
        group: int,
        rate: float,
        skip: int = 0,
        **more: Any,
    ) -> Student:
        """Train on what the student grows meanwhile, in turns with it; the first `skip` tasks are left out."""
        trained = self._trained(name)
        if trained is not None:
            return student.after(name, trained)
        file = self.folder / f"{name}.jsonl"
        file.write_text("".join(write_tasks(self.learn[skip:])), encoding="utf-8")
        config = OnlineConfig.model_validate(
            {
                "run": name,
                "output": self.folder / name,
                "policy": student.policy(),
                "algorithm": algorithm,
                "mode": "sync",
                "group": group,
                "batch": batch,
                "steps": steps,
                "micro_tokens": MICRO_TOKENS,
                "optimiser": {"learning_rate": rate},
                "temperature": TEMPERATURE,
                "seed": self.seed,
                "threads": self.threads,
                "serve": {"threads": self.threads},
                "checkpoints": {"every": 1000, "weights": False},
                "rollout": {
                    "env": self.setting.env,
                    "lake": str(self.lake),
                    "seed": self.seed,
                    "tasks": {"file": str(file)},
                    **self.setting.play,
                },
                **more,
            }
        )
        result = train_online(config, resume=(self.folder / name).is_dir())
        if result.policy is None:
            raise SystemExit(f"training {name} {result.status}: {result.reason}")
        return student.after(name, result.policy)

    def _trained(self, name: str) -> Path | None:
        """The policy of a training that came to its end before; it is written whole or not at all."""
        policy = self.folder / name / POLICY
        return policy if policy.is_dir() else None

    def curve(self, name: str, value: str) -> list[float]:
        """A value of a training run, step by step."""
        return [point.values[value] for point in read_curve(self.folder / name) if value in point.values]

    def rewards(self, run: str) -> list[float]:
        """The rewards of all attempts of a run, in the order in which they ended."""
        with Lake.open(str(self.lake), mode="read") as lake:
            played = [each for each in lake.trajectories(run_id=run) if not each.superseded]
        return [float(each.outcome.score or 0.0) for each in sorted(played, key=lambda each: each.finished)]

    def measure(
        self, student: Student, attempts: int = 2, *, tasks: Sequence[Task] = (), temperature: float = TEMPERATURE
    ) -> dict[str, float]:
        """Share of successes of each held-out task, or each of `tasks`."""
        run = f"held-out-{student.name}"
        file = self.folder / f"{run}.json"
        if file.is_file():
            return json.loads(file.read_text(encoding="utf-8"))
        played = self.play(
            run,
            tasks or self.held_out,
            attempts,
            model=student.model(self.lake, self.folder / "merged"),
            sampling={"temperature": temperature},
        )
        found: dict[str, list[bool]] = {}
        for each in played:
            if not each.superseded:
                found.setdefault(each.task_id, []).append(bool(each.outcome.success))
        rates = {task: sum(tries) / len(tries) for task, tries in sorted(found.items())}
        file.write_text(json.dumps(rates, indent=1), encoding="utf-8")
        return rates
