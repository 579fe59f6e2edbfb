"""Cleaning by findings: rows are dropped, redacted or masked, and it is told which finding touched which row.

    source, findings ─▶ row by row ─▶ FILE (cleaned rows)
                                 ├──▶ FILE.dropped.jsonl (rows left out, as they were)
                                 └──▶ FILE.lineage.jsonl (what was done to which row, by whose finding)

A row of a table keeps its own shape: what is redacted is replaced in its strings, whatever their names. What cannot be
redacted or masked in place drops out, with the reason; the source is never changed, and every row read stands in
exactly one of the first two files.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

import silva
from silva.curate.audit.finding import Finding, part_of
from silva.curate.rows import Row, read
from silva.curate.rows.objects import objects
from silva.errors import UsageError
from silva.tree import Json, Node, Record
from silva.tree.formats.chat import write_message, write_tool

Action = Literal["drop", "redact", "mask", "keep"]

ACTIONS: dict[str, Action] = {
    "pii": "redact",
    "secret": "redact",
    "leak": "drop",
    "tainted_action": "keep",
    "state_change": "keep",
    "permission": "keep",
}
"""What is done by risk where nothing else is said; rows with any other risk are dropped."""

_ORDER: tuple[Action, ...] = ("keep", "mask", "redact", "drop")


class Cleaned(Record, frozen=True, kw_only=True):
    """What a cleaning did. `rows` were read; `kept` of them stand in the file, `redacted` and `masked` of those were
    changed; `dropped` stand beside; `reasons` says why, by how often; `unread` lines were no rows."""

    rows: int
    kept: int
    redacted: int
    masked: int
    dropped: int
    reasons: dict[str, int]
    unread: int


class _Done(NamedTuple):
    value: Json | None
    action: Action
    why: str


def clean(
    source: str,
    findings: Sequence[Finding],
    output: Path,
    *,
    actions: Mapping[str, Action] | None = None,
    lake: str | None = None,
    where: str | None = None,
    limit: int | None = None,
    force: bool = False,
    dry: bool = False,
) -> Cleaned:
    """Clean a source by findings about it.

    Args:
        source: as `silva.curate.rows.read` takes it.
        findings: of an audit of the same source.
        output: a `.jsonl` file; two more are written beside it.
        actions: what is done by risk, before `ACTIONS`.
        lake: where a run or a query is.
        where: which trajectories.
        limit: the most rows.
        force: replace files that are there.
        dry: count; write nothing.

    Raises:
        UsageError: the source cannot be read, or the files cannot be written.
    """
    beside = {kind: output.with_name(f"{output.stem}.{kind}.jsonl") for kind in ("dropped", "lineage")}
    _ready([output, *beside.values()], source, force)
    wanted: dict[str, Action] = {**ACTIONS, **(actions or {})}
    by_row: dict[str, list[Finding]] = {}
    for each in findings:
        by_row.setdefault(each.row_id, []).append(each)
    counts, reasons = Counter[str](), Counter[str]()
    reading = read(source, lake=lake, where=where, limit=limit)
    parts = [path.with_name(f".{path.name}.part") for path in (output, *beside.values())]
    files = [] if dry else [path.open("wb") for path in parts]
    try:
        for row, value in _values(source, reading):
            counts["rows"] += 1
            found = by_row.get(row.id, [])
            done = _cleaned(row, value, found, wanted)
            counts["kept" if done.value is not None else "dropped"] += 1
            counts[done.action] += done.value is not None
            line = value if done.value is None else done.value
            kept, dropped = (line, None) if done.value is not None else (None, line)
            by_row.pop(row.id, None)
            if done.value is None:
                reasons[done.why] += 1
            lineage = None if done.action == "keep" else _lineage(row, value, done, found, wanted)
            for file, said in zip(files, (kept, dropped, lineage), strict=False):
                if said is not None:
                    file.write(msgspec.json.encode(said, enc_hook=str) + b"\n")
        if by_row and limit is None:
            raise UsageError(
                f"{source}: findings are about {len(by_row)} rows that it lacks, such as {next(iter(by_row))!r}; "
                "give those of an audit of this source"
            )
        told = Cleaned(
            rows=counts["rows"],
            kept=counts["kept"],
            redacted=counts["redact"],
            masked=counts["mask"],
            dropped=counts["dropped"],
            reasons=dict(reasons.most_common()),
            unread=len(reading.notes),
        )
        if files:
            files[2].write(msgspec.json.encode(_ended(source, told, wanted, reading.notes)) + b"\n")
    except BaseException:
        for part in parts:
            part.unlink(missing_ok=True)
        raise
    finally:
        for file in files:
            file.close()
    for part, path in zip(parts if files else (), (output, *beside.values()), strict=False):
        part.replace(path)
    return told


def action_of(text: str) -> tuple[str, Action]:
    """`RISK=ACTION` as a pair.

    Raises:
        UsageError: no such risk or action.
    """
    from silva.curate.audit.risks import known_risk

    name, _, action = text.partition("=")
    if action not in _ORDER:
        raise UsageError(f"{text!r}: write it as RISK=ACTION; actions are {', '.join(_ORDER)}")
    return known_risk(name).name, next(each for each in _ORDER if each == action)


def _ready(paths: Sequence[Path], source: str, force: bool) -> None:
    if paths[0].suffix != ".jsonl":
        raise UsageError(f"{paths[0].name}: a file of cleaned rows ends in .jsonl")
    for path in paths:
        if path.exists() and Path(source).is_file() and path.samefile(source):
            raise UsageError(f"{path}: is the source itself, which is never changed; name another file")
        if path.exists() and not force:
            raise UsageError(f"{path}: is there already; add --force to replace it")
    try:
        paths[0].parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{paths[0].parent}: cannot be made ({error.strerror})") from error


def _values(source: str, rows: Iterator[Row] | Any) -> Iterator[tuple[Row, Json]]:
    """Rows with what they are written as: a table's row as it stands there, any other as messages."""
    path = Path(source)
    table = objects(path) if path.is_file() else iter(())
    number, value = 0, None
    for row in rows:
        line = row.id.removeprefix(f"{path.name}:")
        if line.isdigit() and path.is_file():
            while number < int(line):
                number, value = next(table)
        if number and line.isdigit() and number == int(line):
            yield row, value if isinstance(value, dict) else {"messages": value}
        else:
            yield row, _messages(row)


