"""The arms of `composed.py`: their settings, what they do, and the steps that each took. The composed arm's parts are on
one lake; each arm alone has a lake of its own.

loop or runs ─▶ a CurateEvo loop's corpus ─▶ a curation's data ─▶ the one recipe ─▶ measured
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from experiment import LOST, Experiment
from student import Student

from silva.curate.curation.curated import Curated
from silva.curate.curation.source import curation
from silva.curate.mask.config import MaskConfig
from silva.curate.mask.masking import mask
from silva.lake import Lake
from silva.loops.apollo.script import ScriptedRules
from silva.loops.apollo.speaking import ScriptedMailroom
from silva.loops.coevolve.tasks import grown
from silva.loops.curateevo.judging import UNSEEN, Judge
from silva.loops.curateevo.memories import Memories
from silva.loops.curateevo.state import present, source
from silva.loops.curateevo.training import Training
from silva.loops.kernel.kinds import kind
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.turn import turn
from silva.loops.line.play import learnt, tasks_named
from silva.loops.line.weights import playing
from silva.loops.roles import born
from silva.rollout.run import Hooks
from silva.tree import Task
from silva.tree.formats.tasks import write_tasks

GIVEN = 96
"""Tasks that are given, two of three to learn on, the rest for decisions."""
SPLIT: dict[str, Any] = {"train": 0.67, "dev": 0.33, "test": 0}
SEEN = 3
PERSON = ScriptedRules.model_validate(
    {
        "by": "foreman",
        "rules": [
            {
                "name": "wrong",
                "when": {"expert": "another"},
                "bad": True,
                "why": "another action leads there",
                "times": 0,
            },
            {
                "name": "let me",
                "when": {"waits": ".", "expert": "another", "every": SEEN},
                "edit": {"expert": True},
                "times": 0,
            },
            {"name": "go on", "when": {"waits": "."}, "approve": True, "times": 0},
        ],
    }
)
GUIDED = 1
"""Guided walks of each task, composed."""
CYCLES = 3
"""So often the composed arm learns from what was guided, explores from there, and is guided on what grew."""
GROW: dict[str, Any] = {
    "contexts": 24,
    "tasks": 32,
    "tried": 2.0,
    "order": "longest",
    "signals": {"forgetting": {"window": 12}, "boundary": {}, "rare": {"least": 200, "share": 5}, "blamed": {}},
    "explore": {"rounds": 2, "steps": 8},
    "explorer": {"name": "policy", "options": {"temperature": 1.2, "share": 0.1, "untried": True}},
    "abstracter": {"name": "hindsight", "options": {"least": 1, "whole": True}},
    "written": 2,
    "attempts": 2,
    "admission": {"validation": {"least": 1}},
}
ROUND: dict[str, Any] = {
    "tasks": 4,
    "group": 4,
    "algorithm": {"name": "grpo"},
    "optimiser": {"learning_rate": 4e-4},
    "steps": 2,
    "batch": 4,
}
EXPLORED = 4
"""Rounds of exploration alone, a growth behind each but the last."""
RECIPE: dict[str, Any] = {
    "steps": 1000,
    "batch": 8,
    "optimiser": {"learning_rate": 0.001, "schedule": "cosine", "warmup": 10, "floor": 0.1},
}
EVOLVE: dict[str, Any] = {
    "epochs": 1,
    "weight": 0,
    "candidates": {"effect": 2},
    "ablate": {"efficiency": True, "rl": True, "memory": True},
}
PROVEN = 1
"""Trainings of each arm's data, by a seed that nothing decided."""

_CURATE = "from operators import *\n\n\ndef curate(raw):\n"
_HEAD = f"{_CURATE}    walks = known_successes(raw)\n"
CORRECTED = f"{_HEAD}    walks = no_loss_on_faults(walks)\n    return output(sft=imitate(walks))\n"
"""Guidance alone: walks that succeeded, turns that were called bad as context only."""
FIRST = f"{_CURATE}    walks = no_loss_on_faults(known_successes(in_hindsight(raw)))\n    return output(sft=imitate(walks))\n"
"""What evolves: walks under what they did, without what was called bad."""
SOLVED = f"{_HEAD}    walks = without_repeats(walks)\n    return output(sft=imitate(walks))\n"
"""Exploration alone: solutions, and attempts that succeeded, each once."""


@dataclass(frozen=True, kw_only=True)
class Composed:
    """What the arms alone are given of the composed one: the steps it took, those of its parts, and the tasks that its
    guidance was about."""

    steps: float = 0
    guiding: float = 0
    deciding: float = 0
    tasks: tuple[Task, ...] = ()


