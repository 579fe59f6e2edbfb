"""SPORT (L3): does a policy learn from steps that it searched itself, without an expert, and is it the search that teaches?

    python benchmarks/learning/sport.py --env babyai-steps --policy tiny --seeds 60 61 62 63 64 --parallel 2
    python benchmarks/learning/sport.py --env depot-steps --policy tiny --seeds 66 67 68 69 70 --parallel 2

Each seed makes its own policy from nothing, which imitates some of the expert's episodes (SFT), and then loops (`silva loop
sport`, side by side) whose rounds are the arms, all from SFT, on the same tasks, measured on the same tasks that no training
saw:

    SPORT      three iterations; 4 candidates a turn, a verifier by completions; each from SFT on all pairs so far
    outcome    whole tries, the best of a task against its worst, three iterations of as many steps in the environment
    picks      SFT on what SPORT's verifier picked in all three, without what it rejected
    little nll SPORT's pairs of all three, with a fifth of the weight on what was chosen
    random     the same search with a verifier that draws lots: it must hurt, or at least not help
    n 2, n 8   the first iteration with fewer and more candidates (n 1 has no pairs: it is SFT)

What the verifier prefers is checked before it is learnt from: by the expert, who goes on from both sides of some pairs.
The claim, over tasks and over seeds and tasks, at least five seeds fixed beforehand: SPORT's last iteration is better than
SFT (both intervals above 0), and not worse than the iteration before it (no interval below 0).
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from beside import beside
from elsewhere import learnt_elsewhere
from experiment import Experiment
from runner import Seed, main
from safety import cpu_minutes
from settings import SETTINGS
from student import Student
from table import Row, together

from silva.lake import Lake
from silva.loops.kernel.ledger import Entry
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing
from silva.loops.line.verdict import rates
from silva.loops.sport.config import SportConfig
from silva.loops.sport.kind import SPORT
from silva.loops.sport.shown import rate
from silva.models.tiny.shape import Shape
from silva.train.data.entries import read_entries
from silva.tree import Task
from silva.tree.formats.tasks import write_tasks


@dataclass(frozen=True, kw_only=True)
class Begun:
    """How a seed's policy is made: from nothing in its `shape`, or, without one, one that has learnt the work
    `elsewhere`, in another place of that setting's kind; and so many of the expert's `tasks` that it imitates for so many
    `epochs`. Of the tasks it was not taught, `dev` is the share on which all is measured. `rate` is that of DPO: what one
    forgets quickly, it has to be low for."""

    shape: Shape | None = None
    elsewhere: str = ""
    tasks: int
    epochs: float
    dev: float
    rate: float = 1e-3


BEGUN = {
    "babyai-steps": Begun(shape=Shape(width=96, inner=192, layers=3, context=1024), tasks=80, epochs=15, dev=0.3),
    "depot-steps": Begun(elsewhere="depot", tasks=24, epochs=8, dev=0.5, rate=3e-4),
}
"""Chosen by trying, on a seed that is none of those fixed: half of the tasks are to be left."""
ATTEMPTS = 2
"""At each held-out task."""
TEACH: dict[str, Any] = {"batch": 8, "rate": 3e-3}
SEARCHED = 48
"""Tasks of an iteration."""
ITERATIONS = 3
SEARCH: dict[str, Any] = {"candidates": 4, "verifier": "completions", "options": {"k": 2}}
ROUND: dict[str, Any] = {
    "tasks": SEARCHED,
    "algorithm": {"name": "dpo", "parameters": {"beta": 0.1, "nll": 1.0}},
    "epochs": 4,
    "batch": 8,
}
"""Settled on a seed that is none of those fixed: of 59 pairs, two epochs with `nll` 0.2 made a policy forget how a reply is
formed (37.6 to 14.1 %). With as many pairs as there are here it makes little difference, as its arm says."""
LITTLE: dict[str, Any] = {"algorithm": {"name": "dpo", "parameters": {"beta": 0.1, "nll": 0.2}}}
PICKS: dict[str, Any] = {"algorithm": {"name": "sft"}}
ARMS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("SPORT", ITERATIONS, {}),
    ("outcome", ITERATIONS, {"compare": "tries", "steps_of": "SPORT"}),
    ("picks", 1, {"pairs_of": "SPORT", **PICKS}),
    ("little nll", 1, {"pairs_of": "SPORT", **LITTLE}),
    ("random", ITERATIONS, {"search": {**SEARCH, "verifier": "random", "options": {}}}),
    ("n 2", 1, {"search": {**SEARCH, "candidates": 2}}),
    ("n 8", 1, {"search": {**SEARCH, "candidates": 8}}),
)
LOOPS = {"loop": ("SPORT", "outcome", "picks", "little nll"), "lots": ("random",), "counts": ("n 2", "n 8")}
"""Arms by the loop that they are rounds of: one loop for those that have SPORT's pairs, or as many steps."""
CHECKED = 10
"""Pairs of a round from both sides of which the expert goes on."""


