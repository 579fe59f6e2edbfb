"""CoEvolve (L5): tasks that grow from signals, against the same GRPO on tasks that stay, and against other ways to grow.

    python benchmarks/learning/coevolve.py --env halls --policy tiny --seeds 60 61 62 63 64 65 66 67

A policy from nothing imitates the expert in other buildings (workshops), in which most doors have other keys. GRPO is then
given tasks as a user has them, of which most are easy. From there each arm is a whole `silva loop coevolve`, with the same
rounds, groups and steps: `static` (the initial tasks stay), `start` (as much unguided exploration as the others have in
all, at the first growth), `as many` (three times that, to have as many tasks as CoEvolve came to), `given` (as many as
CoEvolve came to in all, of those that a user has, which stay), `random` (explored as much as CoEvolve, without signals),
`coevolve`, and, on the seeds `ABLATED`, that without one signal (`no forgetting`, `no boundary`, `no rare`), without
validation (`no validation`). Both worlds have goals in words that cannot be reached (examples/coevolve). Held-out tasks are
of all kinds in equal numbers, in places nobody has been in, at temperature 1; an arm's success is the mean over some of its
last versions (`MEASURED`).

The claim: CoEvolve > static > zero-shot, and CoEvolve > each of start, as many and given, intervals over seeds and tasks
above 0. All else is printed whatever it says. `--seeds 60` runs one seed; rows of seeds run apart are put together by `--kept`.
"""

from __future__ import annotations

import json
import math
import random
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from beside import cores_of
from experiment import Experiment
from runner import Seed, main
from settings import SETTINGS, Split
from student import Student
from table import Row, together

from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.turn import turn
from silva.loops.line.head import registry
from silva.loops.line.weights import playing
from silva.models.tiny.shape import Shape
from silva.tree.formats.tasks import write_tasks

SEEDS = tuple(range(60, 68))
"""Fixed before any of them ran."""
ABLATED = SEEDS[:2]
"""Fixed likewise: those on which `ABLATIONS` are run, too, which are none of the claim."""
ATTEMPTS = 2
"""At each held-out task, of the policy that arms begin with."""
MEASURED, APART = 5, 2
"""An arm's success is that of so many of its last versions, each so many rounds before the next: one version of a policy
this small may be ten points from that of the round before."""
SHAPE = Shape(width=64, inner=128, layers=2, context=768)
TOGETHER = 64
"""Attempts of an arm that go on at once. The more, the sooner a round has ended; what they come to is the same."""
POOL, TRAIN, INITIAL = 100, 0.9, 60
"""Tasks that arms are given, the share of them that may be trained on, and how many of those GRPO begins with."""


@dataclass(frozen=True, kw_only=True)
class Begun:
    """How a seed's policy is made, of so many `lessons`; the `rate` at which GRPO learns in so many `rounds`, from walks of
    as many `turns`; and the `least` actions that a new task takes: those of fewer are what one begins with."""

    lessons: int
    teach: dict[str, Any]
    rate: float
    turns: int
    least: int
    rounds: int


BEGUN = {
    "halls": Begun(lessons=1600, teach={"batch": 8, "rate": 3e-3, "epochs": 8}, rate=1e-3, turns=7, least=3, rounds=24),
    "workshop": Begun(
        lessons=1600, teach={"batch": 8, "rate": 3e-3, "epochs": 8}, rate=1e-3, turns=6, least=2, rounds=32
    ),
}
"""Eight lessons a step: of sixteen, in half as many steps, one seed of seven never came to tell by its hall which key to
take. In the workshop one has not first to go anywhere, so that ways are a turn shorter; and what is found late there had
not been learnt after 24 rounds (docs/reference/learning.md)."""
ROUND: dict[str, Any] = {
    "tasks": 24,
    "group": 8,
    "rest": 12,
    "algorithm": {"name": "grpo", "parameters": {"normalise": "sequence"}},
    "steps": 2,
    "batch": 24,
    "optimiser_state": "carried",
}
"""Each walk counts alike: failed ones are twice as long as the others here, and by tokens they would outweigh them. Two
steps on all groups: behind more of them the policy is another one than that which played (docs/reference/learning.md).
A fresh optimiser's first step is as long whatever the gradients say: of two steps a round most would be noise. What
every attempt of a group did is not played again soon: most of a round would be that."""
GROW: dict[str, Any] = {
    "first": 2,
    "every": 4,
    "contexts": 40,
    "tasks": 40,
    "tried": 2.0,
    "explore": {"rounds": 2, "steps": 8},
    "order": "longest",
    "played": 0.5,
    "explorer": {"name": "policy", "options": {"temperature": 1.0, "share": 0.0, "untried": True}},
    "written": 4,
    "attempts": 2,
}
SIGNALS: dict[str, Any] = {"forgetting": {"window": 12}, "boundary": {}, "rare": {"least": 200, "share": 5}}


