"""From a lake to samples: the trajectories one asks for, tree by tree.

    trajectories ─▶ the last attempt of each that ran to its end ─▶ by tree ─▶ SampleReader ─▶ samples, in order

What a run's trajectories cannot give exactly is refused, or counted and left out, as the caller says; never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from silva.lake import Lake
from silva.train.sample import Sample, SampleError
from silva.train.samples import DEFAULT, SampleReader
from silva.train.stretch import Reading
from silva.tree import InexactTokensError, Status, Trajectory, Tree, groups, masked_nodes
from silva.tree.run import TOKENIZER


@dataclass(frozen=True, slots=True)
class Refused:
    """A trajectory that gives no sample, and why."""

    why: str


Given = list[Sample] | Refused
"""What one trajectory gives."""


class Read(Protocol):
    """How trajectories become samples: `each_in_turn`, or several readers at once (`silva.train.ray_samples`)."""

    def __call__(self, lake: Lake, trajectories: Sequence[Trajectory], reading: Reading) -> Iterator[Given]:
        """What each trajectory gives, in order; those of one tree stand together."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """What a lake gave. `samples` come by run, task, place in the group and segment, of `trajectories` trajectories;
    `failed` were left out because they failed or broke before their first turn, `superseded` because a later attempt
    took their place, and `inexact` because their tokens are not known: why, one line for each."""

    samples: tuple[Sample, ...]
    trajectories: int
    failed: int = 0
    superseded: int = 0
    inexact: tuple[str, ...] = ()


def each_with_reader(
    lake: Lake, trajectories: Sequence[Trajectory], reading: Reading
) -> Iterator[tuple[Trajectory, Tree, SampleReader]]:
    """Each trajectory with its tree and what reads it, in order; a tree is read once, and let go after its last.

    Raises:
        StoreError, UsageError: as `Lake.trees`.
    """
    open_trees: dict[str, tuple[Tree, SampleReader]] = {}
    left = Counter(each.tree_id for each in trajectories)
    trees = lake.trees(left)
    for each in trajectories:
        known = open_trees.pop(each.tree_id, None)
        if known is None:
            tree = next(trees)
            known = tree, SampleReader(tree, (), reading)
        left[each.tree_id] -= 1
        if left[each.tree_id]:
            open_trees[each.tree_id] = known
        yield each, *known


def each_in_turn(lake: Lake, trajectories: Sequence[Trajectory], reading: Reading) -> Iterator[Given]:
    """What each trajectory gives, in order; a tree is let go after its last."""
    for each, _, reader in each_with_reader(lake, trajectories, reading):
        yield read(reader, each)


def read(reader: SampleReader, trajectory: Trajectory) -> Given:
    """What one trajectory gives."""
    try:
        return reader.samples(trajectory)
    except (InexactTokensError, SampleError) as error:
        return Refused(str(error))


def usable(trajectories: Sequence[Trajectory], failed: bool) -> tuple[list[Trajectory], list[Trajectory]]:
    """The last attempt at each place, and those of them that samples are made of, in the order in which they are read;
    `failed` takes those that failed, too."""
    last = [member for group in groups(list(trajectories)) for member in group.trajectories if not member.superseded]
    taken = [each for each in last if each.leaf_id and (failed or each.outcome.status is not Status.FAILED)]
    return last, sorted(taken, key=lambda each: (each.run_id, each.task_id, each.index, each.id))


def refused(trajectory: Trajectory, why: str, inexact: Literal["refuse", "skip"]) -> str:
    """The line on a trajectory that gives no sample.

    Raises:
        SampleError: it says that line, where what is inexact is to be refused.
    """
    line = f"trajectory {trajectory.id[:12]} ({trajectory.task_id}, try {trajectory.index}): {why}"
    if inexact == "refuse":
        raise SampleError(f"{line} (or skip what is inexact)")
    return line


def collect(
    lake: Lake,
    trajectories: Sequence[Trajectory],
    reading: Reading = DEFAULT,
    *,
    inexact: Literal["refuse", "skip"] = "refuse",
    failed: bool = False,
    read: Read = each_in_turn,
) -> Collected:
    """The samples of trajectories of a lake. The lake's supervision is added to what `reading` masks.

    Args:
        lake: open to read or to write.
        trajectories: which.
        reading: what is asked of their walks.
        inexact: what becomes of a trajectory whose tokens or numbers cannot be used: `refuse` raises, `skip` leaves it
            out and tells why.
        failed: take those that failed, too; they have no reward.
        read: who reads them.

    Raises:
        SampleError: a trajectory cannot be used, and is to be refused; it is named, with the node.
        StoreError: the lake is damaged.
    """
    last, ended = usable(trajectories, failed)
    masked = masked_nodes(judged for run_id in runs_of(ended) for judged in lake.supervisions(run_id=run_id))
    reading = replace(reading, masked=reading.masked | masked)
    told = {name: run.summary.get(TOKENIZER) for name in runs_of(ended) if (run := lake.run(name)) is not None}
    samples: list[Sample] = []
    why: list[str] = []
    for each, given in zip(ended, read(lake, ended, reading), strict=True):
        if isinstance(given, Refused):
            why.append(refused(each, given.why, inexact))
            continue
        if tokenizer := told.get(each.run_id):
            for sample in given:
                sample.attributes[TOKENIZER] = tokenizer
        samples += given
    return Collected(
        samples=tuple(samples),
        trajectories=len(ended) - len(why),
        failed=len(last) - len(ended),
        superseded=len(trajectories) - len(last),
        inexact=tuple(why),
    )


def runs_of(trajectories: Iterable[Trajectory]) -> list[str]:
    """The runs that trajectories are of, each once."""
    return sorted({each.run_id for each in trajectories})