class Arms:
    """The arms of a seed, on an experiment's lake. Each gives the loop whose recipe trains its data, the data, and its
    steps.

    Args:
        experiment: the seed's, or the arm's own of the same seed.
        weak: the policy that all begin with.
        logged: so many tasks it was taught on; the next ones are given.
        composed: what the composed arm came to, which goes first.
    """

    def __init__(self, experiment: Experiment, weak: Student, logged: int, composed: Composed | None = None) -> None:
        self.experiment, self.weak = experiment, weak
        self.told: dict[str, float] = {}
        self._composed = composed or Composed()
        self._file = experiment.folder / "given.jsonl"
        given = experiment.learn[logged : logged + GIVEN]
        self._file.write_text("".join(write_tasks(given)), encoding="utf-8")
        self._first = experiment.folder / "first.py"
        self._first.write_text(FIRST, encoding="utf-8")

    def composed(self) -> tuple[Loop[Any], Curated, Composed]:
        """All three, one behind the other; each reads what the one before left on the lake."""
        guided = turn(self._config("apollo", "guided", **self._guided()), here=True)
        runs, grew, seen = [str(guided.given("round-1.rollout")["run"])], list[Loop[Any]](), set[str]()
        for cycle in range(1, CYCLES + 1):
            shown = self._begun(f"cycle-{cycle}.shown", {"sources": runs})
            shown_to = self._policy(f"cycle-{cycle}.policy", shown, self._given(shown, CORRECTED), 0)
            settings = {**self._explored(2), "grow": {**GROW, "also": runs}, "policy": shown_to.in_loop()}
            settings["tasks"] = self._tasks_so_far(cycle, grew)
            grew.append(turn(self._config("coevolve", f"cycle-{cycle}.explored", **settings), here=True))
            new = [task for task, _ in grown(grew[-1]) if task.id not in seen]
            if new:
                seen |= {task.id for task in new}
                self._play(f"cycle-{cycle}.guided", new, 1, PERSON, 0, shown_to)
                runs = [*runs, f"cycle-{cycle}.guided"]
        walked = [*runs, *(run for loop in grew for run in self._walked(loop))]
        raw = {"sources": walked, "play": [each for loop in grew for each in self._born(loop)]}
        settings = {**EVOLVE, **self._recipe(), "raw": raw, "tasks": self._tasks_so_far(CYCLES + 1, grew)}
        evolved = turn(self._config("curateevo", "evolved", **settings), here=True)
        parts = {
            "guiding": sum(map(self._turns, runs)),
            "exploring": sum(map(self._exploring, grew)),
            "reading": self._reading(evolved),
            "deciding": self._deciding(evolved),
        }
        self.told |= {f"composed, {name}": float(count) for name, count in parts.items()}
        self.told |= self._grown("composed", *grew) | self._kept("composed", evolved)
        tasks, steps = tuple(self._tasks(guided)), sum(parts.values())
        come = Composed(steps=steps, guiding=parts["guiding"], deciding=parts["deciding"], tasks=tasks)
        return evolved, self._last(evolved), come

    def guide(self) -> tuple[Loop[Any], Curated, int]:
        """Guided walks alone."""
        runs = self._until("guide", self._composed.steps, self._composed.tasks, PERSON)
        loop = self._begun("guide", {"sources": runs})
        return loop, self._given(loop, CORRECTED), sum(map(self._turns, runs))

    def part(self) -> tuple[Loop[Any], Curated, int]:
        """Guided walks alone, the person there for as many steps as composed; then the policy plays on alone."""
        runs = self._until("part", self._composed.guiding, self._composed.tasks, PERSON)
        left = self._composed.steps - sum(map(self._turns, runs))
        runs += self._until("part-left", left, self._composed.tasks)
        loop = self._begun("part", {"sources": runs})
        return loop, self._given(loop, CORRECTED), sum(map(self._turns, runs))

    def explore(self) -> tuple[Loop[Any], Curated, int]:
        """Exploration alone, in several rounds, and attempts with what is left."""
        explored = turn(self._config("coevolve", "explore", **self._explored(EXPLORED), grow=GROW), here=True)
        spent = self._exploring(explored)
        play = self._born(explored)
        carried = self._solutions(explored)
        runs = self._until("explore", self._composed.steps - spent - carried, self._tasks(explored))
        loop = self._begun("explored-alone", {"sources": [*self._attempts(explored), *runs], "play": play})
        self.told |= self._grown("explore", explored)
        return loop, self._given(loop, SOLVED), spent + sum(map(self._turns, runs)) + self._reading(loop)

    def evolve(self) -> tuple[Loop[Any], Curated, int]:
        """Curation alone, of the policy's own walks. What a walk brought about is found by carrying it out again, so a
        walk that fails counts twice; deciding takes half of what it took composed, or more."""
        left = 1.1 * self._composed.steps - self._composed.deciding / 2
        runs = self._until("evolve", left, self._composed.tasks, again=True)
        raw = {"sources": runs, "hindsight": True}
        evolved = turn(self._config("curateevo", "evolve", **EVOLVE, **self._recipe(), raw=raw), here=True)
        steps = sum(map(self._turns, runs)) + self._reading(evolved) + self._deciding(evolved)
        self.told |= self._kept("evolve", evolved)
        return evolved, self._last(evolved), steps

    def measure(self, name: str, loop: Loop[Any], data: Curated) -> dict[str, float]:
        """Success at each held-out task of what the recipe makes of data, by seeds that nothing decided."""
        seeds = range(UNSEEN, UNSEEN + PROVEN)
        found = [self.experiment.measure(self._policy(name, loop, data, each), attempts=1) for each in seeds]
        return {task: fmean(each[task] for each in found) for task in found[0]}

    def _policy(self, name: str, loop: Loop[Any], data: Curated, number: int) -> Student:
        """What the recipe makes of data, by the seed of that number."""
        stage = loop.plan[-1]
        version = Training(loop, stage, Judge(loop, stage).corpus, data, number).version(Memories(loop, data, name))
        folder = Path(playing(loop, version).removeprefix("local:"))
        return Student(name=f"{name}-{number}", base=self.weak.base, trained=folder)

    def _config(self, loop: str, name: str, **more: Any) -> Any:
        play = dict(self.experiment.setting.play)
        sampling = play.pop("sampling")
        base = {
            "folder": str(self.experiment.folder / "loops" / name),
            "line": name,
            "lake": str(self.experiment.lake),
            "env": self.experiment.setting.env,
            "seed": self.experiment.seed,
            "policy": self.weak.in_loop(),
            "tasks": {"file": str(self._file), **SPLIT},
            "play": {**play, "max_tokens": sampling["max_tokens"]},
            "threads": 1,
        }
        return kind(loop).config.model_validate({**base, **more})

    def _guided(self) -> dict[str, Any]:
        rounds = [{"group": GUIDED, "steps": 1}]
        return {
            "person": PERSON.model_dump(mode="json", exclude_defaults=True),
            "approval": {"approve": "all"},
            "takeovers": True,
            "training": False,
            "rounds": rounds,
        }

    def _explored(self, rounds: int) -> dict[str, Any]:
        return {
            "measure": {"seeds": 1, "dev": 2},
            "judge": {"every": 1000},
            "rounds": [{**ROUND, "times": rounds}],
        }

    def _recipe(self) -> dict[str, Any]:
        return {"initial": str(self._first), "recipe": RECIPE, "measure": {"seeds": 1, "temperature": 1.0}}

    def _begun(self, name: str, raw: dict[str, Any]) -> Loop[Any]:
        """A CurateEvo loop up to where curations are judged: its corpus and its recipe, and no evolution."""
        return turn(self._config("curateevo", name, **EVOLVE, **self._recipe(), raw=raw), here=True, until="first")

    def _given(self, loop: Loop[Any], text: str) -> Curated:
        data, why = Judge(loop, loop.plan[-1]).data([curation(text)])[0]
        if why:
            raise SystemExit(f"{loop.config.line}: {why}")
        return data

    def _tasks_so_far(self, cycle: int, grew: Sequence[Loop[Any]]) -> dict[str, Any]:
        """What is given and what has grown, as a loop's tasks: what grew is not found again, and curation is not judged by
        easy tasks alone. The part of it that is for decisions is not learnt from."""
        new = {task.id: task for loop in grew for task, _ in grown(loop)}
        file = self.experiment.folder / f"tasks-{cycle}.jsonl"
        given = self._file.read_text(encoding="utf-8")
        file.write_text(given + "".join(write_tasks(list(new.values()))), encoding="utf-8")
        return {"file": str(file), **SPLIT}

    def _last(self, loop: Loop[Any]) -> Curated:
        return self._given(loop, source(loop, str((present(loop) or {})["digest"])).source)

    def _tasks(self, loop: Loop[Any]) -> list[Task]:
        """The tasks that a loop learns on."""
        return tasks_named(loop, learnt(loop, ()))

    def _until(
        self,
        name: str,
        steps: float,
        tasks: Sequence[Task],
        person: ScriptedRules | None = None,
        again: bool = False,
    ) -> list[str]:
        """Runs of the weak policy, until it has taken so many steps; with `again` a failed walk's count twice."""
        runs: list[str] = []
        taken = 0
        while taken < steps:
            passes = math.ceil((steps - taken) / taken) if taken else 1
            runs.append(f"{name}.own.{len(runs) + 1}")
            self._play(runs[-1], tasks, passes, person, len(runs))
            taken += self._turns(runs[-1]) + (self._turns(runs[-1], failed=True) if again else 0)
        return runs

    def _play(
        self,
        run: str,
        tasks: Sequence[Task],
        group: int,
        person: ScriptedRules | None,
        number: int,
        student: Student | None = None,
    ) -> None:
        experiment, student = self.experiment, student or self.weak
        hooks = Hooks(retry=LOST)
        more: dict[str, Any] = {"seed": experiment.seed + 1000 * number}
        if person is not None:
            hooks.guidance = ScriptedMailroom.scripted(person, str(experiment.lake), run, resume=experiment.begun(run))
            more["guidance"] = {"approve": "all", "renderer": self.weak.base}
        model = student.model(experiment.lake, experiment.folder / "merged")
        experiment.play(run, tasks, group, hooks=hooks, model=model, sampling={"temperature": 1.0}, **more)
        if person is not None:
            asyncio.run(mask(MaskConfig(lake=str(experiment.lake), run=(run,))))

    def _turns(self, run: str, failed: bool = False) -> int:
        with Lake.open(str(self.experiment.lake), mode="read") as lake:
            return sum(each.turns for each in lake.trajectories(run_id=run) if not (failed and each.outcome.success))

    def _growths(self, loop: Loop[Any]) -> list[dict[str, Any]]:
        return [said for each in loop.plan if each.kind == "grow" and (said := loop.outputs(each.name)) and said["run"]]

    def _attempts(self, loop: Loop[Any]) -> list[str]:
        return [str(said["run"]) for each in loop.plan if each.kind == "rollout" and (said := loop.outputs(each.name))]

    def _walked(self, loop: Loop[Any]) -> list[str]:
        return [*self._attempts(loop), *(str(said["run"]) for said in self._growths(loop))]

    def _born(self, loop: Loop[Any]) -> list[dict[str, Any]]:
        return [{"born": str(said["run"])} for said in self._growths(loop) if said["accepted"]]

    def _solutions(self, loop: Loop[Any]) -> int:
        """Turns that carrying out what grew takes."""
        with Lake.open(loop.lake, mode="read") as lake:
            found = [how for said in self._growths(loop) for _, how in born(lake, str(said["run"]))]
        return sum(len(how.solution) for how in found if how.verdict == "accepted")

    def _exploring(self, loop: Loop[Any]) -> int:
        growths = self._growths(loop)
        grew = sum(said["turns"] + said["steps"] + said["attempted"] for said in growths)
        base = loop.outputs("measure") or {"run": ""}
        return grew + sum(map(self._turns, [*self._attempts(loop), *filter(None, [str(base["run"])])]))

    def _reading(self, loop: Loop[Any]) -> int:
        """Turns that making a corpus took: solutions carried out, and walks carried out again for hindsight."""
        raw = loop.given("raw")
        steps = sum(map(self._turns, raw["runs"]))
        if loop.config.raw.hindsight:
            steps += sum(self._turns(run, failed=True) for run in [*raw["runs"], *raw["sources"]])
        return steps

    def _deciding(self, loop: Loop[Any]) -> int:
        with Lake.open(loop.lake, mode="read") as lake:
            runs = {each.run_id for each in lake.trajectories() if each.run_id.startswith(f"{loop.config.line}.dev.")}
        return sum(map(self._turns, runs))

    def _grown(self, name: str, *loops: Loop[Any]) -> dict[str, float]:
        return {f"{name}, grown": float(sum(len(said["accepted"]) for loop in loops for said in self._growths(loop)))}

    def _kept(self, name: str, loop: Loop[Any]) -> dict[str, float]:
        stages = [loop.outputs(each.name) for each in loop.plan if each.kind in ("effect", "efficiency")]
        first = loop.given("first")
        return {
            f"{name}, kept": float(sum(bool(each and each["kept"]) for each in stages)),
            f"{name}, first P": float(first["p"]),
            f"{name}, last P": float((present(loop) or first)["p"]),
        }
