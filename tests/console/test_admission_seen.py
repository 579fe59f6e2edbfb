"""Tasks that a loop made wait in the inbox, and a person lets them in or not, from the page, under their name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from console_lakes import run_record
from consoles import Console, until

from silva.envs.protocol import Goal
from silva.lake import Lake
from silva.loops.roles.born import Born, born, with_born
from silva.loops.roles.candidate import Source
from silva.rollout.acted import Acted
from silva.tree import Task, assistant, call

pytestmark = pytest.mark.slow


@pytest.fixture
def waiting(home: Path) -> Path:
    """A lake in which two made tasks wait; a third was refused, and a fourth is nobody's making."""
    source = Source(trajectory="walk-1", signal="rare")
    acted = (Acted(role="explorer", by="policy"), Acted(role="abstracter", by="hindsight"))
    records: list[Any] = [run_record("grow", finished=True), Task(id="seed", env="terminal", run_id="grow")]
    for name, verdict in (("made/a", "waiting"), ("made/b", "waiting"), ("made/c", "refused")):
        how = Born(
            parent="seed",
            goal=Goal(words=f"bring <b>{name}</b>\u202e", data={"goal": name}),
            verdict=verdict,  # pyright: ignore[reportArgumentType]
            source=source,
            solution=(assistant("", call("session_run", {"command": "ls"}, "c1")),),
            similarity=0.25,
            acted=acted,
        )
        task = Task(id=name, env="terminal", instruction=how.goal.words, run_id="grow")
        records.append(with_born(task, how))
    with Lake.open(home / "lake") as lake:
        lake.append_sync(records)
    return home / "lake"


def test_made_tasks_are_let_in_or_refused_from_the_inbox(
    waiting: Path, serve: Callable[..., Console], page: Any
) -> None:
    console = serve()
    page.goto(console.at())
    page.locator("header .count", has_text="2").wait_for()
    page.get_by_role("link", name="Inbox").click()
    first = page.get_by_role("article", name="Task made/a of grow")
    first.get_by_text("bring <b>made/a</b>U+202E").first.wait_for()
    assert "explorer policy, abstracter hindsight" in first.inner_text() and page.get_by_role("article").count() == 2
    first.get_by_text("What solved it: 1 actions").click()
    first.get_by_text("session_run").wait_for()
    first.get_by_role("button", name="Approve").click()
    first.wait_for(state="detached")
    other = page.get_by_role("article", name="Task made/b of grow")
    other.get_by_label("Why, for task made/b").fill("it asks for nothing")
    other.get_by_role("button", name="Refuse").click()
    page.get_by_text("Nobody waits.").wait_for()

    def verdicts() -> dict[str, Born]:
        with Lake.open(waiting, mode="read") as lake:
            return {task.id: how for task, how in born(lake, "grow")}

    said = until(lambda: (found := verdicts())["made/b"].verdict != "waiting" and found)
    assert [said[name].verdict for name in ("made/a", "made/b", "made/c")] == ["accepted", "refused", "refused"]
    refused = said["made/b"].approval
    assert refused is not None and refused.by and refused.why == "it asks for nothing" and refused.at
    assert '"approve task"' in console.trail.read_text() and '"refuse task"' in console.trail.read_text()
    order = "{run: 'grow', task: 'made/a', approved: false}"
    post = f"method: 'POST', headers: {{'content-type': 'application/json'}}, body: JSON.stringify({order})"
    again = page.evaluate(f"fetch('/api/admit', {{{post}}}).then(each => each.json())")
    assert "made/a does not wait: it is accepted" in again["error"]