def _messages(row: Row) -> Json:
    tools = next((node.tools for node in reversed(row.nodes) if node.tools is not None), None)
    made: Json = {"id": row.id, "source": row.source, "messages": [write_message(node.message) for node in row.nodes]}
    if tools:
        made["tools"] = [write_tool(each) for each in tools]
    if row.trajectory is not None:
        made |= {"task": row.trajectory.task_id, "env": row.trajectory.env, "score": row.trajectory.outcome.score}
    return made


def _cleaned(row: Row, value: Json, found: Sequence[Finding], wanted: Mapping[str, Action]) -> _Done:
    done: Json = value
    last: Action = "keep"
    for action in _ORDER[1:]:
        of = [each for each in found if wanted.get(each.risk, "drop") == action]
        if not of:
            continue
        if action == "drop":
            return _Done(None, "drop", "; ".join(sorted({each.risk for each in of})))
        changed = _masked(row, done, of) if action == "mask" else _redacted(row, done, of)
        if isinstance(changed, str):
            return _Done(None, "drop", changed)
        done, last = changed, action
    return _Done(done, last, "")


def _redacted(row: Row, value: Json, found: Sequence[Finding]) -> Json | str:
    nodes = {node.id: node for node in (*row.nodes, *row.rejected)}
    swaps: dict[str, str] = {}
    forms: list[set[str]] = []
    for each in found:
        text = _span(nodes.get(each.node_id), each)
        if not text:
            return f"{each.risk}: the finding names no stretch that could be redacted"
        forms.append({text, _decoded(text)} if each.part.startswith("call") else {text})
        swaps |= dict.fromkeys(forms[-1], f"[redacted {each.risk}]")
    longest = sorted(swaps, key=len, reverse=True)
    replaced: set[str] = set()
    done = _swapped(value, swaps, longest, replaced)
    if all(any(form in text for form in each for text in replaced) for each in forms):
        return done
    return "what was found does not stand in one string of the row, so it cannot be redacted there"


def _decoded(text: str) -> str:
    """A stretch of raw arguments as it reads where the arguments stand as an object."""
    try:
        return json.loads(f'"{text}"')
    except ValueError:
        return text


def _span(node: Node | None, each: Finding) -> str:
    if node is None or each.stop <= each.start:
        return ""
    try:
        return part_of(node, each.part)[each.start : each.stop]
    except KeyError:
        return ""


def _swapped(value: Any, swaps: Mapping[str, str], longest: Sequence[str], replaced: set[str]) -> Any:
    if isinstance(value, str):
        for text in longest:
            if text in value:
                replaced.add(text)
                value = value.replace(text, swaps[text])
        return value
    if isinstance(value, dict):
        return {key: _swapped(each, swaps, longest, replaced) for key, each in value.items()}
    if isinstance(value, list):
        return [_swapped(each, swaps, longest, replaced) for each in value]
    return value


def _masked(row: Row, value: Json, found: Sequence[Finding]) -> Json | str:
    """The row with weight 0 on the messages that findings name, as trainers of chat rows read it."""
    messages = value.get("messages")
    places = {node.id: place for place, node in enumerate(row.nodes)}
    named = [places.get(each.node_id) for each in found]
    if not isinstance(messages, list) or len(messages) != len(row.nodes):
        return "the row has no list of messages, so none of them can be masked"
    if any(place is None for place in named):
        return f"{found[0].risk}: the finding names no message that could be masked"
    marked = [{**each, "weight": 0} if place in named else each for place, each in enumerate(messages)]
    return {**value, "messages": marked}


def _lineage(row: Row, before: Json, done: _Done, found: Sequence[Finding], wanted: Mapping[str, Action]) -> Json:
    return {
        "kind": "row",
        "row_id": row.id,
        "source": row.source,
        "action": done.action,
        "why": done.why,
        "before": _digest(before),
        "after": None if done.value is None else _digest(done.value),
        "by": [
            {
                "finding": each.id,
                "checker": each.checker,
                "version": each.version,
                "risk": each.risk,
                "action": wanted.get(each.risk, "drop"),
                "node_id": each.node_id,
                "part": each.part,
                "start": each.start,
                "stop": each.stop,
            }
            for each in found
        ],
    }


def _ended(source: str, told: Cleaned, wanted: Mapping[str, Action], notes: Sequence[str]) -> Json:
    path = Path(source)
    known = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return {
        "kind": "end",
        "source": path.name if path.is_file() else source,
        "sha256": known,
        "silva": silva.__version__,
        "actions": dict(wanted),
        "counts": msgspec.to_builtins(told),
        "not_read": list(notes),
    }


def _digest(value: Json) -> str:
    return hashlib.sha256(msgspec.json.encode(value, enc_hook=str)).hexdigest()