def run(seed: Seed) -> list[Row]:
    """One seed."""
    began = time.monotonic()
    begun, experiment = BEGUN[seed.env], seed.of_one_thread()
    policy = taught(experiment, begun)
    file = experiment.folder / "tasks.jsonl"
    file.write_text("".join(write_tasks(unlike(experiment, experiment.held_out))), encoding="utf-8")
    done = beside(looped, [(experiment.folder, seed.env, seed.number, policy, name) for name in LOOPS], seed.cores)
    success = {arm: each for rates, _ in done for arm, each in rates.items()}
    more = {key: value for _, each in done for key, value in each.items()}
    more |= {"minutes": (time.monotonic() - began) / 60, "cpu_minutes": cpu_minutes()}
    last, before = f"SPORT {ITERATIONS}", f"SPORT {ITERATIONS - 1}"
    pairs = [("SFT", last), (before, last), *(("SFT", arm) for arm in success if arm not in ("SFT", last))]
    pairs += [("outcome 3", last), ("picks 1", last), ("random 3", last)]
    return [
        Row(
            seed=seed.number,
            left=left,
            right=right,
            before=success[left],
            after=success[right],
            more=more if (left, right) == ("SFT", last) else {},
        )
        for left, right in pairs
        if left in success and right in success
    ]


def taught(experiment: Experiment, begun: Begun) -> Student:
    """A policy that has imitated the expert."""
    if begun.shape is None:
        student = learnt_elsewhere(experiment, begun.elsewhere)
    else:
        student = experiment.from_nothing("made", begun.shape, experiment.learn[:100])
    samples = experiment.expert("expert", begun.tasks, student)
    return experiment.fit("sft", student, samples, {"name": "sft"}, epochs=begun.epochs, **TEACH)


def unlike(experiment: Experiment, tasks: list[Task]) -> list[Task]:
    """Those of the tasks that do not look at first like one that the expert taught, letter by letter."""
    experiment.play("asked", tasks, policy="null")
    with Lake.open(str(experiment.lake), mode="read") as lake:
        taught = {entry.question for entry in read_entries(lake, ["expert"])}
        seen = {entry.task_id for entry in read_entries(lake, ["asked"]) if entry.question in taught}
    return [task for task in tasks if task.id not in seen]


def configuration(experiment: Experiment, policy: Student, begun: Begun, name: str) -> SportConfig:
    """One loop of a seed: a round for each iteration of each of its arms, on tasks that the policy was not taught."""
    play = {key: value for key, value in experiment.setting.play.items() if key != "sampling"}
    optimiser = {"learning_rate": begun.rate, "schedule": "cosine", "warmup": 2}
    return SportConfig.model_validate(
        {
            "folder": experiment.folder / name,
            "line": "sport",
            "env": experiment.setting.env,
            "seed": experiment.seed,
            "policy": policy.in_loop(),
            "tasks": {"file": experiment.folder / "tasks.jsonl", "train": 1 - begun.dev, "dev": begun.dev, "test": 0.0},
            "play": {**play, **experiment.setting.play["sampling"]},
            "measure": {"seeds": ATTEMPTS, "temperature": 1.0},
            "search": SEARCH,
            "check": {"pairs": CHECKED},
            "rounds": [
                {**ROUND, "optimiser": optimiser, "arm": arm, **each}
                for arm, count, each in ARMS
                for _ in range(count)
                if arm in LOOPS[name]
            ],
            "threads": experiment.threads,
        }
    )


