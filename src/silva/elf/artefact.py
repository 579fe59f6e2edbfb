"""What flows from one step of a plan to the next: typed, frozen, kept by the digest of its content.

A tool's types in and out are these classes, so that a plan can be checked before anything runs. Each can say how much
it holds (`len`) and what a report shows of it (`shown`: Markdown).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from silva.curate.pairs import StepPair
from silva.curate.rows import Row
from silva.train.data.dataset import DataSet
from silva.tree import Json, Record, digest

SHOWN = 20
"""Rows of a table that a report shows."""
_WIDE = 80
"""Characters of a cell that a report shows."""


class Artefact(Record, frozen=True, kw_only=True, tag_field="artefact"):
    """A result of a step. `notes` are lines that a reader must not miss: what dropped out, and why."""

    noun: ClassVar[str] = "artefact"

    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return 1

    def shown(self) -> str:
        """What a report shows of it, in Markdown."""
        return ""


class Rows(Artefact, frozen=True, kw_only=True):
    """Things to be looked at, of a run, a file or a query: see `silva.curate.rows`."""

    noun: ClassVar[str] = "rows"

    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def shown(self) -> str:
        head = [
            {"id": each.id[:24], "kind": str(each.kind), "asked": each.prompt, "said": each.reply or each.text}
            for each in self.rows[:SHOWN]
        ]
        return f"{len(self)} rows.\n\n{grid(head, len(self))}"


class Table(Artefact, frozen=True, kw_only=True):
    """Plain objects: the answer to a question."""

    noun: ClassVar[str] = "table"

    rows: tuple[Json, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def shown(self) -> str:
        return grid(self.rows, len(self))


class Trajectories(Artefact, frozen=True, kw_only=True):
    """A data set: trajectories of a lake by name (`silva.train.data`)."""

    noun: ClassVar[str] = "trajectories"

    dataset: DataSet

    def __len__(self) -> int:
        return len(self.dataset)

    def shown(self) -> str:
        head = [
            {
                "env": e.env,
                "task": e.task_id,
                "run": e.run_id,
                "score": e.score,
                "success": e.success,
                "copies": e.copies,
            }
            for e in self.dataset.entries[:SHOWN]
        ]
        return f"{len(self)} trajectories.\n\n{grid(head, len(self.dataset.entries))}"


class Parts(Artefact, frozen=True, kw_only=True):
    """Data sets that share no task, by the name of their part."""

    noun: ClassVar[str] = "parts"

    parts: dict[str, DataSet]

    def __len__(self) -> int:
        return sum(len(each) for each in self.parts.values())

    def shown(self) -> str:
        return grid([{"part": name, "trajectories": len(each)} for name, each in self.parts.items()], len(self.parts))


class Pairs(Artefact, frozen=True, kw_only=True):
    """Two actions behind one node, of which one is known to be better."""

    noun: ClassVar[str] = "pairs"

    pairs: tuple[StepPair, ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def shown(self) -> str:
        head = [{"task": each.task_id, "gap": each.gap, "by": each.by} for each in self.pairs[:SHOWN]]
        return f"{len(self)} pairs.\n\n{grid(head, len(self))}"


class Figures(Artefact, frozen=True, kw_only=True):
    """Named figures of something, and what a report says of them beyond the numbers (`text`, Markdown)."""

    noun: ClassVar[str] = "figures"

    figures: Json
    text: str = ""

    def shown(self) -> str:
        plain = [{"figure": key, "value": value} for key, value in self.figures.items() if _is_plain(value)]
        tables = [
            f"**{key}**\n\n{grid(value, len(value))}"
            for key, value in self.figures.items()
            if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        return "\n\n".join(filter(None, (grid(plain, len(plain)) if plain else "", *tables, self.text)))


class Findings(Artefact, frozen=True, kw_only=True):
    """What an audit found in rows. `found` are findings as plain objects, each with the `row` it is in; `text` is the
    audit's own report."""

    noun: ClassVar[str] = "findings"

    found: tuple[Json, ...]
    figures: Json = msgspec.field(default_factory=dict[str, Any])
    text: str = ""

    def __len__(self) -> int:
        return len(self.found)

    def shown(self) -> str:
        return self.text or f"{len(self)} findings.\n\n{grid(self.found[:SHOWN], len(self))}"


