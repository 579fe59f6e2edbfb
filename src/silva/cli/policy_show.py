"""How `silva policy` prints: tables for people, JSON for programs. JSON is the version's record with how it stands."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from silva.cli.as_json import print_json

if TYPE_CHECKING:
    from silva.train.registry import Event, Line, PolicyVersion


def listed(lake: str, lines: list[Line], as_json: bool) -> None:
    """Every version of some lines."""
    if as_json:
        _json([_standing(line, version) for line in lines for version in line.versions])
        return
    if not lines:
        sys.stdout.write(f"no policy versions in lake {lake}; silva policy register FOLDER --line NAME adds one\n")
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    grid = Table("version", "status", "kind", "parent", "metrics", "by", "registered", "note")
    for line in lines:
        for version in line.versions:
            status = f"{line.status(version)}, head" if line.is_head(version) else line.status(version)
            kind = f"{version.kind} {version.base.label}" if version.kind == "base" else version.kind
            cells = (version.name, status, kind, version.parent, _metrics(version), version.by, _when(version.at))
            grid.add_row(*map(escape, cells), escape(_cut(version.note)), style="bold" if line.is_head(version) else "")
    Console(width=None if sys.stdout.isatty() else 240).print(grid)


def one(line: Line, version: PolicyVersion, as_json: bool, *, whole: bool) -> None:
    """One version and what became of it; `whole`: everything that happened to its line."""
    events = line.events if whole else line.history(version)
    if as_json:
        import msgspec

        history = [_event(line, event) for event in events]
        files = [msgspec.to_builtins(file) for file in version.files]
        _json({**_standing(line, version), "files": files, "history": history})
        return
    data = version.data
    facts = {
        "version": version.name,
        "status": f"{line.status(version)}{', head' if line.is_head(version) else ''}",
        "kind": version.kind,
        "base": version.base.label,
        "parent": version.parent,
        "digest": version.digest,
        "bytes": f"{version.size:,}" if version.files else "",
        "runs": ", ".join(data.runs),
        "filters": "; ".join(data.filters),
        "lake version": data.lake_version,
        "samples": ", ".join(data.samples),
        "config": version.lineage.config,
        "code": version.lineage.code,
        "metrics": _metrics(version),
        "key": version.key,
        "note": version.note,
    }
    width = max(map(len, facts))
    for name, value in facts.items():
        if value:
            sys.stdout.write(f"{name:<{width}}  {value}\n")
    sys.stdout.write("\n")
    for event in events:
        said = f": {event.note}" if event.note else ""
        by = f" by {event.by}" if event.by else ""
        sys.stdout.write(f"{_when(event.at)}  {_told(line, event)}{by}{said}\n")


def done(line: Line, version: PolicyVersion, what: str, as_json: bool, **more: Any) -> None:
    """What a command has done to a version."""
    if as_json:
        _json({**_standing(line, version), **more})
        return
    head = line.versions[line.head]
    sys.stdout.write(
        f"{version.name}: {what}{'' if version == head else f'; the head of {line.name} is {head.name}'}\n"
    )


def _standing(line: Line, version: PolicyVersion) -> dict[str, Any]:
    import msgspec

    record = msgspec.to_builtins(version)
    record.pop("files", None)
    promoted = [event for event in line.events if event.number == version.number and event.what == "promoted"]
    last = promoted[-1] if promoted else None
    return {
        "version": version.name,
        "status": line.status(version),
        "head": line.is_head(version),
        "digest": version.digest,
        "promoted_by": "" if last is None else last.by,
        "promoted_at": 0.0 if last is None else last.at,
        **record,
    }


def _event(line: Line, event: Event) -> dict[str, Any]:
    found = {"what": event.what, "version": f"{line.name}-{event.number}", "at": event.at, "by": event.by}
    before = {} if event.before is None else {"before": f"{line.name}-{event.before}"}
    route = {"model": event.route} if event.route else {}
    return {**found, **before, **route, "note": event.note}


def _told(line: Line, event: Event) -> str:
    name = f"{line.name}-{event.number}"
    if event.what == "promoted":
        return f"{name} promoted over {line.name}-{event.before}"
    if event.what == "rolled back":
        return f"{line.name}-{event.before} rolled back to {name}"
    return f"{name} {event.what}{f' as {event.route}' if event.route else ''}"


def _metrics(version: PolicyVersion) -> str:
    shown = [
        f"{name}={value:.4g}" if isinstance(value, int | float) else f"{name}=…"
        for name, value in version.metrics.items()
    ]
    return " ".join(shown if len(shown) <= 4 else [*shown[:4], "…"])


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:59] + "…"


def _json(value: Any) -> None:
    print_json(value)
