"""A data set: a header and one line for each trajectory it names.

{"kind": "dataset", "format": 1, "part": "train", "made": "split …"}
{"lake": "lake", "run_id": "expert", "env": "babyai", "task_id": "babyai/GoToObj-v0/1000", "trajectory_id": "…", …}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from silva.errors import StoreError, UsageError
from silva.lake.durable import create_whole, refusals, write_whole
from silva.tree import Record

FORMAT = 1


class Entry(Record, frozen=True, kw_only=True):
    """A trajectory of a lake. `group` is what must stay together with it (its task, or a key of its task), `question`
    the digest of the first thing a user said in it. It stands `copies` times in an epoch, and its loss is multiplied
    by `weight`."""

    lake: str
    run_id: str
    env: str
    task_id: str
    trajectory_id: str
    group: str = ""
    question: str = ""
    score: float | None = None
    success: bool | None = None
    turns: int = 0
    copies: int = 1
    weight: float = 1.0

    @property
    def task(self) -> tuple[str, str]:
        """Environment and task."""
        return self.env, self.task_id


class DataSet(Record, frozen=True, kw_only=True):
    """Entries in a fixed order. `part` is what the set is for (`train`, `dev`, `test`, …), `made` how it came about."""

    part: str
    entries: tuple[Entry, ...]
    made: str = ""

    def __len__(self) -> int:
        return sum(entry.copies for entry in self.entries)


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    format: int
    part: str
    made: str = ""


_encode = msgspec.json.Encoder(order="deterministic").encode
_header = msgspec.json.Decoder(_Header).decode
_entry = msgspec.json.Decoder(Entry).decode


def write_dataset(path: Path, dataset: DataSet, *, replace: bool = False) -> None:
    """Write a data set, whole and durable or not at all.

    Raises:
        UsageError: the file is there already and is not to be replaced.
        StoreError: the disk is full or does not let us.
    """
    write_datasets({path: dataset}, replace=replace)


def write_datasets(files: dict[Path, DataSet], *, replace: bool = False) -> None:
    """Write several data sets; none where one of the files is there already.

    Raises:
        UsageError, StoreError: as `write_dataset`.
    """
    taken = [path for path in files if path.exists()]
    if taken and not replace:
        raise UsageError(
            f"data set {taken[0]}: it is there already; choose another --output, or replace it with --force"
        )
    for path, dataset in files.items():
        header = _Header(kind="dataset", format=FORMAT, part=dataset.part, made=dataset.made)
        data = b"\n".join([_encode(header), *map(_encode, dataset.entries), b""])
        try:
            with refusals(f"data set {path}"):
                if replace:
                    write_whole(path, data)
                elif not create_whole(path, data):
                    raise UsageError(f"data set {path}: another wrote it meanwhile; choose another --output")
        except OSError as fault:
            raise StoreError(f"data set {path}: it cannot be written ({fault.strerror or fault})") from fault


def read_dataset(path: Path) -> DataSet:
    """Read a data set.

    Raises:
        UsageError: there is no such file, or a line of it is no entry; the message says which.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as fault:
        raise UsageError(f"data set {path}: it cannot be read ({fault.strerror or fault})") from fault
    try:
        header = _header(lines[0] if lines else b"")
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise UsageError(
            f"data set {path} line 1: it is no header of a data set; make one with silva data split"
        ) from fault
    if header.kind != "dataset" or header.format != FORMAT:
        raise UsageError(f"data set {path}: it is {header.kind} of format {header.format}, this reads dataset {FORMAT}")
    entries: list[Entry] = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            entry = _entry(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise UsageError(f"data set {path} line {number}: it is no entry ({fault})") from fault
        if entry.copies < 1 or not 0 <= entry.weight < float("inf"):
            raise UsageError(f"data set {path} line {number}: copies must be at least 1 and weight a number from 0 on")
        entries.append(entry)
    return DataSet(part=header.part, entries=tuple(entries), made=header.made)


def dataset_file(path: Path) -> Path:
    """The file of a data set that is named by its path, or by its part in the folder of a split: `sets/train`.

    Raises:
        UsageError: a folder is named without a part; the message says which there are.
    """
    part = path.with_name(f"{path.name}.jsonl")
    if not path.is_file() and part.is_file():
        return part
    if path.is_dir():
        parts = ", ".join(str(path / each.stem) for each in sorted(path.glob("*.jsonl")))
        raise UsageError(f"data set {path}: it is a folder; name one of its parts: {parts or 'there are none'}")
    return path


def by_trajectory(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries of one trajectory made one, their copies added up; in order of first appearance."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        key = entry.lake, entry.trajectory_id
        known = found.get(key)
        found[key] = entry if known is None else msgspec.structs.replace(known, copies=known.copies + entry.copies)
    return tuple(found.values())


def part_of(datasets: Sequence[DataSet], paths: Sequence[Path]) -> str:
    """The one part all of them are of.

    Raises:
        UsageError: they are of different parts.
    """
    for dataset, path in zip(datasets, paths, strict=True):
        if dataset.part != datasets[0].part:
            raise UsageError(
                f"data set {path}: it is of part {dataset.part}, {paths[0]} of {datasets[0].part}; they are kept apart"
            )
    return datasets[0].part
