"""A raw corpus: rows of a lake's runs or of files, as the JSON walks that a curation is given.

    sources ─▶ `silva.curate.rows.read` ─▶ turns (`silva.curate.turn`) ─▶ faults (`silva.curate.mask.rules`, and
      `blamed` where somebody in the lake said so) ─▶ walks
    a task that is held out? ─▶ its walks are left out, and counted

Imported sessions of coding agents, tables of conversations and a lake's own runs are read alike; where nobody has said
how a walk ended its `success` is None (a *wild* corpus).
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from silva.curate.mask.rules import rules
from silva.curate.rows import Row, read
from silva.curate.turn import Walk, read_walk
from silva.errors import UsageError
from silva.lake import Lake
from silva.tree import Node, Status, digest, masked_nodes

BLAMED = "blamed"
"""The fault of a turn that somebody in the lake (a person, `silva curate mask`) judged to carry no loss."""

MOST_WALKS = 20_000
MOST_BYTES = 256 << 20
"""Of the corpus as JSON: what a sandbox reads at once."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Walks for a curation, and the rows they were made of, by id. `left_out` walks were of held-out tasks; `notes`
    says what could not be read."""

    walks: tuple[dict[str, Any], ...]
    rows: Mapping[str, Row]
    left_out: int = 0
    notes: tuple[str, ...] = ()
    data: bytes = field(repr=False, default=b"")

    @property
    def digest(self) -> str:
        """Of all that a curation is given."""
        return digest("corpus", self.data)

    @property
    def turns(self) -> int:
        """Turns of all walks."""
        return sum(len(walk["turns"]) for walk in self.walks)


def read_corpus(
    sources: Sequence[str],
    *,
    lake: str | None = None,
    held_out: Iterable[str] = (),
    limit: int | None = None,
    achieved: Mapping[str, Sequence[tuple[str, int]]] | None = None,
) -> Corpus:
    """The corpus of some sources.

    Args:
        sources: runs, conditions or queries over the lake, or files of any format that is known.
        lake: where runs are.
        held_out: ids of tasks, and their words, that no curation may see.
        limit: the most walks of each source.
        achieved: by trajectory, what it brought about whatever was asked, and after which turn.

    Raises:
        UsageError: a source cannot be read, no walk is left, or the corpus is larger than a sandbox reads.
    """
    hidden = {_plain(each) for each in held_out}
    blamed = _Blamed(lake)
    rows: dict[str, Row] = {}
    walks: list[dict[str, Any]] = []
    notes: list[str] = []
    left_out = 0
    for source in sources:
        reading = read(source, lake=lake, limit=limit)
        for row in reading:
            if row.trajectory is not None and row.trajectory.superseded:
                continue
            walk = walk_of(row, achieved or {}, blamed.of(row))
            if not walk["turns"] or row.id in rows:
                continue
            if {_plain(str(walk["task"])), _plain(str(walk["words"]))} & hidden:
                left_out += 1
                continue
            rows[row.id] = row
            walks.append(walk)
            if len(walks) > MOST_WALKS:
                raise UsageError(f"{source}: more than {MOST_WALKS:,} walks; name fewer, or give a limit")
        notes += reading.notes
    if not walks:
        held = f" ({left_out} are of held-out tasks)" if left_out else ""
        raise UsageError(f"corpus {', '.join(sources)}: holds no walk with a turn{held}; give runs or files with turns")
    data = json.dumps(walks, sort_keys=True, ensure_ascii=False).encode()
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"corpus {', '.join(sources)}: {len(data) >> 20} MB; a curation reads {MOST_BYTES >> 20} at most"
        )
    return Corpus(walks=tuple(walks), rows=rows, left_out=left_out, notes=tuple(notes), data=data)


def asked(nodes: Sequence[Node]) -> str:
    """What a walk was asked to do: the last that was said before its first turn and is no instruction to all, be it by
    the environment or, in an imported session, by a person."""
    walk = read_walk(nodes)
    before = (*walk.opening, *(walk.turns[0].words if walk.turns else ()))
    said = [node.message.text for node in before if node.message.role == "user"]
    return said[-1] if said else walk.task


class _Blamed:
    """The nodes of a lake's runs that somebody judged to carry no loss; a run is asked for once."""

    def __init__(self, lake: str | None) -> None:
        self._lake = lake
        self._known: dict[str, frozenset[str]] = {}

    def of(self, row: Row) -> frozenset[str]:
        if self._lake is None or row.trajectory is None or row.source != row.trajectory.run_id:
            return frozenset()  # of a file
        if row.source not in self._known:
            with Lake.open(self._lake, mode="read") as lake:
                self._known[row.source] = masked_nodes(lake.supervisions(run_id=row.source))
        return self._known[row.source]


def walk_of(
    row: Row,
    achieved: Mapping[str, Sequence[tuple[str, int]]] = MappingProxyType({}),
    blamed: Container[str] = frozenset(),
) -> dict[str, Any]:
    """A row as the walk that a curation is given; `achieved` as in `read_corpus`, `blamed` the nodes whose turns have
    the fault of that name."""
    trajectory = row.trajectory
    outcome = trajectory.outcome if trajectory is not None else None
    walk = read_walk(row.nodes, outcome)
    faults = _faults(walk)
    success = outcome.success if outcome is not None else None
    if success is None and isinstance(row.label, bool):
        success = row.label
    made: dict[str, Any] = {
        "id": row.id,
        "task": trajectory.task_id if trajectory is not None else row.id,
        "env": trajectory.env if trajectory is not None else "",
        "words": asked(row.nodes),
        "success": success,
        "ended": outcome is None or outcome.status is Status.COMPLETED,
        "turns": [
            {
                "n": turn.number,
                "says": turn.action.message.text,
                "calls": [[call.name, call.arguments] for call in turn.calls],
                "saw": turn.observation,
                "faults": faults.get(turn.number, []) + ([BLAMED] if turn.action.id in blamed else []),
            }
            for turn in walk.turns
        ],
    }
    if row.id in achieved:
        made["achieved"] = [list(each) for each in achieved[row.id]]
    return made


def _faults(walk: Walk) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for rule in rules():
        for finding in rule.find(walk):
            found.setdefault(finding.turn.number, []).append(rule.name)
    return found


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
