"""What an audit found, kept: appended, never overwritten, and nothing twice.

    lake:  finding ─▶ Supervision (a note) on its node ;  verdicts of a walk ─▶ a note on its last node
    file:  JSON lines, `{"kind": "finding", …}` and `{"kind": "row", …}`, beside the report

The id of each says who claims what about which place, by which version. So the same audit once more adds nothing, and
a new version of a checker adds its own word beside the old one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from silva.curate.audit.auditing import Audit, RowVerdicts
from silva.curate.audit.checker import checkers
from silva.curate.audit.finding import Finding
from silva.errors import UsageError
from silva.lake import Lake
from silva.redact import redact
from silva.tree import Supervision, digest

BY = "audit"
"""What stands before the checker's name in `Supervision.by`; alone it stands for the verdicts of a walk."""

FINDING, VERDICTS = "finding", "verdicts"
"""Attributes of a supervision that hold a finding, or the verdicts of a walk."""


def keep_in_lake(lake: Lake, audit: Audit) -> int:
    """Append what was found to a lake; return how many records are new.

    Raises:
        StoreError: the lake cannot be written.
    """
    run = audit.source if lake.run(audit.source) is not None else None
    walks = {each.id: each for each in lake.trajectories(run_id=run)} if audit.verdicts else {}
    now, families = time.time(), {name: made.family.value for name, made in checkers().items()}
    made: dict[str, Supervision] = {}
    for each in audit.findings:
        walk = walks.get(each.row_id)
        node_id = each.node_id or (walk.leaf_id if walk is not None else None)
        if walk is None or node_id is None:
            continue
        told = Supervision(
            id=each.id,
            node_id=node_id,
            run_id=walk.run_id,
            verdict="note",
            source="model" if families.get(each.checker) in ("heads", "judges") else "rule",
            by=f"{BY}:{each.checker}@{each.version}",
            reason=redact(f"{each.risk}: {each.evidence}"),
            value=each.score,
            at=now,
            attributes={FINDING: msgspec.to_builtins(each)},
        )
        made[told.id] = told
    asked = sorted(f"{each.checker}@{each.version}>={each.threshold:g}" for each in audit.told)
    for each in audit.verdicts:
        walk = walks.get(each.row_id)
        if walk is None or walk.leaf_id is None:
            continue
        said = msgspec.to_builtins(each)
        number = digest(BY, each.row_id, *asked, msgspec.json.encode(said, order="deterministic"))
        made[number] = Supervision(
            id=number,
            node_id=walk.leaf_id,
            run_id=walk.run_id,
            verdict="note",
            source="rule",
            by=BY,
            at=now,
            attributes={VERDICTS: said, "asked": asked},
        )
    known = {one.id for run in {each.run_id for each in made.values()} for one in lake.supervisions(run_id=run)}
    new = [each for number, each in made.items() if number not in known]
    lake.append_sync(new)
    return len(new)


def kept_findings(lake: Lake, run: str) -> list[Finding]:
    """The findings that audits have appended about a run, by when."""
    return [
        msgspec.convert(each.attributes[FINDING], Finding)
        for each in lake.supervisions(run_id=run)
        if FINDING in each.attributes
    ]


class _Line(msgspec.Struct):
    kind: str
    id: str = ""


def keep_in_file(path: Path, audit: Audit) -> int:
    """Append what was found to a file of JSON lines; return how many lines are new.

    Raises:
        UsageError: the file cannot be read or written, or holds something else.
    """
    known = set(_ids(path))
    asked = sorted(f"{each.checker}@{each.version}>={each.threshold:g}" for each in audit.told)
    new: list[bytes] = []
    for each in audit.findings:
        if each.id not in known:
            known.add(each.id)
            new.append(_line("finding", each.id, each))
    for each in audit.verdicts:
        number = digest(BY, *asked, msgspec.json.encode(each, order="deterministic"))
        if number not in known:
            known.add(number)
            new.append(_line("row", number, each))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b"".join(new))
    except OSError as error:
        raise UsageError(f"{path}: findings cannot be written ({error.strerror})") from error
    return len(new)


def read_findings(paths: Iterable[Path]) -> list[Finding]:
    """The findings in files that audits wrote.

    Raises:
        UsageError: a file cannot be read, or a line is none of an audit's.
    """
    return [
        msgspec.json.decode(line, type=Finding) for path in paths for kind, _, line in _lines(path) if kind == "finding"
    ]


def _line(kind: str, number: str, value: Finding | RowVerdicts) -> bytes:
    said = {"kind": kind, "id": number, **msgspec.to_builtins(value)}
    if kind == "finding":
        said["evidence"] = redact(said.get("evidence", ""))
    return msgspec.json.encode(said) + b"\n"


def _ids(path: Path) -> Sequence[str]:
    return [number for _, number, _ in _lines(path)] if path.exists() else ()


def _lines(path: Path) -> Iterable[tuple[str, str, bytes]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: findings cannot be read ({error.strerror})") from error
    for number, line in enumerate(data.splitlines(), 1):
        try:
            said = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{path}:{number}: is no line of an audit's findings ({error}); name another file"
            ) from error
        yield said.kind, said.id, line