def looped(
    folder: Path, env: str, number: int, policy: Student, name: str
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """What a loop's arms came to, and what it tells. It runs as by `silva loop sport`, in one process, which costs less,
    and goes on where it was."""
    experiment = Experiment(folder, SETTINGS[env], number, threads=1)
    loop = SPORT.open(configuration(experiment, policy, BEGUN[env], name))
    loop.keep_config()
    skipped: set[int] = set()
    for stage in loop.plan:
        over = loop.ledger.over().get(stage.name)
        if over is not None or (stage.round and stage.round in skipped):
            skipped |= {stage.round} if over is not None and over.event == "skipped" else set()
            continue
        at = time.time()
        event, outputs, note = "ended", {}, ""
        try:
            outputs = SPORT.run(loop, stage)
        except Nothing as why:
            event, note = "skipped", str(why)
            skipped.add(stage.round)
        spent = time.time() - at
        ended: Any = {"stage": stage.name, "event": event, "inputs": stage.inputs, "at": at, "seconds": spent}
        loop.ledger.append(Entry(**ended, outputs=outputs, note=note))
        print(f"{name}: {stage.name} {event} {spent:.1f} s: {note or SPORT.line(stage, outputs)}", flush=True)
    return measured(loop), told(loop)


def versions(loop: Loop[SportConfig]) -> dict[str, str]:
    """The version of each arm and iteration."""
    config = loop.config
    found = {"SFT": str(loop.given("base")["version"])}
    for number, settings in enumerate(config.rounds, 1):
        made = loop.outputs(f"round-{number}.register")
        if made is not None:
            found[f"{settings.arm} {config.iteration(number)}"] = str(made["version"])
    return found


def measured(loop: Loop[SportConfig]) -> dict[str, dict[str, float]]:
    """Success at each held-out task, of each arm and iteration."""
    with Lake.open(loop.lake, mode="read") as lake:
        return {
            arm: rates(lake.trajectories(run_id=f"{loop.config.line}.dev.{version}"))
            for arm, version in versions(loop).items()
        }


def told(loop: Loop[SportConfig]) -> dict[str, float]:
    """How often each verifier was right, steps taken and pairs found."""
    found: dict[str, float] = {}
    config = loop.config
    for arm in dict.fromkeys(each.arm for each in config.rounds):
        numbers = config.of_arm(arm)
        given = {
            kind: [out for n in numbers if (out := loop.outputs(f"round-{n}.{kind}")) is not None]
            for kind in ("search", "rollout", "pairs", "check")
        }
        found[f"{arm}: steps"] = float(sum(each["steps"] for each in [*given["search"], *given["rollout"]]))
        if given["pairs"]:
            found[f"{arm}: pairs"] = float(sum(each["pairs"] for each in given["pairs"]))
            for side in ("chosen", "rejected"):
                found[f"{arm}: errors {side}"] = fmean(rate(e["statistics"][side]) or 0.0 for e in given["pairs"])
        if checked := sum(each["told"] for each in given["check"]):
            found[f"{arm}: verifier right"] = sum(each["right"] for each in given["check"]) / checked
    return found


def held(rows: list[Row]) -> dict[str, Any]:
    """Whether the claim holds."""
    last, before = f"SPORT {ITERATIONS}", f"SPORT {ITERATIONS - 1}"
    found = {
        pair: together([row for row in rows if (row.left, row.right) == pair])
        for pair in (("SFT", last), (before, last))
    }
    better, stays = found["SFT", last], found[before, last]
    holds = min(better["low"], better["over_seeds"][0]) > 0 and min(stays["high"], stays["over_seeds"][1]) >= 0
    return {"holds": holds and len({row.seed for row in rows}) >= 5}


if __name__ == "__main__":
    sys.exit(main("sport", __doc__, run, held))
