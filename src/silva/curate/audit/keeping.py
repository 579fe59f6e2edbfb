"""What an audit found, kept: appended, never overwritten, and nothing twice.

    lake:  finding ─▶ Supervision (a note) on its node ;  verdicts of a walk ─▶ a note on its last node
    file:  JSON lines, `{"kind": "finding", …}` and `{"kind": "row", …}`, beside the report

The id of each says who claims what about which place, by which version. So the same audit once more adds nothing, and
a new version of a checker adds its own word beside the old one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from silva.curate.audit.auditing import Audit, RowVerdicts, batches
from silva.curate.audit.checker import checkers
from silva.curate.audit.finding import DETECTED, NOT_CHECKED, NOT_DETECTED, Finding
from silva.errors import UsageError
from silva.lake import Lake
from silva.lake.filters import field
from silva.redact import redact
from silva.tree import Supervision, digest

BY = "audit"
"""What stands before the checker's name in `Supervision.by`; alone it stands for the verdicts of a walk."""

FINDING, VERDICTS = "finding", "verdicts"
"""Attributes of a supervision that hold a finding, or the verdicts of a walk."""

_APPENDED = 2048
"""Records that are appended to a lake at once."""


def keep_in_lake(lake: Lake, audit: Audit) -> int:
    """Append what was found to a lake; return how many records are new.

    Raises:
        StoreError: the lake cannot be written.
    """
    new = 0
    for some in batches(_supervisions(lake, audit), _APPENDED):
        made = {each.id: each for each in some}
        known = {one.id for one in lake.supervisions(where=field("id").is_in(sorted(made)))}
        fresh = [each for number, each in made.items() if number not in known]
        lake.append_sync(fresh)
        new += len(fresh)
    return new


def _supervisions(lake: Lake, audit: Audit) -> Iterator[Supervision]:
    run = audit.source if lake.run(audit.source) is not None else None
    walks = {each.id: each for each in lake.trajectories(run_id=run)} if audit.verdicts else {}
    now, families = time.time(), {name: made.family.value for name, made in checkers().items()}
    for each in audit.findings:
        walk = walks.get(each.row_id)
        node_id = each.node_id or (walk.leaf_id if walk is not None else None)
        if walk is None or node_id is None:
            continue
        yield Supervision(
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
    asked = sorted(f"{each.checker}@{each.version}>={each.threshold:g}" for each in audit.told)
    answered = sorted(each.checker for each in audit.told if each.checked)
    for each in audit.verdicts:
        walk = walks.get(each.row_id)
        if walk is None or walk.leaf_id is None:
            continue
        said = msgspec.to_builtins(each)
        number = digest(BY, each.row_id, *asked, msgspec.json.encode(said, order="deterministic"))
        yield Supervision(
            id=number,
            node_id=walk.leaf_id,
            run_id=walk.run_id,
            verdict="note",
            source="rule",
            by=BY,
            at=now,
            attributes={VERDICTS: said, "asked": asked, "answered": answered},
        )


def kept_verdicts(lake: Lake, run: str) -> dict[str, dict[str, str]]:
    """What audits have said of the walks of a run, by walk: risks, each detected, not detected or not checked.

    What one audit detected stands, whatever others say that heard other checkers; an audit that heard all of the same
    again, in whatever version, takes the place of the one before.
    """
    by_walk: dict[str, list[tuple[frozenset[str], dict[str, str]]]] = {}
    for each in lake.supervisions(run_id=run, where=field("by") == BY):
        said = each.attributes.get(VERDICTS)
        if said is not None:
            heard = frozenset(each.attributes.get("answered", ("an older audit",)))
            before = by_walk.setdefault(said["row_id"], [])
            before[:] = [(names, verdicts) for names, verdicts in before if not names <= heard]
            before.append((heard, said["verdicts"]))
    return {walk: _together(verdicts for _, verdicts in said) for walk, said in by_walk.items()}


def _together(said: Iterable[dict[str, str]]) -> dict[str, str]:
    rank = (NOT_CHECKED, NOT_DETECTED, DETECTED)
    made: dict[str, str] = {}
    for verdicts in said:
        for risk, word in verdicts.items():
            made[risk] = max(made.get(risk, NOT_CHECKED), word, key=rank.index)
    return made


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
    new = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            for each in audit.findings:
                if each.id not in known:
                    known.add(each.id)
                    file.write(_line("finding", each.id, each))
                    new += 1
            for each in audit.verdicts:
                number = digest(BY, *asked, msgspec.json.encode(each, order="deterministic"))
                if number not in known:
                    file.write(_line("row", number, each))
                    new += 1
    except OSError as error:
        raise UsageError(f"{path}: findings cannot be written ({error.strerror})") from error
    return new


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


def _ids(path: Path) -> Iterator[str]:
    return (number for _, number, _ in _lines(path)) if path.exists() else iter(())


def _lines(path: Path) -> Iterable[tuple[str, str, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    said = msgspec.json.decode(line, type=_Line)
                except msgspec.DecodeError as error:
                    raise UsageError(
                        f"{path}:{number}: is no line of an audit's findings ({error}); name another file"
                    ) from error
                yield said.kind, said.id, line
    except OSError as error:
        raise UsageError(f"{path}: findings cannot be read ({error.strerror})") from error
