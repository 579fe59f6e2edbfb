"""APOLLO in small: does it help that a person guides while data are played, and that bad turns are masked?

    python benchmarks/learning/apollo.py --env babyai-acts --policy tiny --seeds 20 21 22 23 24

A policy from nothing is taught by the expert to walk to things, and then plays tasks that want what it has never done,
doors to open and things to pick up: alone, with a person (`examples/apollo/coach.yaml`: says what to try, calls wrong
turns bad, takes over at every second turn that would go wrong), and with somebody who does just the same and knows the
way of another task (the control, which must not help). Attempts that succeeded are masked (the rules of `silva curate
mask`, and the turns that the person called bad), made into rows (`silva.train.rows`) with loss on what the person took,
and trained on, as many steps in each case. Who never succeeded has nothing to learn from. All are measured on held-out
tasks of the second kind, where nobody speaks.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiment import LOST, Experiment
from runner import Seed, main
from student import Student, tiny
from table import Row, together

from silva.curate.mask.config import MaskConfig
from silva.curate.mask.masking import mask
from silva.lake import Lake
from silva.loops.apollo.script import read_script
from silva.loops.apollo.speaking import ScriptedMailroom
from silva.rollout.run import Hooks
from silva.train.rows import Copies, Rows, read_rows
from silva.tree import Author, Message, Task, digest

PERSON = Path(__file__).parents[2] / "examples" / "apollo" / "coach.yaml"
BEGIN_TASKS = 64
BEGIN = {"batch": 8, "rate": 3e-3, "epochs": 10}
PLAYED = 144
"""Tasks that the policy plays, each once."""
WORDS = 24
"""Tasks of the second kind whose words the tokenizer hears."""
STEPS = 80
FIT = {"batch": 8, "rate": 1e-3}
CONTEXT = 2048
"""Ids that the policy reads."""
COPIES = Copies(actions=7, summary=10)
SFT = {"name": "sft"}


def run(seed: Seed) -> list[Row]:
    """One seed."""
    started = time.monotonic()
    experiment, number = seed.experiment, seed.number
    begin, left = experiment.first(BEGIN_TASKS), experiment.learn[:PLAYED]
    experiment.play("heard", [*begin, *left[:WORDS]], policy="expert")
    student = tiny(experiment.folder / "policy", experiment.conversations("heard"), number, CONTEXT)
    experiment.play("begin", begin, policy="expert", renderer=student.base)
    taught = experiment.fit("taught", student, rows(experiment, "begin", masking=True).copied(Copies()), SFT, **BEGIN)
    before = experiment.measure(taught, 1, temperature=0.0)
    model = taught.model(experiment.lake, experiment.folder / "merged")
    more: dict[str, float] = {}
    for name, person in (("alone", None), ("guided", ScriptedMailroom), ("shuffled", Shuffled)):
        more |= play(experiment, name, left, student, model, person)
    data = {name: rows(experiment, name, masking=True) for name in ("alone", "guided", "shuffled")}
    data["unmasked"] = rows(experiment, "guided", masking=False)
    after: dict[str, dict[str, float]] = {}
    for name, made in data.items():
        more |= {f"rows_{name}": len(made.rows), f"masked_{name}": made.masked / max(1, made.drawn)}
        fitted = taught  # one that never succeeded has nothing to learn from
        if made.rows:
            groups = STEPS * int(FIT["batch"])
            fitted = experiment.fit(f"on-{name}", taught, made.copied(COPIES), SFT, groups=groups, **FIT)
        after[name] = experiment.measure(fitted, 1, temperature=0.0)
    more["minutes"] = (time.monotonic() - started) / 60

    def row(left: str, right: str, old: dict[str, float], new: dict[str, float], **said: float) -> Row:
        return Row(seed=number, left=left, right=right, before=old, after=new, more=said)

    return [
        row("no guidance", "guidance", after["alone"], after["guided"], **more),
        row("no masking", "masking", after["unmasked"], after["guided"]),
        row("before", "guidance and masking", before, after["guided"]),
        row("shuffled guidance", "guidance", after["shuffled"], after["guided"]),
        row("before", "shuffled guidance", before, after["shuffled"]),
    ]


class Shuffled(ScriptedMailroom):
    """The same person, who takes what was right in another task for what is right here. The control: it must not help."""

    others: Sequence[Message] = ()

    def advise(self, trajectory_id: str, turn: int, action: Message) -> None:
        """Tell the person what the expert did somewhere else."""
        place = int(digest("shuffled", trajectory_id, str(turn))[:8], 16) % len(self.others)
        super().advise(trajectory_id, turn, self.others[place])


def play(
    experiment: Experiment,
    name: str,
    tasks: Sequence[Task],
    student: Student,
    model: str,
    person: type[ScriptedMailroom] | None,
) -> dict[str, float]:
    """Play a run, with a person where one is given: what came of it."""
    hooks = Hooks(retry=LOST)
    more: dict[str, Any] = {}
    if person is not None:
        room = person.scripted(read_script(PERSON), str(experiment.lake), name, resume=experiment.begun(name))
        if isinstance(room, Shuffled):
            with Lake.open(str(experiment.lake), mode="read") as lake:
                room.others = [n.message for n in lake.nodes(run_id="begin") if n.author is Author.POLICY]
        hooks.guidance = room
        more["guidance"] = {"approve": "all", "renderer": student.base}
    played = experiment.play(name, tasks, hooks=hooks, model=model, sampling={"temperature": 1.0}, **more)
    counted = [each for each in played if not each.superseded]
    with Lake.open(str(experiment.lake), mode="read") as lake:
        nodes = list(lake.nodes(run_id=name))
    taken = sum(node.author is Author.PERSON and node.message.role == "assistant" for node in nodes)
    return {
        f"succeeded_{name}": sum(bool(each.outcome.success) for each in counted) / len(counted),
        f"turns_{name}": sum(each.turns for each in counted),
        f"taken_{name}": taken,
        f"words_{name}": sum(node.author is Author.PERSON for node in nodes) - taken,
        f"summaries_{name}": sum(node.author is Author.SUMMARISER for node in nodes),
    }


def rows(experiment: Experiment, name: str, masking: bool) -> Rows:
    """The rows of a run's successes."""
    if masking:
        asyncio.run(mask(MaskConfig(lake=str(experiment.lake), run=(name,))))
    with Lake.open(str(experiment.lake), mode="read") as lake:
        good = [each for each in lake.trajectories(run_id=name) if each.outcome.success]
        return read_rows(lake, good, masking=masking, takeovers=True)


def held(rows: list[Row]) -> dict[str, Any]:
    """Guidance gains, over playing alone, over before and over somebody who only seems to know; he gains nothing."""
    pairs = dict.fromkeys((row.left, row.right) for row in rows)
    found = {pair: together([row for row in rows if (row.left, row.right) == pair]) for pair in pairs}
    control = found.pop(("before", "shuffled guidance"))
    del found["no masking", "masking"]  # told, and no part of the claim
    gains = all(min(each["low"], each["over_seeds"][0]) > 0 for each in found.values())
    return {"holds": gains and control["low"] <= 0}


if __name__ == "__main__":
    sys.exit(main("apollo", __doc__, run, held))
