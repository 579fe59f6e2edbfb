"""APOLLO's ablation in small: does it help that a person speaks while data are played, and that bad turns are masked?

    python benchmarks/learning/apollo.py --env babyai --policy tiny --seeds 0 1 2

A scripted person (`coach.py`) reads along and, at a turn that went wrong, has the attempt go back to before it. The policy first sees
expert episodes in which the expert slips and a coach corrects it in words. Then it plays tasks it has not seen, with the coach, without, and
with somebody who goes back by chance (the control, which must not help); attempts that succeeded are masked (the rules of `silva curate
mask`, and the turns that the coach called bad), made into rows (`silva.train.rows`) and trained on, as many steps in each case. All are
measured on held-out tasks at temperature 1, where nobody speaks.

Why going back, and not words: of the words said to such a policy 38 % are followed, which is chance among three actions, and with them it
succeeds no more often than without; what it learns from such play is what it learns alone.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from coach import Back, ByChance, Coach
from experiment import TEMPERATURE, Experiment
from runner import Seed, main
from student import tiny
from table import Row, together

from silva.curate.mask.config import MaskConfig
from silva.curate.mask.masking import mask
from silva.lake import Lake
from silva.rollout.conversations import Conversation, shown
from silva.rollout.run import Hooks
from silva.train.rows import Copies, Rows, read_rows
from silva.tree import Task

SLIPS = 0.4
BEGIN_TASKS = 96
PLAYED = 60
BEGIN = {"batch": 8, "rate": 3e-3, "epochs": 10}
GROUP = 1
"""Attempts at each task that the policy plays."""
STEPS = 40
FIT = {"batch": 8, "rate": 1e-3}
ATTEMPTS = 3
"""At each held-out task."""


def run(seed: Seed) -> list[Row]:
    """One seed."""
    experiment = seed.experiment
    begin, left = experiment.learn[:BEGIN_TASKS], experiment.learn[BEGIN_TASKS : BEGIN_TASKS + PLAYED]
    student = tiny(experiment.folder / "policy", _heard(experiment, begin), seed.number)
    play(experiment, "begin", begin, coach=Coach, policy="expert", renderer=student.base, slips=SLIPS)
    taught = experiment.fit("taught", student, rows(experiment, "begin", masking=True).copied(Copies()), SFT, **BEGIN)
    ready = experiment.measure(taught, ATTEMPTS)
    data: dict[str, Rows] = {}
    found: dict[str, dict[str, float]] = {}
    more: dict[str, float] = {"taught": sum(ready.values()) / len(ready)}
    for run_name, coach in (("alone", None), ("guided", Back), ("by_chance", ByChance)):
        model = taught.model(experiment.lake, experiment.folder / "merged")
        said, succeeded = play(experiment, run_name, left, GROUP, coach, model=model, sampling=SAMPLING)
        more |= {f"corrections_{run_name}": said, f"succeeded_{run_name}": succeeded}
        data[run_name] = rows(experiment, run_name, masking=True)
    data["unmasked"] = rows(experiment, "guided", masking=False)
    for name, made in data.items():
        more[f"loss_kept_{name}"] = 1 - made.masked / made.drawn
        more[f"rows_{name}"] = len(made.rows)
        fitted = experiment.fit(
            f"on-{name}", taught, made.copied(Copies()), SFT, groups=STEPS * int(FIT["batch"]), **FIT
        )
        found[name] = experiment.measure(fitted, ATTEMPTS)
    number = seed.number
    return [
        Row(seed=number, left="no guidance", right="guidance", before=found["alone"], after=found["guided"], more=more),
        Row(
            seed=number, left="no guidance", right="by chance", before=found["alone"], after=found["by_chance"], more={}
        ),
        Row(seed=number, left="no masking", right="masking", before=found["unmasked"], after=found["guided"], more={}),
        Row(seed=number, left="before", right="guidance and masking", before=ready, after=found["guided"], more={}),
    ]


SFT = {"name": "sft"}
SAMPLING = {"temperature": TEMPERATURE}


def play(
    experiment: Experiment,
    name: str,
    tasks: Sequence[Task],
    group: int = 1,
    coach: type[Coach] | None = None,
    **more: object,
) -> tuple[int, float]:
    """Play a run; how often the coach corrected, and the share of successes."""
    person = coach.beside(str(experiment.lake), name) if coach else None
    played = experiment.play(name, tasks, group, hooks=Hooks(guidance=person), **more)
    counted = [each for each in played if not each.superseded]
    return person.said if person else 0, sum(bool(each.outcome.success) for each in counted) / len(counted)


def rows(experiment: Experiment, name: str, masking: bool) -> Rows:
    """The rows of a run's successes."""
    if masking:
        asyncio.run(mask(MaskConfig(lake=str(experiment.lake), run=(name,))))
    with Lake.open(str(experiment.lake), mode="read") as lake:
        good = [each for each in lake.trajectories(run_id=name) if each.outcome.success]
        return read_rows(lake, good, masking=masking)


def _heard(experiment: Experiment, tasks: Sequence[Task]) -> list[Conversation]:
    """What is said where a coach speaks: the policy's words are read from it."""
    play(experiment, "heard", tasks, coach=Coach, policy="expert", slips=SLIPS)
    form = experiment.setting.play["agent"]
    with Lake.open(str(experiment.lake), mode="read") as lake:
        return [shown(lake, each, form) for each in lake.trajectories(run_id="heard") if each.outcome.failure is None]


def held(rows: list[Row]) -> dict[str, Any]:
    """Guidance and masking each gain, and going back by chance does not."""
    pairs = dict.fromkeys((row.left, row.right) for row in rows)
    found = {pair: together([row for row in rows if (row.left, row.right) == pair]) for pair in pairs}
    control = found.pop(("no guidance", "by chance"))
    return {"holds": all(each["low"] > 0 for each in found.values()) and control["low"] <= 0}


if __name__ == "__main__":
    sys.exit(main("apollo", __doc__, run, held))
