"""What is seen of jobs from outside while they run: their state, steps and events, as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from silva.elf.running.job import Job, jobs
from silva.elf.running.ledger import Event, Ledger
from silva.errors import SilvaError


def seen_jobs(home: Path, most: int = 200) -> list[dict[str, Any]]:
    """Jobs, the latest first: how far each is. One that cannot be read says so."""
    return [_seen(home / "jobs" / name) for name in jobs(home)[:most]]


def seen_job(home: Path, name: str) -> dict[str, Any]:
    """One job: its plan's graph with the state of each step, and its events.

    Raises:
        UsageError: there is none.
        StoreError: it cannot be read.
    """
    job = Job.find(home, name)
    ledger = Ledger(job.folder)
    ended = ledger.ended()
    last: dict[str, Event] = {}
    for event in ledger.events:
        if event.step:
            last[event.step] = event
    steps = [
        {
            "id": step.id,
            "tool": step.tool,
            "from": [source for each in step.inputs.values() for source in each],
            "settings": msgspec.json.encode(step.settings).decode(),
            "state": _state(last.get(step.id)),
            **_figures(ended.get(step.id) or last.get(step.id)),
        }
        for step in job.plan.steps
    ]
    report = job.folder / "report.md"
    return {
        **_seen(job.folder),
        "plan": steps,
        "notes": list(job.plan.notes),
        "events": [msgspec.to_builtins(event) for event in ledger.events[-200:]],
        "report": report.read_text(encoding="utf-8")[:200_000] if report.is_file() else "",
    }


def _seen(folder: Path) -> dict[str, Any]:
    try:
        job = Job.at(folder)
        ledger = Ledger(folder)
    except SilvaError as error:
        return {"id": folder.name, "state": "damaged", "intent": str(error), "steps": 0, "done": 0, "made": 0.0}
    done = any(event.event == "done" for event in ledger.events)
    failed = [event for event in ledger.events if event.event == "failed"]
    state = "done" if done else "running" if _held(folder) else "failed" if failed else "stopped"
    return {
        "id": job.id,
        "state": state,
        "intent": job.terms.intent,
        "steps": len(job.plan.steps),
        "done": len(ledger.ended()),
        "made": job.terms.made,
        "why": failed[-1].why if failed and not done else "",
        "seconds": round(sum(event.seconds for event in ledger.events if event.event == "ended"), 3),
        "tokens": sum(event.tokens for event in ledger.events),
        "usd": sum(event.usd for event in ledger.events if event.event != "done"),
    }


def _held(folder: Path) -> bool:
    """Whether a process runs the job now."""
    try:
        with FileLock(folder / "lock", timeout=0):
            return False
    except (Timeout, OSError):
        return True


def _state(event: Event | None) -> str:
    return (
        "waiting"
        if event is None
        else {"began": "running", "ended": "done", "failed": "failed"}.get(event.event, "waiting")
    )


def _figures(event: Event | None) -> dict[str, Any]:
    if event is None:
        return {"count": 0, "kind": "", "seconds": 0.0, "kept": False, "why": ""}
    return {"count": event.count, "kind": event.kind, "seconds": event.seconds, "kept": event.kept, "why": event.why}
