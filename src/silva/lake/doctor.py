"""The doctor: looks at everything a lake keeps and says, one line each, what is not as it should be.

Journal: damaged segments, a torn last write, ends that were cut off. Tables: gone, unreadable, rows left out, an id
twice, a node whose parent is missing, a trajectory whose last node is, attempts of a finished run without a trajectory.
Blobs: missing, damaged, or without an entry. Ledgers: an entry missing or damaged. Tags: naming what is gone. A repair
throws nothing away: a damaged segment is set aside under `quarantine/` and its whole frames are kept.
"""

from __future__ import annotations

import time
from pathlib import Path

from silva.errors import SilvaError, StoreError
from silva.lake import blobs
from silva.lake.columns import BLOBS, TABLES
from silva.lake.durable import refusals, write_whole
from silva.lake.entry import BlobEntry
from silva.lake.frames import MAGIC, frames
from silva.lake.layout import known_tables
from silva.lake.lease import WRITERS, left
from silva.lake.ledger import ROOT, Ledger, ledgers
from silva.lake.lock import Hold, held, lock_folder, spool_name
from silva.lake.place import Folder, Place
from silva.lake.recovery import UNFINISHED, begun, cut, ends, inspect, interrupted, salvage
from silva.lake.rows import read
from silva.lake.segment import is_numbered, segments
from silva.lake.sql import query
from silva.lake.tables import Tables
from silva.lake.tail import Tail
from silva.lake.tiers import Tiers
from silva.lake.versions import versions
from silva.tree import Record

_ENDED = (
    "its writer's end interrupted: nobody was told that it is kept, so nothing is lost (if the disk kept what it said "
    "it had)"
)


class Finding(Record, frozen=True, kw_only=True):
    """One thing that is not as it should be: its kind, where, in one line what and what to do, whether it was mended,
    and whether it is `harmless`: nothing is wrong, and nothing need be done."""

    kind: str
    where: str
    message: str
    repaired: bool = False
    harmless: bool = False


def examine(place: Place, tables: Tables, tail: Tail | None, *, repair: bool, writing: bool) -> list[Finding]:
    """Look at everything. `writing`: this process is the lake's writer, its open segment is its own."""
    if tail is not None:
        tail.refresh()
    findings = _journal(place, tail, repair, writing)
    named, wrong = _ledgers(place)
    findings += wrong
    findings += _tables(place, tables)
    if not any(finding.kind == "table" for finding in findings):
        try:
            findings += _tree(tables, tail, Tiers(place).cold())
        except StoreError as error:
            findings.append(Finding(kind="tier", where="tiers.json", message=f"the cold tier cannot be read: {error}"))
        findings += _blobs(place, tables, tail, named, repair and not writing)
    return findings + _tags(place, tables) + _writers(place, writing)


def mended(place: Place, tables: Tables, tail: Tail | None) -> list[Finding]:
    """As `examine`, mending what can be mended, for who only reads: the writer's lock is taken for it.

    Raises:
        StoreError: another process writes.
    """
    hold = Hold(place)
    try:
        return examine(place, tables, tail, repair=True, writing=False)
    finally:
        hold.release()


def _writers(place: Place, writing: bool) -> list[Finding]:
    """Writers of an object store that ended without having brought to the tables what they had acknowledged."""
    if isinstance(place, Folder):
        return []
    with refusals(place.where):
        here = spool_name(lock_folder(place)) if lock_folder(place).is_dir() else ""
    own = [number for number in segments(place.journal) if is_numbered(number)]
    findings: list[Finding] = []
    for each in left(place):
        number, spool = each["writer"], each.get("spool")
        if spool == here and (writing or own):
            continue  # it is this machine's: what it left is read from here, and compacted by the next writer
        message = (
            f"writer {number} (pid {each.get('pid', 'unknown')} on {each.get('node', 'a machine unknown')}) ended "
            "without closing; what it acknowledged last is on that machine's disk alone: open the lake to write there "
            f"once (`silva lake optimize`), or remove {WRITERS}/{number:010d}.json if that disk is gone"
        )
        findings.append(Finding(kind="writer", where=f"{WRITERS}/{number:010d}.json", message=message))
    return findings


