"""A loop as others look at it while it runs or stands: its stages as they are, what it shows, whether it is at work.

ledger, progress.json, lock ─▶ stages and state      what the kind shows now, and report.json ─▶ `Shown`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from silva.errors import SilvaError
from silva.loops.kernel.kind import Kind
from silva.loops.kernel.loop import REPORT, Loop
from silva.loops.kernel.progress import progress
from silva.loops.kernel.shown import Shown, read_shown
from silva.loops.kernel.turn import LOCK
from silva.tree import Json

MOST_OUTPUTS = 20_000
"""Characters of a stage's outputs that a page is given."""


def stages(kind: Kind[Any], loop: Loop[Any]) -> list[dict[str, Any]]:
    """Every stage: its `name`, `kind`, `round`, `state` (`to do`, `begun`, `ended`, `skipped`, `waiting`, `failed`),
    `seconds` of work, `note` where it was skipped, waits or failed, `progress` while it runs, `outputs`, and in `words`
    what it gave."""
    over = loop.ledger.over()
    last = {entry.stage: entry for entry in loop.ledger.entries} | over
    now = progress(loop)
    found: list[dict[str, Any]] = []
    for stage in loop.plan:
        entry, done = last.get(stage.name), over.get(stage.name)
        found.append(
            {
                "name": stage.name,
                "kind": stage.kind,
                "round": stage.round,
                "state": entry.event if entry is not None else "to do",
                "seconds": sum(each.seconds for each in loop.ledger.entries if each.stage == stage.name),
                "note": entry.note if entry is not None else "",
                "progress": str(now) if now is not None and now.stage == stage.name else "",
                "outputs": done.outputs if done is not None else {},
                "words": kind.line(stage, done.outputs) if done is not None and done.event == "ended" else "",
            }
        )
    return found


def shown(kind: Kind[Any], loop: Loop[Any]) -> Shown:
    """What it shows now: of the ledger what its kind can tell at any time, and the rest from its report."""
    try:
        live = kind.shown(loop)
    except (SilvaError, LookupError, TypeError, ValueError, msgspec.ValidationError) as error:
        # A ledger of an older Silva may lack what a newer kind reads; the stages are still worth a look.
        live = Shown(faults=(f"ledger: {type(error).__name__}: {' '.join(str(error).split())[:200]}",))
    return live.beside(read_shown(loop.folder))


def state(loop: Loop[Any]) -> str:
    """`done`, `running`, `waiting` (for people), `failed`, `stopped` (begun and nobody at it), `not begun`; `begun`
    where this machine cannot say who holds the lock."""
    over = loop.ledger.over()
    at_work = held(loop.folder / LOCK)
    if at_work:
        return "running"
    if all(stage.name in over for stage in loop.plan):
        return "done"
    if not loop.ledger.entries:
        return "not begun"
    if (last := loop.ledger.entries[-1].event) in ("waiting", "failed"):
        return last
    return "begun" if at_work is None else "stopped"


def waits(loop: Loop[Any]) -> str:
    """What a loop that has stopped wants of people; "" where it waits for nobody."""
    last = loop.ledger.entries[-1] if loop.ledger.entries else None
    return f"{last.stage}: {last.note}" if last is not None and last.event == "waiting" else ""


def held(lock: Path) -> bool | None:
    """Whether a process of this machine holds a lock, asked of the kernel: to try it would keep others from it. None
    where that cannot be known."""
    try:
        number = str(lock.stat().st_ino)
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return False if Path("/proc/locks").exists() else None
    except (OSError, UnicodeDecodeError):
        return None
    # 1: FLOCK  ADVISORY  WRITE 15762 fe:00:3107915 0 EOF, whose device some file systems tell other than `stat` does
    return any(f":{number} " in line for line in lines)


def whole(kind: Kind[Any], loop: Loop[Any]) -> Json:
    """All of it as JSON."""
    standing = kind.standing(loop)
    facts: Json = {"folder": str(loop.folder), "loop": kind.name, "lake": loop.lake, **standing.facts}
    facts |= {"state": state(loop), "stages": stages(kind, loop), "words": list(standing.words)}
    facts["last"] = max((entry.at for entry in loop.ledger.entries), default=0.0)
    facts["report"] = str(loop.folder / REPORT) if (loop.folder / REPORT).exists() else ""
    return {**facts, **parts(shown(kind, loop))}


def parts(found: Shown) -> Json:
    """What a loop shows as JSON, every field written."""
    return {
        name: [msgspec.structs.asdict(each) if isinstance(each, msgspec.Struct) else each for each in part]
        for name, part in msgspec.structs.asdict(found).items()
    }
