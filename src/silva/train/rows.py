"""Rows for supervised training on long runs (APOLLO, sections 3.4 and 4.1): masked, with the ids the model saw.

    trajectory ─┬▶ its walk, cut where the context was made anew ─▶ rows of *actions*: before each summary, and the last
                └▶ its summaries ─▶ rows of a *summary*: what was summed up is context, the summary alone carries loss
    rows ─▶ without loss? left out ─▶ as many copies as its kind has

An action carries loss where supervision keeps it, and in one row: a turn that stays in the context behind a summary is
context there. A run of several summaries has one row of a summary less than rows of actions; the paper counts the
former 10 times and the latter 7 times so that both are learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from silva.lake import Lake
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.seen import summaries_of
from silva.rollout.summary import facts, in_force, shown_nodes
from silva.train.lake_samples import each_with_reader, refused, runs_of, usable
from silva.train.sample import Sample, SampleError
from silva.train.samples import SampleReader, samples
from silva.train.stretch import Reading
from silva.tree import Author, InexactTokensError, Node, Supervision, Trajectory, Tree, masked_nodes

Kind = Literal["actions", "summary"]


@dataclass(frozen=True, kw_only=True)
class Copies:
    """How often a row counts, by its kind; 0 leaves the kind out. The paper's are 7 and 10."""

    actions: int = 1
    summary: int = 1

    def of(self, kind: Kind) -> int:
        """Copies of a row of that kind."""
        return self.actions if kind == "actions" else self.summary


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row: its sample, and what it was made of. `nodes` are what the model was shown and drew, in order, with what
    followed the last action; `turns` the number of each that is an action; `said` what was said of them. `left`, on a
    trajectory's last row of actions, is what was said on earlier attempts at its place, which were left or failed."""

    kind: Kind
    sample: Sample
    nodes: tuple[Node, ...]
    turns: dict[str, int]
    said: tuple[Supervision, ...] = ()
    left: tuple[Supervision, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a lake gave. `failed` trajectories were left out because they failed, `superseded` because a later attempt
    took their place, `inexact` because their tokens are not known (why, a line each); `without_loss` counts rows whose
    actions are all masked; `masked` the drawn ids that carry no loss in any row, `drawn` all of them."""

    rows: tuple[Row, ...]
    trajectories: int
    failed: int = 0
    superseded: int = 0
    inexact: tuple[str, ...] = ()
    without_loss: int = 0
    drawn: int = 0
    masked: int = 0

    def copied(self, copies: Copies) -> list[Sample]:
        """The samples, each as often as its kind counts; the copies of one row stand together."""
        return [
            replace(row.sample, attributes={**row.sample.attributes, "row": row.kind, "copy": copy})
            for row in self.rows
            for copy in range(copies.of(row.kind))
        ]


def read_rows(
    lake: Lake,
    trajectories: Sequence[Trajectory],
    *,
    masking: bool = True,
    takeovers: bool = False,
    inexact: Literal["refuse", "skip"] = "refuse",
    failed: bool = False,
    models: frozenset[str] | None = None,
) -> Rows:
    """The rows of trajectories of a lake.

    Args:
        lake: open to read or to write.
        trajectories: which; of attempts at one place the last counts.
        masking: False keeps every action, whatever was said of it (the paper's ablation).
        takeovers: actions that people took in the policy's place carry loss, too.
        inexact: what becomes of a trajectory whose tokens are not known: `refuse` raises, `skip` tells why.
        failed: take those that failed, too.
        models: only their turns are the policy's; None for all.

    Raises:
        SampleError: a trajectory cannot be used, and is to be refused; it is named, with the node.
        StoreError: the lake is damaged.
    """
    last, taken = usable(trajectories, failed)
    said: dict[str, list[Supervision]] = {}
    for run in runs_of(taken):
        for one in lake.supervisions(run_id=run):
            said.setdefault(one.node_id, []).append(one)
    masked = masked_nodes(one for several in said.values() for one in several) if masking else frozenset[str]()
    reading = Reading(logprobs="optional", masked=masked, models=models, takeovers=takeovers)
    earlier: dict[tuple[str, int], list[str]] = {}
    for each in trajectories:
        if each.superseded and each.leaf_id:
            earlier.setdefault((each.tree_id, each.index), []).append(each.leaf_id)
    found: list[Row] = []
    why: list[str] = []
    summed: set[str] = set()
    for trajectory, tree, reader in each_with_reader(lake, taken, reading):
        try:
            left = earlier.get((trajectory.tree_id, trajectory.index), [])
            given = list(_rows(tree, reader, trajectory, reading, said, left))
            fresh = [row for row in given if row.kind == "actions" or row.nodes[-1].id not in summed]
            summed.update(row.nodes[-1].id for row in fresh if row.kind == "summary")
            found += fresh
        except (InexactTokensError, SampleError) as error:
            why.append(refused(trajectory, str(error), inexact))
    kept = [row for row in found if row.sample.mask.any()]
    drawn = [(row.sample, action) for row in found for action in row.sample.actions if _is_here(row, action.node_id)]
    return Rows(
        rows=tuple(kept),
        trajectories=len(taken) - len(why),
        failed=len(last) - len(taken),
        superseded=len(trajectories) - len(last),
        inexact=tuple(why),
        without_loss=len(found) - len(kept),
        drawn=sum(action.stop - action.start for _, action in drawn),
        masked=sum(int((~sample.mask[action.start : action.stop]).sum()) for sample, action in drawn),
    )


def _is_here(row: Row, node_id: str) -> bool:
    """Whether a row is the one in which an action would carry loss."""
    return row.kind == "actions" or row.sample.actions[-1].node_id == node_id


def _rows(
    tree: Tree,
    reader: SampleReader,
    trajectory: Trajectory,
    reading: Reading,
    said: dict[str, list[Supervision]],
    left: Sequence[str],
) -> Iterator[Row]:
    assert trajectory.leaf_id is not None
    walk = list(tree.walk(trajectory.leaf_id))
    on_walk = {node.id: place for place, node in enumerate(walk)}
    made = summaries_of(tree, trajectory, walk)
    numbers = _numbers(walk)

    def row(kind: Kind, sample: Sample, nodes: Sequence[Node]) -> Row:
        about = tuple(one for node in nodes for one in said.get(node.id, ()))
        return Row(kind=kind, sample=sample, nodes=tuple(nodes), turns=numbers, said=about)

    beside = {node.id: node for leaf in left for node in tree.walk(leaf) if node.id not in on_walk}
    elsewhere = sorted((one for name in beside for one in said.get(name, ())), key=lambda one: one.at)
    written = reader.samples(trajectory)
    for number, sample in enumerate(written):
        end = sample.actions[-1].node_id
        if end not in on_walk:  # a walk beside the main one: a sub-agent of a program
            yield row("actions", sample, tree.walk(end))
            continue
        place = on_walk[end]
        shown = shown_nodes(walk[: place + 1], in_force(walk[:place], made))
        last = number == len(written) - 1
        made_here = row("actions", sample, (*shown, *(walk[place + 1 :] if last else ())))
        yield replace(made_here, left=tuple(elsewhere)) if last else made_here
    for at, node in made.items():
        told = facts(node)
        if told is None or told.failed:
            continue
        before = list(tree.walk(node.id))
        hidden = {each.id for each in before if takes_turn(each)}
        ours = msgspec.structs.replace(node, author=Author.POLICY)
        alone = samples([*before[:-1], ours], trajectory, (), replace(reading, masked=reading.masked | hidden))[-1]
        yield row("summary", alone, (*shown_nodes(before[:-1], in_force(walk[: on_walk[at]], made)), node))


def _numbers(walk: Sequence[Node]) -> dict[str, int]:
    taken = [node.id for node in walk if takes_turn(node)]
    return {node_id: number for number, node_id in enumerate(taken, start=1)}