def _journal(place: Place, tail: Tail | None, repair: bool, writing: bool) -> list[Finding]:
    findings: list[Finding] = []
    alive = writing or (not repair and held(lock_folder(place)))
    for number, path in segments(place.journal).items():
        if path.suffix == ".open" and alive:
            continue
        try:
            found = inspect(path)
        except FileNotFoundError:  # compacted while we looked
            continue
        if found is None:
            message = (
                f"segment {number} has not even a beginning: its writer was killed as it made it, or the file was "
                "cut open; the bytes do not tell which. The next writer removes it"
            )
            findings.append(Finding(kind="torn", where=f"journal/{path.name}", message=message))
            continue
        if not found.damage:
            continue
        torn = path.suffix == ".open" and found.torn
        unfinished = torn and interrupted(path, found)
        lost = len(begun(path, found)) if torn else sum(damage.end - damage.start for damage in found.damage)
        if not lost:
            continue
        if repair:
            with refusals(place.where):
                if torn and found.payloads:
                    cut(path, found)
                else:
                    salvage(path)
        if unfinished:
            message = f"segment {number} ends in {lost} bytes of a write that {_ENDED}"
        elif torn:
            message = (
                f"segment {number} ends in {lost} bytes that are no whole batch; the next writer sets them aside under "
                "quarantine/"
            )
        else:
            message = (
                f"segment {number} has {lost} damaged bytes from byte {found.damage[0].start}; {len(found.payloads)} "
                "records are whole; --repair sets the file aside under quarantine/ and keeps them"
            )
        findings.append(
            Finding(
                kind="torn" if torn else "segment",
                where=f"journal/{path.name}",
                message=message,
                repaired=repair,
                harmless=unfinished,
            )
        )
    for number, why in sorted(tail.left_out.items()) if tail is not None else ():
        message = (
            f"{len(why)} records of segment {number} are whole and cannot be read ({why[0]}); they are left out of "
            "every answer, and the segment stays in the journal: read it with the Silva that wrote it"
        )
        findings.append(Finding(kind="record", where=f"journal/{number:010d}", message=message))
    for path in ends(place.journal):
        number, size = int(path.stem.split(".")[0]), path.stat().st_size
        if UNFINISHED in path.name:
            message = f"{size} bytes at the end of segment {number} are of a write that {_ENDED}"
            findings.append(Finding(kind="cut", where=f"quarantine/{path.name}", message=message, harmless=True))
            continue
        message = (
            f"{size} bytes at the end of segment {number} were no whole batch and "
            "were set aside: a write that a kill interrupted, of which nobody was told that it is kept, or "
            "acknowledged records that were cut open; the bytes do not tell which. Look whether the last turns of what "
            "ran then are here (`silva trees list`), play or import again what is missed, and remove the file"
        )
        findings.append(Finding(kind="cut", where=f"quarantine/{path.name}", message=message))
    return findings


def _tables(place: Place, tables: Tables) -> list[Finding]:
    findings: list[Finding] = []
    there = tables.names()
    for name in sorted(known_tables(place) - there):
        message = "is gone with all its rows; restore it from a copy, or import the runs again from their exports"
        findings.append(Finding(kind="missing", where=name, message=message))
    for name in sorted(there):
        try:
            rows = tables.select(name)
            if rows is not None and name in TABLES:
                read(TABLES[name], rows, tables.leave_out)
                keys = [rows.column(key).to_pylist() for key in TABLES[name].key if key in rows.column_names]
                again = rows.num_rows - len(set(zip(*keys, strict=True)))
                if again:
                    findings.append(
                        Finding(
                            kind="twice", where=name, message=f"{again} rows have an id that stands twice; report this"
                        )
                    )
        except SilvaError as error:
            findings.append(
                Finding(
                    kind="table",
                    where=name,
                    message=f"{error}; restore the table from a copy, or read a tagged version",
                )
            )
        findings += _left_out(tables, name)
    return findings


def _left_out(tables: Tables, name: str) -> list[Finding]:
    """Rows that stand in the table and in no answer."""
    left = {row: why for (table, row), why in tables.left_out.items() if table == name}
    if not left:
        return []
    some = ", ".join(sorted(left)[:3]) + (" …" if len(left) > 3 else "")
    message = (
        f"{some}: cannot be read ({next(iter(left.values()))}) and left out of every answer; the others are read. "
        "Restore the table from a copy, or read a tagged version"
    )
    return [Finding(kind="table", where=name, message=message)]