class Scores(Artefact, frozen=True, kw_only=True):
    """One score a row, by the row's id; None where a row could not be scored (`notes` say why). `worth` says the same
    so that more is better."""

    noun: ClassVar[str] = "scores"

    scorer: str
    values: dict[str, float | None]
    worth: dict[str, float | None] = msgspec.field(default_factory=dict[str, float | None])

    def __len__(self) -> int:
        return len(self.values)

    def shown(self) -> str:
        known = sorted(value for value in self.values.values() if value is not None)
        if not known:
            return f"No row of {len(self.values)} could be scored by {self.scorer}."
        told = {"scorer": self.scorer, "scored": len(known), "not scored": len(self.values) - len(known)}
        told |= {"least": known[0], "median": known[len(known) // 2], "most": known[-1]}
        return grid([told], 1)


class Skills(Artefact, frozen=True, kw_only=True):
    """Skills that were distilled from trajectories: the bank's folder, and each skill in short."""

    noun: ClassVar[str] = "skills"

    bank: str
    skills: tuple[Json, ...]
    text: str = ""

    def __len__(self) -> int:
        return len(self.skills)

    def shown(self) -> str:
        return "\n\n".join(
            filter(None, (f"{len(self)} skills in {self.bank}.", grid(self.skills, len(self)), self.text))
        )


class Result(Artefact, frozen=True, kw_only=True):
    """What a tool of science gives: `status` is success, partial_success or error."""

    noun: ClassVar[str] = "result"

    status: str
    result: Json
    metadata: Json = msgspec.field(default_factory=dict[str, Any])
    artifacts: tuple[str, ...] = ()

    def shown(self) -> str:
        plain = [{"figure": key, "value": value} for key, value in self.result.items() if not isinstance(value, dict)]
        parts = [f"Status: {self.status}.", grid(plain, len(plain)) if plain else ""]
        for key, value in self.result.items():
            if isinstance(value, dict):
                rows = [{"figure": name, "value": each} for name, each in value.items()]
                parts.append(f"### {_cell(key)}\n\n{grid(rows, len(rows))}")
        return "\n\n".join(filter(None, parts))


class File(Artefact, frozen=True, kw_only=True):
    """A file that a step wrote. `sha256` is of its bytes, `count` of what it holds (rows, trajectories, samples)."""

    noun: ClassVar[str] = "file"

    path: str
    format: str
    count: int
    sha256: str = ""

    def __len__(self) -> int:
        return self.count

    def shown(self) -> str:
        return f"`{self.path}` ({self.format}, {self.count} entries, sha256 {self.sha256[:16]})"


AnyArtefact = Rows | Table | Trajectories | Parts | Pairs | Figures | Findings | Scores | Skills | Result | File
KINDS: dict[str, type[Artefact]] = {
    kind.noun: kind
    for kind in (Rows, Table, Trajectories, Parts, Pairs, Figures, Findings, Scores, Skills, Result, File)
}
"""Every type that flows between steps, by the word that a card calls it."""

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(AnyArtefact)


def encoded(artefact: Artefact) -> bytes:
    """The artefact as bytes: equal for equal content."""
    return _encoder.encode(artefact)


def decoded(data: bytes) -> Artefact:
    """The artefact that `encoded` wrote. Raises msgspec.DecodeError."""
    return _decoder.decode(data)


def content(data: bytes) -> str:
    """The name that an artefact is kept by."""
    return digest("artefact", data)


def grid(rows: Sequence[Json], count: int) -> str:
    """A Markdown table of the first rows; what more there is, is told."""
    if not rows:
        return "(none)"
    names = list(dict.fromkeys(name for row in rows[:SHOWN] for name in row))[:12]
    lines = [f"| {' | '.join(_cell(name) for name in names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(_cell(row.get(name)) for name in names)} |" for row in rows[:SHOWN]]
    more = count - min(len(rows), SHOWN)
    return "\n".join(lines) + (f"\n\n… and {more} more." if more > 0 else "")


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else " ".join(str(value).split())
    text = text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"
    return "".join(f"\\{letter}" if letter in "|\\`*_<[]#" else letter for letter in text)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
