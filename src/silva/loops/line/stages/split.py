"""Stage `split`: the surveyed tasks into parts that share no task and no first question."""

from __future__ import annotations

from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import part_file
from silva.train.data.dataset import DataSet, write_datasets
from silva.train.data.entries import read_entries
from silva.train.data.leak import leaks
from silva.train.data.split import split
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Split; write a data set of the expert's attempts for each part.

    Raises:
        UsageError: a part stays empty, the key is not known, or two parts share something.
    """
    wanted = loop.config.tasks
    reading = Lake.open(loop.lake, mode="read")
    entries = read_entries(reading, [str(loop.given("survey")["run"])], key=wanted.key)
    # Without `test` two parts are left, which `split` takes as they are.
    made = split(entries, wanted.shares, loop.config.seed)
    found = leaks(made)
    if found:
        raise UsageError(f"tasks.key {wanted.key}: {found[0]} ({len(found)} leaks); split with key: question")
    how = f"{loop.config.loop} {loop.config.line} key={wanted.key} seed={loop.config.seed}"
    sets = {part_file(loop, name): DataSet(part=name, entries=each.entries, made=how) for name, each in made.items()}
    write_datasets(sets, replace=True)
    ceiling = {name: _rate(each) for name, each in made.items()}
    return {"tasks": {name: len(each.entries) for name, each in made.items()}, "expert": ceiling}


def _rate(part: DataSet) -> float:
    return sum(entry.success is True for entry in part.entries) / len(part.entries)
