"""Which tasks a CoEvolve loop has at which time: those it began with, and those that have grown since.

train ─┬▶ taught by the expert (where a round is the expert's)
       └▶ `initial` ─▶ tasks of GRPO ◀─ accepted by the growths of earlier rounds, and approved where a person must
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from silva.lake import Lake
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage, seed_of
from silva.loops.line.head import part_file
from silva.loops.line.play import drawn, learnt, tasks_named
from silva.loops.roles import Born, born
from silva.train.data.dataset import read_dataset
from silva.tree import Task


def taught(loop: Loop[CoEvolveConfig]) -> list[str]:
    """The ids of the tasks on which the expert teaches; none where no round is the expert's."""
    ids = learnt(loop, ())
    if all(each.source == "policy" for each in loop.config.rounds):
        return []
    return drawn(ids, max(1, round(loop.config.taught * len(ids))), seed_of(loop.config.seed, "taught"))


def initial(loop: Loop[CoEvolveConfig], tags: Sequence[str] = ()) -> list[Task]:
    """The tasks that GRPO begins with.

    Raises:
        UsageError: none has one of the tags.
    """
    told = set(taught(loop))
    ids = [each for each in learnt(loop, tags) if each not in told]
    return tasks_named(loop, drawn(ids, loop.config.initial, seed_of(loop.config.seed, "initial")))


def grown(loop: Loop[CoEvolveConfig], before: int | None = None) -> list[tuple[Task, Born]]:
    """The tasks that have grown in the rounds before one (None: in all), in the order of the rounds."""
    found: list[tuple[Task, Born]] = []
    with Lake.open(loop.lake, mode="read") as lake:
        for number in loop.config.grows_after:
            said = loop.outputs(f"round-{number}.grow")
            if said is None or not said["run"] or (before is not None and number >= before):
                continue
            found += admitted(lake, said)
    return found


def admitted(lake: Lake, said: dict[str, Any]) -> list[tuple[Task, Born]]:
    """The tasks of one growth: those it accepted, and those that a person has approved since."""
    known = {task.id: (task, how) for task, how in born(lake, str(said["run"])) if how.verdict == "accepted"}
    return [known[each] for each in (*said["accepted"], *said["waiting"]) if each in known]


def present(loop: Loop[CoEvolveConfig], stage: Stage) -> list[Task]:
    """The tasks of GRPO when a stage runs: the initial ones with the round's tags, and all that have grown."""
    settings = loop.config.rounds[stage.round - 1]
    return [*initial(loop, settings.tags), *(task for task, _ in grown(loop, stage.round))]


def held_out(loop: Loop[CoEvolveConfig]) -> list[Task]:
    """The tasks of `dev` and `test`: nothing may be learnt on them."""
    parts = [part for part in ("dev", "test") if part in loop.config.tasks.shares]
    return tasks_named(loop, [entry.task_id for part in parts for entry in read_dataset(part_file(loop, part)).entries])


def run_of(loop: Loop[CoEvolveConfig], number: int) -> str:
    """The run in which the policy played in a round."""
    return str(loop.given(f"round-{number}.rollout")["run"])


def played(loop: Loop[CoEvolveConfig], last: int) -> list[str]:
    """The runs in which the policy played, up to a round."""
    own = [number for number, each in enumerate(loop.config.rounds, 1) if each.source == "policy" and number <= last]
    return [run_of(loop, number) for number in own if loop.outputs(f"round-{number}.rollout") is not None]