def _tree(tables: Tables, tail: Tail | None, cold: Tables | None) -> list[Finding]:
    lost = "parent_id is not null and parent_id not in (select id from nodes)"
    orphans = query(f"select count(*) as n, min(id) as one from nodes where {lost}", tables, tail, cold).to_pylist()[0]
    findings: list[Finding] = []
    if orphans["n"]:
        message = (
            f"{orphans['n']} nodes name a parent that is not here (one is {orphans['one']}); their walks cannot be read"
        )
        findings.append(Finding(kind="orphan", where="nodes", message=message))
    lost = "leaf_id is not null and leaf_id not in (select id from nodes)"
    for row in query(
        f"select run_id, count(*) as n, min(id) as one, min(leaf_id) as leaf from trajectories where {lost} "
        "group by run_id order by run_id",
        tables,
        tail,
        cold,
    ).to_pylist():
        message = (
            f"{row['n']} trajectories of run {row['run_id']} end on a node that is not here ({row['one'][:12]} on "
            f"{row['leaf'][:12]}); their outcomes can be read, their walks cannot: restore the table of nodes from a "
            "copy, or play them again"
        )
        findings.append(Finding(kind="leaf", where="trajectories", message=message))
    # Nodes of an attempt carry its slot, so an attempt whose record is lost is missed beside its siblings, too.
    unended = (
        "select r.id as run, count(distinct n.tree_id || ' ' || n.slot) as n, count(distinct n.tree_id) as trees, "
        "min(n.tree_id || ' ' || n.slot) as one from runs r join nodes n on n.run_id = r.id "
        "where r.status = 'finished' and r.command = 'rollout' and n.slot <> '' and not exists (select 1 from "
        "trajectories t where t.tree_id = n.tree_id and t.index || '.' || t.attempt = split_part(n.slot, '/', 1)) "
        "group by r.id order by r.id"
    )
    for row in query(unended, tables, tail, cold).to_pylist():
        tree, _, slot = row["one"].partition(" ")
        message = (
            f"run {row['run']} is finished, and {row['n']} attempts in {row['trees']} of its trees have no trajectory "
            f"(one is {slot} of tree {tree[:12]}): what was said is here, how it ended is not; restore the table from "
            "a copy, or play them again"
        )
        findings.append(Finding(kind="unended", where="trajectories", message=message))
    return findings


def _ledgers(place: Place) -> tuple[set[str], list[Finding]]:
    """The blobs that ledgers name, and which ledgers cannot be read."""
    named: set[str] = set()
    findings: list[Finding] = []
    for name in ledgers(place):
        try:
            named.update(blob for entry in Ledger(place, name).entries() for blob in entry.blobs)
        except SilvaError as error:
            findings.append(Finding(kind="ledger", where=f"{ROOT}/{name}", message=str(error)))
    return named, findings


def _blobs(place: Place, tables: Tables, tail: Tail | None, named: set[str], repair: bool) -> list[Finding]:
    findings: list[Finding] = []
    listed = named | set(query(f"select id from {BLOBS.name}", tables, tail).column("id").to_pylist())
    files = {Path(name).name for name in place.names("blobs")}
    for blob in sorted(listed - files):
        findings.append(
            Finding(
                kind="blob", where=f"blobs/{blob}", message="is listed and its file is gone; restore it from a copy"
            )
        )
    unlisted: list[BlobEntry] = []
    for blob in sorted(files):
        try:
            size = len(blobs.get(place, blob))
        except SilvaError as error:
            findings.append(Finding(kind="blob", where=f"blobs/{blob}", message=str(error)))
            continue
        if blob not in listed:
            unlisted.append(BlobEntry(id=blob, media_type="application/octet-stream", size=size, at=time.time()))
            message = "has no entry in the table of blobs (its writer died between the two); --repair adds one"
            findings.append(Finding(kind="unlisted", where=f"blobs/{blob}", message=message, repaired=repair))
    if unlisted and repair:
        number = max([tables.newest_segment(), *segments(place.journal)], default=0) + 1
        with refusals(place.where):
            write_whole(place.journal / f"{number:010d}.sealed", MAGIC + frames(unlisted))
    return findings


def _tags(place: Place, tables: Tables) -> list[Finding]:
    findings: list[Finding] = []
    known = versions(place)
    for name in sorted(set(place.names("tags")) - {f"tags/{version.name}.json" for version in known}):
        findings.append(Finding(kind="tag", where=name, message="is damaged; remove it and tag again"))
    for version in known:
        try:
            pinned = Tables(place, version.tables, tag=version.name)
            for name, rows in version.rows.items():
                if pinned.count(name) != rows:
                    raise StoreError(f"table {name} has {pinned.count(name)} rows, it had {rows}")
        except StoreError as error:
            message = f"cannot be read as it was ({error}); remove tags/{version.name}.json, or restore a copy"
            findings.append(Finding(kind="tag", where=f"tags/{version.name}", message=message))
    return findings