def without(signal: str) -> dict[str, Any]:
    """CoEvolve without one signal."""
    return {"by": "signals", "signals": {name: each for name, each in SIGNALS.items() if name != signal}}


CLAIMED: dict[str, dict[str, Any]] = {
    "coevolve": {"by": "signals", "signals": SIGNALS},
    "static": {"by": "nothing"},
    "start": {"by": "start"},
    "random": {"by": "random"},
}
"""First the one that others wait for."""
AS_MANY: dict[str, dict[str, Any]] = {
    "as many": {"by": "start", "contexts": 3 * GROW["contexts"], "tried": 4 * GROW["tried"]},
    "given": {"by": "nothing"},
}
"""Behind CoEvolve, which says how many tasks: three times the exploration of `start`, all of what it found tried, and cut
to as many, where there are as many to be found; and so many more of those that a user has, most of which are easy."""
ABLATIONS: dict[str, dict[str, Any]] = {
    "no forgetting": without("forgetting"),
    "no boundary": without("boundary"),
    "no rare": without("rare"),
    "no validation": {"by": "signals", "signals": SIGNALS, "admission": {"validation": {"execute": False}}},
}


def run(seed: Seed) -> list[Row]:
    """One seed; as many arms at once as it has cores. What an arm came to is kept in its folder."""
    experiment = seed.of_one_thread()
    base = taught(experiment, seed.env)
    zero = experiment.measure(base, attempts=ATTEMPTS)
    arms = [*CLAIMED, *(ABLATIONS if seed.number in ABLATED else ())]
    said = (str(experiment.folder), seed.env, seed.number, base)
    with cores_of(seed.cores) as pool:
        asked = {name: pool.submit(arm, *said, name) for name in arms}
        grown = int(asked["coevolve"].result()["told"]["grown"])
        asked |= {name: pool.submit(arm, *said, name, grown) for name in AS_MANY}
    came = {name: each.result() for name, each in asked.items()}
    told = {name: each["told"] for name, each in came.items()}
    found = {"zero-shot": zero, **{name: each["rates"] for name, each in came.items()}}
    pairs = [("zero-shot", "static"), *((name, "coevolve") for name in found if name != "coevolve")]
    return [_row(seed.number, left, right, found, told) for left, right in pairs]


def arm(folder: str, env: str, number: int, base: Student, name: str, many: int = 0) -> dict[str, dict[str, float]]:
    """One arm of a seed to its end: its success at each held-out task, and what it came to. Where CoEvolve's number of new
    tasks is said, `many`, it has as many from the start: found, in whole tasks a growth that it stands for, or given."""
    experiment = Experiment(Path(folder) / "arms" / name.replace(" ", "-"), SETTINGS[env], number, threads=1)
    file = experiment.folder / "arm.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    began, spent = time.monotonic(), _processor()
    grow = {**CLAIMED, **ABLATIONS, **AS_MANY}[name]
    config = _config(experiment, base, grow, BEGUN[env], many if name == "given" else 0)
    if many and name != "given":
        config = _config(experiment, base, {**grow, "tasks": max(1, math.ceil(many / config.share))}, BEGUN[env])
    loop = turn(config, _watch(name), here=True)
    rates = dict[str, list[float]]()
    for version in [each.name for each in registry(loop).line("arm").versions][-1 : -MEASURED * APART : -APART]:
        trained = Path(playing(loop, version).removeprefix("local:"))
        student = Student(name=f"{name.replace(' ', '-')}-{version}", base=base.base, trained=trained)
        for task, rate in experiment.measure(student, attempts=1).items():
            rates.setdefault(task, []).append(rate)
    rates = {task: fmean(each) for task, each in rates.items()}
    told = {
        **_numbers(loop),
        "minutes": (time.monotonic() - began) / 60,
        "processor_seconds": _processor() - spent,
    }
    print(number, name, f"{sum(rates.values()) / len(rates):.3f}", told, flush=True)
    file.write_text(json.dumps({"rates": rates, "told": told}), encoding="utf-8")
    return {"rates": rates, "told": told}


