"""Making a release: rows are read, held against one another, and written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from silva import __version__
from silva.curate.release.card import card
from silva.curate.release.config import ReleaseConfig
from silva.curate.release.counts import Counts, as_json, count
from silva.curate.release.croissant import croissant
from silva.curate.release.donut import donut
from silva.curate.release.leak import Leak, leaks
from silva.curate.release.table import batches, image_path, images_of
from silva.curate.rows import Row, read
from silva.errors import Exit, SilvaError, UsageError
from silva.lake import Lake
from silva.lake.durable import refusals
from silva.lake.lancedb_module import lancedb
from silva.tree import Json, Record, digest

MANIFEST = "release.json"
_SHOWN = 5


class Released(Record, frozen=True, kw_only=True):
    """A release that was made: its folder, what it counts, and the digest of all it was made of."""

    folder: str
    counts: Counts
    lineage: str
    notes: tuple[str, ...] = ()


class Planned(Record, frozen=True, kw_only=True):
    """What would be released: rows by part and what they share."""

    parts: dict[str, int]
    leaks: tuple[Leak, ...]
    notes: tuple[str, ...]


def plan(config: ReleaseConfig) -> Planned:
    """Read the rows and look for leaks; write nothing."""
    parts, notes = _read(config)
    held = _held_out(config)
    found = leaks({**parts, **held}, config.leak)
    return Planned(
        parts={name: len(rows) for name, rows in parts.items()},
        leaks=tuple(leak for leak in found if set(leak.sets) & set(parts)),
        notes=tuple(notes),
    )


def release(config: ReleaseConfig, folder: Path) -> Released:
    """Make a release in a new folder.

    Args:
        config: what is released.
        folder: where; it must not be there yet.

    Raises:
        UsageError: the folder is there, or a source cannot be read.
        SilvaError: rows stand in two parts, or in what is held out; nothing was written.
    """
    if folder.exists():
        raise UsageError(f"{folder}: is there already; a release is never changed, choose another folder or version")
    parts, notes = _read(config)
    found = leaks({**parts, **_held_out(config)}, config.leak)
    found = [leak for leak in found if set(leak.sets) & set(parts)]
    if found:
        told = "; ".join(str(leak) for leak in found[:_SHOWN])
        raise SilvaError(f"release {config.name}: {len(found)} rows leak, nothing was written: {told}", Exit.FAULT)
    audit = _audit(config)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with refusals(f"release {folder}"):
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            made = _write(config, parts, audit, draft, notes)
            draft.chmod(0o755)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return Released(folder=str(folder), counts=made[0], lineage=made[1], notes=tuple(notes))


def _read(config: ReleaseConfig) -> tuple[dict[str, list[Row]], list[str]]:
    parts: dict[str, list[Row]] = {}
    notes: list[str] = []
    seen: dict[str, str] = {}
    for name, source in config.parts.items():
        reading = read(source, lake=config.lake)
        rows = parts[name] = []
        for row in reading:
            before = seen.setdefault(row.content, f"{name} row {row.id}")
            if before.startswith(f"{name} row") and before != f"{name} row {row.id}":
                notes.append(f"{name} row {row.id} repeats {before}; one of them is released")
            else:
                rows.append(row)
        notes += [f"{name}: {note}" for note in reading.notes]
    return parts, notes


def _held_out(config: ReleaseConfig) -> dict[str, list[Row]]:
    return {f"held out {source}": list(read(source, lake=config.lake)) for source in config.held_out}


def _audit(config: ReleaseConfig) -> Json | None:
    if config.audit is None:
        return None
    path = Path(config.audit)
    try:
        found: Any = json.loads(path.read_bytes())
        rows = found["rows"]
        if not isinstance(rows, dict):
            raise TypeError("rows is no object")
    except OSError as fault:
        raise UsageError(f"{path}: it cannot be read ({fault.strerror})") from fault
    except (ValueError, KeyError, TypeError) as fault:
        raise UsageError(f"{path}: it is no audit as silva audit --json writes it ({fault})") from fault
    return found


def _write(
    config: ReleaseConfig, parts: Mapping[str, Sequence[Row]], audit: Json | None, folder: Path, notes: list[str]
) -> tuple[Counts, str]:
    files: dict[str, list[tuple[str, str]]] = {}
    store: Any = None
    (folder / "data").mkdir()
    for name, rows in parts.items():
        files[name] = []
        total = -(-len(rows) // config.rows_a_file)
        for number, (_, made) in enumerate(batches(rows, config.rows_a_file)):
            path = f"data/{name}-{number:05d}-of-{total:05d}.parquet"
            parquet.write_table(made, folder / path, compression="zstd")
            files[name].append((path, file_sha256(folder / path)))
            if config.lance:
                store = store or lancedb().connect(str(folder / "lance"))
                store.open_table(name).add(made) if number else store.create_table(name, made)
    images = _images(config, parts, folder, notes)
    counts = count(parts, audit["rows"] if audit else None, images)
    (folder / "charts").mkdir()
    for name, title in (("capability", "What agents did"), ("safety", "What is known of safety")):
        (folder / "charts" / f"{name}.svg").write_text(donut(title, getattr(counts, name)), encoding="utf-8")
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lineage = digest("release", *sorted(f"{name} {row.id} {row.content}" for name in parts for row in parts[name]))
    described = croissant(config, files, day)
    (folder / "croissant.json").write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text = card(config, counts, files, audit, lineage, notes)
    (folder / "README.md").write_text(text, encoding="utf-8")
    manifest: Json = {
        "name": config.name,
        "version": config.version,
        "licence": config.licence,
        "made": {"by": f"silva {__version__}", "on": day, "config": config.model_dump(mode="json")},
        "lineage": lineage,
        "sources": {name: sorted({row.source.partition(":")[0] for row in rows}) for name, rows in parts.items()},
        "counts": as_json(counts),
        "notes": notes,
        "files": {
            str(path.relative_to(folder)): file_sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()
        },
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return counts, lineage


def _images(config: ReleaseConfig, parts: Mapping[str, Sequence[Row]], folder: Path, notes: list[str]) -> int:
    """Put the images of all rows beside the tables, each once; those that the lake does not hold are told."""
    wanted = {name: part for rows in parts.values() for row in rows for name, part in images_of(row).items()}
    if not wanted:
        return 0
    (folder / "images").mkdir()
    lake = Lake.open(config.lake, mode="read") if config.lake else None
    missing = 0
    for name, part in wanted.items():
        try:
            data = lake.get_blob(name) if lake is not None else None
        except SilvaError:
            data = None
        if data is None:
            missing += 1
        else:
            (folder / image_path(part)).write_bytes(data)
    if missing:
        notes.append(f"{missing} of {len(wanted)} images are named by their hash and not here: no lake holds them")
    return len(wanted) - missing


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
