"""The loop's raw corpus, read the same whenever it is asked for: sources, and the runs that it played itself."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.curation.corpus import Corpus, read_corpus
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.kernel.loop import Loop
from silva.loops.line.head import part_file
from silva.loops.line.play import tasks_named
from silva.train.data.dataset import read_dataset


def of_part(loop: Loop[CurateEvoConfig], part: str) -> list[str]:
    """The ids of a part's tasks, each once."""
    if part not in loop.config.tasks.shares:
        return []
    return list(dict.fromkeys(entry.task_id for entry in read_dataset(part_file(loop, part)).entries))


def held_out(loop: Loop[CurateEvoConfig]) -> frozenset[str]:
    """Ids and words of the tasks of `dev` and `test`, but for words that a task of `train` has, too."""
    hidden = [*of_part(loop, "dev"), *of_part(loop, "test")]
    shown = {task.instruction for task in tasks_named(loop, of_part(loop, "train"))}
    words = {task.instruction for task in tasks_named(loop, hidden)} - shown - {""}
    return frozenset({*hidden, *words})


def corpus(
    loop: Loop[CurateEvoConfig],
    runs: Sequence[str] | None = None,
    achieved: dict[str, list[tuple[str, int]]] | None = None,
) -> Corpus:
    """The corpus.

    Args:
        loop: whose.
        runs: that it played; those that its stage `raw` says where left out, with what they brought about.
        achieved: what walks of these runs brought about.

    Raises:
        UsageError: nothing can be read.
    """
    config = loop.config.raw
    said = loop.given("raw") if runs is None else {"runs": runs, "achieved": achieved or {}}
    return read_corpus(
        [*config.sources, *said["runs"]],
        lake=loop.lake,
        held_out=held_out(loop),
        limit=config.limit,
        achieved=said["achieved"],
    )
