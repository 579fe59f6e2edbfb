"""Every page by the rules of axe-core, in a real browser, light and dark, wide and narrow."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from console_lakes import Grower, ended_run, run_record, task_record
from consoles import Console
from filelock import FileLock

from silva.guide.event import Event, Events
from silva.guide.mailroom import folder_of
from silva.lake import Lake
from silva.tree import Author, Tokens, assistant, call, tool_result, user

pytestmark = pytest.mark.slow

AXE = "4.14.1"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
TABS = ("Terminals", "Files", "Workspace", "Timeline", "Branches", "Searches")


@pytest.fixture(scope="module")
def axe(request: pytest.FixtureRequest) -> str:
    """axe-core's code, from npm, kept in pytest's cache."""
    cache = request.config.cache
    assert cache is not None
    folder = Path(cache.mkdir(f"axe-core-{AXE}"))
    code = folder / "node_modules" / "axe-core" / "axe.min.js"
    npm = shutil.which("npm")
    with FileLock(folder / "lock"):
        if not code.exists():
            if npm is None:
                pytest.skip("axe-core comes with npm, which is not installed")
            command = [npm, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run([*command, f"axe-core@{AXE}"], capture_output=True, text=True, timeout=300)
            if done.returncode:
                pytest.skip(f"npm gives no axe-core {AXE}: {done.stderr.strip()[-200:]}")
    return code.read_text(encoding="utf-8")


def full(writer: Lake, home: Path) -> str:
    """A lake with something on every page; the id of an attempt under way that waits for approval."""
    grower = Grower("live", "terminal/a")
    grower.turn("ls --color", "\x1b[32mgreen\x1b[0m \x1b[1;31mred\x1b[0m \x1b[44mblue\x1b[0m")
    grower.turn(text="# Plan\n\n1. **look**\n2. `act`\n\n> said\n\n| a | b |\n|---|---|\n| 1 | [l](http://e) |")
    for number, (old, new) in enumerate((("", "one\ntwo\n"), ("two", "three"))):
        name, given = ("file_write", {"text": new}) if not old else ("file_edit", {"old": old, "new": new})
        made = call(name, {"path": "/app/a.py", **given}, f"f{number}")
        grower.add(Author.POLICY, assistant("", made), model="m")
        grower.add(Author.ENVIRONMENT, tool_result(made.id, "done", name))
    grower.add(Author.PERSON, user("Look at the log."))
    grower.turn("grep -rn needle src", "src/a.py:1: needle")
    action, _ = grower.turn("rm -rf build\u202e")
    ended = Grower("done", "terminal/t")
    for _ in range(2):
        made = call("session_run", {"command": "ls"}, f"t{len(ended.nodes)}")
        tokens = Tokens(ids=(1, 2, 3, 4, 5), sampled=3, logprobs=(-0.1, -1.5, -4.0))
        ended.add(Author.POLICY, assistant("", made), model="m", tokens=tokens)
        ended.add(Author.ENVIRONMENT, tool_result(made.id, "a", "session_run"))
    writer.append_sync([run_record("live"), task_record("terminal/a"), *grower.nodes])
    writer.append_sync([run_record("done", finished=True), task_record("terminal/t"), *ended.nodes, ended.end()])
    writer.append_sync(ended_run("other", ["terminal/b", "terminal/c"]))
    Events(folder_of(str(home / "lake")), "live").tell(
        Event(
            kind="waiting", at=grower.began, run_id="live", trajectory_id=grower.id, task_id="terminal/a", turn=6,
            node_id=action.id, action="rm -rf build\u202e", reasons=("risky",),
        )
    )  # fmt: skip
    return grower.id


def faults(page: Any, where: str) -> list[str]:
    found = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)["violations"]
    return [f"{where}: {each['id']} at {each['nodes'][0]['target']} ({len(each['nodes'])})" for each in found]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 420)])
def test_no_page_breaks_a_rule_of_axe(
    writer: Lake, serve: Callable[..., Console], browser: Any, axe: str, home: Path, scheme: str, width: int
) -> None:
    attempt = full(writer, home)
    done = Grower("done", "terminal/t").id
    console = serve()
    # The page's own policy would stop axe, as it stops whatever is not the console's.
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    context.set_default_timeout(120_000)
    page = context.new_page()
    broken: list[str] = []
    try:
        page.goto(console.at())
        page.evaluate(axe)
        pages = ["inbox", "runs", "lake", "lake?tab=Turns", f"compare/{attempt}/{done}", "training", "trail"]
        for where in [*pages, "trained", "trained/done", f"trained/done/{done}", f"run/live/{attempt}"]:
            page.goto(f"{console.url}/#/{where}")
            page.locator("#page .place > *").first.wait_for(state="attached")
            page.wait_for_timeout(600)
            broken += faults(page, where)
        page.get_by_role("button", name="Unfold or fold all").click()
        page.get_by_role("list", name="Trajectory", exact=True).get_by_role("button", name="Context").first.wait_for()
        broken += faults(page, "unfolded")
        for tab in TABS:
            page.get_by_role("tab", name=tab).click()
            page.wait_for_timeout(600)
            broken += faults(page, tab)
        page.get_by_role("button", name="Keys", exact=True).click()
        broken += faults(page, "keys")
    finally:
        context.close()
    assert not broken, "\n".join(broken)
