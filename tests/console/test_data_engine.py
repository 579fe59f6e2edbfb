"""The data engine's page: what it is told, who may promote, and the page itself in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from consoles import Console

from silva.elf.derived import GIVEN, Assets, Derived, Trial
from silva.elf.plan import Plan, Step
from silva.elf.running.job import Job, Terms
from silva.elf.running.ledger import Event, Ledger
from silva.lake import Lake

STEPS = (
    Step(id="rows", tool="read-rows", settings={"source": "a.jsonl"}),
    Step(id="unique", tool="deduplicate", inputs={"rows": ("rows",)}),
)


@pytest.fixture
def candidate(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake, a job that stands at its second step, and a candidate that waits."""
    monkeypatch.setenv("SILVA_ELF", str(home / "elf"))
    Lake.open(home / "lake").close_sync()
    job = Job.begin(home / "elf", Plan(intent="unique <b>rows</b>", steps=STEPS), Terms())
    ledger = Ledger(job.folder)
    ledger.add(Event(event="ended", step="rows", kind="rows", count=3, seconds=0.5))
    ledger.add(Event(event="failed", step="unique", why="it broke"))
    step = Step(id="deduplicate-1", tool="deduplicate", inputs={"rows": (GIVEN,)})
    made = Derived(id="", name="once", kind="composition", summary="Rows once.", steps=(step,))
    held = Trial(example="one row", held=True)
    return Assets(home / "elf").keep(Derived(**{**_fields(made), "trials": (held,)})).id


def _fields(made: Derived) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__struct_fields__}


def asked(console: Console, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {console.token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{console.url}/api/{path}", data, headers), timeout=60) as reply:
        return json.load(reply)


def test_jobs_are_seen_step_by_step_and_a_candidate_is_promoted_under_a_name(
    home: Path, candidate: str, serve: Callable[..., Console]
) -> None:
    console = serve()
    told = asked(console, "elf")
    (job,) = told["jobs"]
    assert (job["state"], job["done"], job["steps"]) == ("failed", 1, 2)
    assert told["candidates"][0]["does"].startswith("1. deduplicate-1: deduplicate")
    steps = asked(console, f"elf?job={job['id']}")["plan"]
    assert [(each["state"], each["layer"], each["from"]) for each in steps] == [
        ("done", 0, []),
        ("failed", 1, ["rows"]),
    ]
    made = asked(console, "promote", {"candidate": candidate})
    assert made["name"] == "once" and made["version"] == 1
    assert Assets(home / "elf").asset("once").by == made["by"]
    assert asked(console, "elf")["candidates"] == []
    assert '"promote"' in console.trail.read_text()
    with pytest.raises(HTTPError) as refused:
        asked(console, "promote", {"candidate": "../../etc/passwd"})
    assert refused.value.code == 400


@pytest.mark.slow
def test_a_plan_is_drawn_and_a_candidate_promoted_from_the_page(
    home: Path, candidate: str, serve: Callable[..., Console], page: Any
) -> None:
    console = serve()
    page.goto(console.at())
    page.get_by_role("link", name="Data engine").click()
    page.get_by_role("button", name="Promote to a tool").click()
    page.get_by_text("once, version 1 (composition), promoted by").wait_for()
    page.get_by_role("link", name="job_").click()
    page.get_by_role("heading", name="unique <b>rows</b>").wait_for()
    assert page.locator("svg.plan .step.done").count() == 1 and page.locator("svg.plan .step.failed").count() == 1
    assert page.locator("svg.plan .edge").count() == 1
