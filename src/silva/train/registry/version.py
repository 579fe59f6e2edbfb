"""A policy version: weights under a name, what they came from, and what is known of them. It never changes.

    LINE-0  the base itself        LINE-1, LINE-2, …  adapters of it, or whole weights of the same shapes

`LINE-NUMBER` is what a gateway serves it as and what nodes carry, so the number, which measures staleness, can be read
from a node's version. What became of a version (promoted, rolled back, rejected) is not in it: that is told by events.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Literal, TypeAlias

import msgspec

from silva.errors import UsageError
from silva.tree import Json, Lineage, Record

Kind: TypeAlias = Literal["base", "adapter", "full"]
"""`base`: the plain weights a line began with, held elsewhere. `adapter`: a LoRA on them. `full`: whole weights."""

Status: TypeAlias = Literal["candidate", "promoted", "rolled back", "rejected"]

_LINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
_NAME = re.compile(rf"({_LINE.pattern})-(\d{{1,9}})", re.ASCII)


class Base(Record, frozen=True, kw_only=True):
    """The weights a line grows from. `digest` is that of the weight files (`WeightsFolder.digest`), `tensors` the blob
    that lists their names and shapes; `label` is what the bundled model calls itself in its replies."""

    name: str
    digest: str
    tensors: str

    @property
    def label(self) -> str:
        """`NAME@DIGEST`."""
        return f"{self.name}@{self.digest}"


class StoredFile(Record, frozen=True, kw_only=True):
    """One file of a version: its name in the folder, the blob that holds it (sha256), its size in bytes."""

    name: str
    blob: str
    size: int

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w-][\w.-]*", self.name):
            raise ValueError(f"{self.name!r} is no plain file name")


class Data(Record, frozen=True, kw_only=True):
    """What a version was trained on: runs by name, the filters that chose among their rows, the tagged version of the
    lake they were read from, and the sha256 of sample files."""

    runs: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    lake_version: str = ""
    samples: tuple[str, ...] = ()


class PolicyVersion(Record, frozen=True, kw_only=True):
    """One version of one line. `parent` is the name of the version it was trained from, "" for number 0. `metrics` is
    JSON. `at` is Unix seconds, `by` who registered it. `key` is the caller's own name for it: registering the same key
    again gives the same version."""

    line: str
    number: int
    kind: Kind
    base: Base
    files: tuple[StoredFile, ...] = ()
    parent: str = ""
    data: Data = Data()
    lineage: Lineage = Lineage()
    metrics: Json = msgspec.field(default_factory=dict[str, Any])
    note: str = ""
    by: str = ""
    at: float = 0.0
    key: str = ""

    @property
    def name(self) -> str:
        """`LINE-NUMBER`."""
        return f"{self.line}-{self.number}"

    @property
    def digest(self) -> str:
        """Names the weights: two versions of equal files have the same one. 32 hex digits; the base's own for
        `base`."""
        if self.kind == "base" and not self.files:
            return self.base.digest
        text = "\n".join(f"{file.name} {file.blob}" for file in sorted(self.files, key=lambda file: file.name))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files)


def line_and_number(name: str) -> tuple[str, int] | None:
    """The line and the number in a version's name, or None where it is none."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))


def check_line(name: str) -> None:
    """Check the name of a line.

    Raises:
        UsageError: it is none, or reads like that of a version.
    """
    if not _LINE.fullmatch(name):
        raise UsageError(f"policy line {name[:100]!r}: use up to 80 letters, digits, dots, dashes and underscores")
    if line_and_number(name) is not None:
        raise UsageError(f"policy line {name!r} reads like version {name}: do not end the name of a line in -NUMBER")
