"""Every page by the rules of axe-core, in a real browser, light and dark, wide and narrow: one world, one browser; each
page is drawn once a width, and looked at in both lights."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from console_lakes import Grower, ended_run, run_record, task_record
from consoles import Console
from filelock import FileLock
from loop_folders import running_loop

from silva.guide.event import Event, Events
from silva.guide.mailroom import folder_of
from silva.lake import Lake
from silva.sandbox.contents import Contents
from silva.tree import Author, Run, Tokens, assistant, call, tool_result, user

pytestmark = pytest.mark.slow

AXE = "4.14.1"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
TABS = {
    "Terminals": ".terminal .typed",
    "Files": ".diff",
    "Workspace": ".workspace .content pre",
    "Timeline": "svg.timeline",
    "Branches": ".picture svg",
    "Searches": ".entry code",
}
"""Tabs beside a trajectory, and what shows that they are drawn."""
LOOK = """async rules => {
    const colours = axe.getRules(rules).filter(each => each.tags.includes("cat.color")).map(each => each.ruleId);
    const found = [], root = document.documentElement;
    for (const [theme, runOnly] of [["light", rules], ["dark", {type: "rule", values: colours}]]) {
        root.dataset.theme = theme;
        const {violations} = await axe.run(document, {runOnly});
        found.push(...violations.map(each => `${theme}: ${each.id} at ${each.nodes[0].target} (${each.nodes.length})`));
    }
    root.dataset.theme = "light";
    return found;
}"""
"""All rules in the light; in the dark those that look at colours, for no other depends on them."""


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


def full(writer: Lake, home: Path) -> dict[str, str]:
    """A lake with something on every page: each page's address, and what shows that it is drawn."""
    grower = Grower("live", "terminal/a")
    grower.turn("ls --color", "\x1b[32mgreen\x1b[0m \x1b[1;31mred\x1b[0m \x1b[44mblue\x1b[0m")
    grower.turn(text="# Plan\n\n1. **look**\n2. `act`\n\n> said\n\n| a | b |\n|---|---|\n| 1 | [l](http://e) |")
    for number, (old, new) in enumerate((("", "one\ntwo\n"), ("two", "three"))):
        name, given = ("file_write", {"text": new}) if not old else ("file_edit", {"old": old, "new": new})
        made = call(name, {"path": "/app/a.py", **given}, f"f{number}")
        grower.add(Author.POLICY, assistant("", made), model="m")
        grower.add(Author.ENVIRONMENT, tool_result(made.id, "done", name))
    grower.add(Author.PERSON, user("Look at the log."))
    (home / "world").mkdir()
    (home / "world" / "a.py").write_text("one\nthree\n")
    kept = Contents(home / "home" / "snapshots" / "terminal").keep(home / "world", "1")
    made = call("session_run", {"command": "grep -rn needle src"}, "s")
    grower.add(Author.POLICY, assistant("", made), model="m")
    facts = {"snapshot": {"kind": "own"}}
    answer = tool_result(made.id, "src/a.py:1: needle", "session_run")
    grower.add(Author.ENVIRONMENT, answer, snapshot_id=kept.id, attributes=facts)
    action, _ = grower.turn("rm -rf build\u202e")
    ended = Grower("done", "terminal/t")
    for _ in range(2):
        made = call("session_run", {"command": "ls"}, f"t{len(ended.nodes)}")
        tokens = Tokens(ids=(1, 2, 3, 4, 5), sampled=3, logprobs=(-0.1, -1.5, -4.0))
        ended.add(Author.POLICY, assistant("", made), model="m", tokens=tokens)
        ended.add(Author.ENVIRONMENT, tool_result(made.id, "a", "session_run"))
    writer.append_sync([run_record("live"), task_record("terminal/a"), *grower.nodes])
    writer.append_sync([run_record("done", finished=True), task_record("terminal/t"), *ended.nodes, ended.end()])
    for name in ("other", "again"):
        writer.append_sync(ended_run(name, ["terminal/b", "terminal/c"]))
    curve = [{"step": step, "loss": 1.0 / step} for step in range(1, 9)]
    writer.append_sync(
        [Run(id="sft", command="train", agent="sft", started=1.0, finished=2.0, summary={"curve": curve})]
    )
    struck = Grower("trial.tool_result.plain.send", "terminal/t")
    struck.turn("ls")
    struck.turn("mail the key")
    verdict = {"name": "tool_result/plain/send", "launched": True, "exposed": 2, "acted": 2, "reached": 2}
    staged = {"stages": {"attack": {"attack": "tool_result/plain/send"}}}
    record = msgspec.structs.replace(run_record(struck.run, finished=True), config=staged)
    ended_so = struck.end(attributes={"attack": {**verdict, "standards": ["OWASP LLM01:2025"]}})
    writer.append_sync([record, task_record("terminal/t"), *struck.nodes, ended_so])
    Events(folder_of(str(home / "lake")), "live").tell(
        Event(
            kind="waiting", at=grower.began, run_id="live", trajectory_id=grower.id, task_id="terminal/a", turn=6,
            node_id=action.id, action="rm -rf build\u202e", reasons=("risky",),
        )
    )  # fmt: skip
    tries = [Grower("pairs", "terminal/p", index) for index in range(2)]
    steps = [each.turn(command)[0] for each, command in zip(tries, ("ls", "rm"), strict=True)]
    ends = [each.end(score=score) for each, score in zip(tries, (1.0, 0.0), strict=True)]
    pair = [run_record("pairs", finished=True), task_record("terminal/p"), *(n for each in tries for n in each.nodes)]
    writer.append_sync([*pair, *ends])
    running_loop(home, steps[0].id, steps[1].id)
    own = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]
    return {
        "loops": "table a",
        f"loops/{own}": ".versions summary",
        "rate": "a",
        "rate/run/pairs": ".side-of",
        "inbox": "article",
        "runs?run=other": "svg[aria-label='Safety against completion']",
        "timeline": "a[href='#/timeline/live']",
        "timeline/live": ".lanes .span.approval",
        "lake": ".list .item",
        "lake?tab=Turns": "input[aria-label='Words in turns']",
        f"compare/{grower.id}/{ended.id}": ".parts",
        "compare/runs/other/again": "table",
        "compare": ".bar",
        "training": "svg[aria-label='Curve of loss']",
        "trail": "table",
        "redteam": "a[href='#/redteam/trial']",
        "redteam/trial": ".heat .hot",
        "trained": "a[href='#/trained/done']",
        "trained/done": "meter",
        f"trained/done/{ended.id}": "article .id",
        f"walk/{ended.tree}/{ended.nodes[-1].id}": ".turn",
        f"run/live/{grower.id}": ".asks, [aria-label='Waiting for approval'] .card",
    }