def taught(experiment: Experiment, env: str) -> Student:
    """A policy from nothing that has imitated the expert on lessons: of all kinds, in places that nobody is in after."""
    begun = BEGUN[env]
    assert isinstance(experiment.setting, Split)
    lessons = experiment.setting.of("elsewhere")
    random.Random(experiment.seed).shuffle(lessons)
    student = experiment.from_nothing("taught", SHAPE, [*lessons[:60], *experiment.held_out[:20]])
    taken = lessons[: begun.lessons]
    experiment.play("expert", taken, policy="expert", renderer=student.base)
    return experiment.fit("taught", student, experiment.samples("expert"), {"name": "sft"}, **begun.teach)


def _config(experiment: Experiment, base: Student, grow: dict[str, Any], begun: Begun, more: int = 0) -> CoEvolveConfig:
    file = experiment.folder / "grpo.jsonl"
    if not file.is_file():
        given = experiment.learn[: POOL + math.ceil(more / TRAIN)]
        file.write_text("".join(write_tasks(given)), encoding="utf-8")
    play = dict(experiment.setting.play)
    return CoEvolveConfig.model_validate(
        {
            "folder": experiment.folder / "loop",
            "line": "arm",
            "env": experiment.setting.env,
            "seed": experiment.seed,
            "policy": base.in_loop(),
            "tasks": {"file": file, "train": TRAIN, "dev": 0.1, "test": 0},
            "play": {
                **{key: play[key] for key in ("agent", "hosts")},
                "pool": TOGETHER,
                "budget": {"turns": begun.turns},
                **_tokens(play),
            },
            "measure": {"seeds": 1, "dev": 2},
            "judge": {"every": 1000},
            "initial": INITIAL + more,
            "grow": _grown(grow, begun.least),
            "rounds": [{**ROUND, "times": begun.rounds, "optimiser": {"learning_rate": begun.rate}}],
            "threads": 1,
        }
    )


def _grown(grow: dict[str, Any], least: int) -> dict[str, Any]:
    """How an arm's tasks grow: none of fewer than the `least` actions."""
    validation = {"least": least, **grow.get("admission", {}).get("validation", {})}
    hindsight = {"name": "hindsight", "options": {"least": least, "whole": True}}
    return {**GROW, "abstracter": hindsight, **grow, "admission": {"validation": validation}}


def _tokens(play: dict[str, Any]) -> dict[str, Any]:
    return {"max_tokens": play["sampling"]["max_tokens"]}


def _watch(name: str) -> Any:
    def tell(stage: Any, entry: Any) -> None:
        if entry.event != "begun":
            print(f"{name} {stage.name} {entry.event} {entry.seconds:.1f} s {entry.note}", flush=True)

    return tell


def _numbers(loop: Loop[CoEvolveConfig]) -> dict[str, float]:
    """What an arm came to: groups that GRPO could compare in the last half of its rounds, tasks, what growing cost."""
    rounds = [said for each in loop.plan if each.kind == "rollout" and (said := loop.outputs(each.name)) is not None]
    growths = [said for each in loop.plan if each.kind == "grow" and (said := loop.outputs(each.name)) is not None]
    late = rounds[len(rounds) // 2 :]
    played = sum(said["turns"] * said["episodes"] for said in rounds)
    grew = sum(said["turns"] + said["steps"] + said["attempted"] for said in growths)
    refused = Counter[str]()
    for said in growths:
        refused.update(said["refused"])
    return {
        "mixed": sum(said["mixed"] for said in late) / max(1, sum(len(said["played"]) for said in late)),
        "grown": float(sum(len(said["accepted"]) for said in growths)),
        "infeasible": float(refused["unsolved"] + refused["infeasible"]),
        "share": grew / max(1.0, played + grew),
        "versions": float(len(registry(loop).line("arm").versions) - 1),
    }


def _processor() -> float:
    own, children = (resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _row(number: int, left: str, right: str, found: dict[str, Any], told: dict[str, Any]) -> Row:
    more = {f"{key} of {name}": value for name in (left, right) for key, value in told.get(name, {}).items()}
    return Row(seed=number, left=left, right=right, before=found[left], after=found[right], more=more)


def held(rows: list[Row]) -> dict[str, Any]:
    """Whether the claim holds."""
    wanted = (("zero-shot", "static"), *((name, "coevolve") for name in ("static", "start", *AS_MANY)))
    found = {pair: together([row for row in rows if (row.left, row.right) == pair]) for pair in wanted}
    above = all(min(each["low"], each["over_seeds"][0]) > 0 for each in found.values())
    return {"holds": above and len({row.seed for row in rows}) >= len(SEEDS)}


if __name__ == "__main__":
    sys.exit(main("coevolve", __doc__, run, held))
