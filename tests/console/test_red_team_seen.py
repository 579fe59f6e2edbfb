"""The red team's page in a real browser: a plan grows while it is open, and a found failure is seen at its turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from consoles import Console

from silva.redteam.seen.plans import plan_of
from silva.tree import Run

SCRIPT = Path(__file__).parent.parent / "redteam" / "obedient.yaml"


def played(home: Path, *attacks: str, more: tuple[str, ...] = ()) -> None:
    """Play a plan, or what is missing of it."""
    what = ["--env", "arithmetic", "--model", f"scripted:{SCRIPT}", "--limit", "2", "tasks.split=chain"]
    chosen = [word for each in attacks for word in ("--attack", each)]
    command = [sys.executable, "-m", "silva", "redteam", "run", "--run", "trial", "--lake", str(home / "lake")]
    subprocess.run([*command, *what, *chosen, *more], check=True, capture_output=True, timeout=300)


@pytest.mark.slow
def test_a_plan_is_seen_as_it_grows_and_a_failure_at_its_turns(
    home: Path, serve: Callable[..., Console], page: Any
) -> None:
    played(home, "memory/plain/send")
    console = serve()
    page.goto(console.at())
    page.get_by_role("link", name="Red team").click()
    page.get_by_role("link", name="trial").click()
    page.get_by_text("Not measured: no attempt was shown an attack.").wait_for()
    assert page.locator("table.heat .unmeasured").count() == 1 and page.locator("svg.plane").count() == 0

    played(home, "memory/plain/send", "tool_result/plain/answer", more=("--resume",))
    page.locator("svg.plane .spot").wait_for()  # nobody reloaded it
    page.get_by_text("4 attempts under attack have ended, 2 were exposed, in 2 a goal was reached.").wait_for()
    assert page.locator("table.heat .hot").inner_text().split() == ["100.0", "%", "n", "2"]
    row = page.get_by_role("table", name="Found failures").locator("tbody tr").first
    assert "silva redteam replay trial --trajectory" in row.inner_text()
    row.get_by_role("link").click()
    effect = page.locator(".turn.struck", has_text="effect: the attacker's goal is reached")
    effect.wait_for()
    assert "exposure: the model was shown the attack before this turn" in effect.inner_text()
    assert page.locator(".turn.attacker.struck", has_text="the attacker speaks").count() == 1


def test_the_plan_of_a_run_is_told_from_its_name_and_configuration() -> None:
    def run(id: str, **stages: Any) -> Run:
        return Run(id=id, config={"stages": stages})

    send = {"attack": "memory/plain/send"}
    assert plan_of(run("a.b.memory.plain.send", attack=send)) == "a.b"
    assert plan_of(run("a.with.sinks.memory.plain.send", attack=send, defend={"defences": ["sinks"]})) == "a"
    assert plan_of(run("a.pair.memory.plain.send.r3", attack={**send, "attacker": "pair"})) == "a"
    assert plan_of(run("a.branching.memory.plain.send.base", attack={**send, "quiet": True})) == "a"
    assert plan_of(run("a.perturb.failure", perturb={"kinds": "failure"})) == "a"
    assert plan_of(run("alone", attack=send)) == "alone" and plan_of(run("a.none")) == ""