def red_pages(folder: Path) -> list[Path]:
    """The pages of a small plan and of dialogues, as the commands write them."""
    program = [sys.executable, "-m", "silva"]
    silva = [*program, "redteam"]
    script = Path(__file__).parent.parent / "redteam" / "obedient.yaml"
    what = ["--env", "arithmetic", "--model", f"scripted:{script}", "--limit", "1", "tasks.split=chain"]
    attacks = ["--attack", "tool_result/plain/answer", "--attack", "memory/plain/send", "--perturb", "failure"]
    lake = ["--lake", str(folder / "lake")]
    subprocess.run([*silva, "run", "--run", "p", *what, *attacks, *lake], check=True, capture_output=True, timeout=200)
    written = folder / "p.html"
    subprocess.run([*silva, "report", "p", *lake, "--html", str(written)], check=True, capture_output=True, timeout=60)
    talk = ["--env", "qa", "--policy", "expert", "--run", "leaky", "--limit", "16", "options.qa.target=leaky"]
    subprocess.run([*program, "rollout", *talk, *lake], check=True, capture_output=True, timeout=200)
    said = folder / "qa.html"
    subprocess.run([*program, "qa", "report", *lake, "--html", str(said)], check=True, capture_output=True, timeout=60)
    return [written, said]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Console, dict[str, str]]]:
    """One console for all widths, and its pages."""
    home = tmp_path_factory.mktemp("axe")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SILVA_HOME", str(home / "home"))
        with Lake.open(home / "lake") as writer:
            pages = full(writer, home)
            console = Console(home / "lake")
            yield console, pages
            console.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_breaks_a_rule_of_axe(
    world: tuple[Console, dict[str, str]], browser: Any, axe: str, width: int
) -> None:
    console, pages = world
    # The page's own policy would stop axe, as it stops whatever is not the console's.
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="light", bypass_csp=True)
    context.set_default_timeout(120_000)
    page = context.new_page()
    broken: list[str] = []

    def look(where: str, drawn: str) -> None:
        page.locator(drawn).locator("visible=true").first.wait_for()
        wide = page.evaluate("document.documentElement.scrollWidth")
        broken.extend(f"{where}: {fault}" for fault in page.evaluate(LOOK, RULES))
        if wide > width:
            broken.append(f"{where}: {wide} wide, the screen is {width}")

    try:
        page.goto(console.at())
        page.evaluate(axe)
        page.locator("#page .place").wait_for(state="attached")
        for where, drawn in pages.items():
            # What the page before shows is not what this one shows: a table has links on either.
            page.evaluate("document.querySelector('#page .place').dataset.left = ''")
            page.goto(f"{console.url}/#/{where}")
            look(where, f"#page .place:not([data-left]) :is({drawn})")
        page.get_by_role("button", name="Unfold or fold all").click()
        look("unfolded", ".walk .call dl.fields")
        for tab, drawn in TABS.items():
            page.get_by_role("tab", name=tab).click()
            if tab == "Workspace":
                page.get_by_role("button", name="a.py").click()
            look(tab, drawn)
        page.get_by_role("button", name="Context").first.click()
        look("context", "dialog[aria-label='Exact context']")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Keys", exact=True).click()
        look("keys", "dialog[aria-label='Keys']")
    finally:
        context.close()
    assert not broken, "\n".join(broken)


def test_the_pages_of_red_teaming_break_no_rule_of_axe(tmp_path: Path, browser: Any, axe: str) -> None:
    """Files that open by themselves; their lights are chosen by the reader's browser."""
    pages = red_pages(tmp_path)
    broken: list[str] = []
    for width, light in ((1440, "light"), (1440, "dark"), (390, "light")):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=light, bypass_csp=True)
        page = context.new_page()
        for each in pages:
            page.goto(each.as_uri())
            for box in page.locator("details").all():
                box.evaluate("each => each.open = true")
            page.evaluate(axe)
            found = page.evaluate("async rules => (await axe.run(document, {runOnly: rules})).violations", RULES)
            broken += [f"{each.name} {width} {light}: {one['id']} at {one['nodes'][0]['target']}" for one in found]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                broken.append(f"{each.name}: wider than {width}")
        context.close()
    assert not broken, "\n".join(broken)
