"""Makes the pictures of the console's guide from a real lake: `python docs/screenshots.py`; needs playwright, Chromium.

scripted agent, expert ─▶ silva rollout ─▶ lake ─▶ silva console ─▶ Chromium ─▶ docs/images/console/*.png
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def main() -> None:
    """Grow a small lake, open every page, keep a picture of each."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--chromium", default=os.environ.get("SILVA_CHROMIUM", "/usr/bin/chromium"))
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "images" / "console")
    alone = {"red-team": _red_team, "data-engine": _data_engine, "loops": _loops}
    options.add_argument("--only", choices=sorted(alone), help="make the pictures of that page alone")
    given = options.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        shutil.copytree(EXAMPLES, room / "examples")
        env = dict(os.environ)  # silva envs install terminal babyai
        for name, made in alone.items():
            if given.only in (None, name):
                made(room, env, given.chromium, given.output)
        if given.only:
            return
        tasks = ["--task", "terminal/guard-key", "--task", "terminal/tidy-caches", "--task", "terminal/fix-invoice"]
        roll = [sys.executable, "-m", "silva", "rollout", "--env", "terminal", "--lake", "lake"]
        subprocess.run([*roll, "--policy", "expert", "--run", "expert", *tasks], cwd=room, env=env, check=True)
        subprocess.run([*roll, "--policy", "null", "--run", "null", *tasks], cwd=room, env=env, check=True)
        _trained(room, env)
        with _opened(room, env, given.chromium, "lake") as (page, base):
            _trained_page(page, base, given.output)  # while nobody else writes the lake
        model = [
            "--model",
            "scripted:examples/guided/night.yaml",
            "--run",
            "night",
            *tasks,
            "--pool",
            "3",
            "budget.turns=4000",
            "snapshots.every=1",
        ]
        run = subprocess.Popen([*roll, *model], cwd=room, env=env)
        try:
            time.sleep(15)
            _pictures(room, env, given.chromium, given.output)
        finally:
            run.kill()  # it would go on to the end of its episodes first
            run.wait()
        asks = [*roll[:-2], "--lake", "asking", *model[:2], "--run", "evening", *tasks[:4], "guidance.approve=all"]
        run = subprocess.Popen(asks, cwd=room, env=env)
        try:
            _inbox(room, env, given.chromium, given.output)
        finally:
            run.kill()
            run.wait()


def _red_team(room: Path, env: dict[str, str], chromium: str, output: Path) -> None:
    """The plan of the guide against three stand-ins for models, with and without a defence."""
    silva = [sys.executable, "-m", "silva", "redteam", "run", "--plan", "examples/redteam/sums.yaml", "--lake", "red"]
    subprocess.run(silva, cwd=room, env=env, check=True)
    with _opened(room, env, chromium, "red") as (page, base):
        page.goto(f"{base}/#/redteam/sums")
        page.locator(".heat .hot").first.wait_for()
        _keep(page, output / "redteam.png")


def _data_engine(room: Path, env: dict[str, str], chromium: str, output: Path) -> None:
    """A job that has run, and a tool that a pilot derived and nobody has let in yet."""
    row = '{"instruction": "Say why %s matters to %s.", "output": "Because %s"}\n'
    whom = ("a farmer", "a pilot", "a sailor", "a baker", "a painter")
    told = [
        row % (("rain", "snow", "wind")[n % 3], whom[n % 5], "it changes the day, " * (1 + n % 30)) for n in range(60)
    ]
    (room / "alpaca.jsonl").write_text("".join(told), encoding="utf-8")
    silva = [sys.executable, "-m", "silva"]
    intent = "deduplicate alpaca.jsonl, keep at most 40 rows and save it as clean.jsonl"
    pilot = ["elf", "pilot", "rows of alpaca.jsonl", "--check", "rows >= 20 and max(words) <= 80", "--lake", "engine"]
    first = [
        "rollout",
        "--env",
        "arithmetic",
        "--policy",
        "expert",
        "--limit",
        "3",
        "--run",
        "expert",
        "--lake",
        "engine",
    ]
    for words in (first, ["elf", "run", intent, "--lake", "engine", "--allow", "write"], pilot):
        subprocess.run([*silva, *words], cwd=room, env=env, check=True)
    with _opened(room, env, chromium, "engine") as (page, base):
        page.goto(f"{base}/#/elf")
        page.get_by_role("button", name="Promote to a tool").wait_for()
        _keep(page, output / "data-engine.png")


def _loops(room: Path, env: dict[str, str], chromium: str, output: Path) -> None:
    """A loop that prefers steps, of a policy made from nothing; and its pairs, to be rated."""
    silva = [sys.executable, "-m", "silva", "loop", "sport", "examples/sport/tiny.yaml", "--one-process"]
    subprocess.run(silva, cwd=room, env=env, check=True)
    _loop_pages(room, env, chromium, output)


def _loop_pages(room: Path, env: dict[str, str], chromium: str, output: Path) -> None:
    with _opened(room, env, chromium, "loops/sport/lake") as (page, base):
        page.goto(f"{base}/#/loops")
        page.get_by_role("table", name="Loops").get_by_role("link").click()
        page.get_by_role("table", name="Pairs", exact=True).wait_for()
        page.get_by_role("list", name="Stages").locator("li").nth(-6).evaluate("each => each.scrollIntoView()")
        _keep(page, output / "loops.png")
        page.get_by_role("link", name="Rate them blind").click()
        page.get_by_role("region", name="left step").wait_for()
        _keep(page, output / "rate.png")


def _trained(room: Path, env: dict[str, str]) -> None:
    """A policy made from nothing, taught by an expert, as in the README, but shorter."""
    silva = [sys.executable, "-m", "silva"]
    roll = ["--policy", "expert", "--agent", "react", "--renderer", "tiny", "--split", "train", "--run", "ball"]
    for words in (
        ["models", "tiny", "--env", "babyai", "--output", "tiny"],
        ["rollout", "--env", "babyai", "--lake", "lake", *roll, "--limit", "30"],
        ["train", "samples", "--lake", "lake", "--run", "ball", "--logprobs", "optional", "--output", "expert.samples"],
        ["train", "run", "examples/training/sft.yaml", "curves.lake=lake", "steps=24"],
        ["policy", "register", "runs/sft/policy", "--lake", "lake", "--line", "ball", "--base", "tiny"],
    ):
        subprocess.run([*silva, *words], cwd=room, env=env, check=True)


@contextmanager
def _opened(room: Path, env: dict[str, str], chromium: str, lake: str) -> Iterator[tuple[Any, str]]:
    """A page of a console over a lake, and the console's address."""
    from playwright.sync_api import sync_playwright

    console = subprocess.Popen(
        [sys.executable, "-m", "silva", "console", "--lake", lake, "--trail", "trail.jsonl"],
        cwd=room,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert console.stdout is not None
        address = console.stdout.readline().strip()
        with sync_playwright() as running:
            browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1360, "height": 820}, color_scheme="light")
            page.set_default_timeout(120_000)
            page.goto(address)
            yield page, address.partition("/?")[0]
            browser.close()
    finally:
        console.terminate()
        console.wait(60)


def _inbox(room: Path, env: dict[str, str], chromium: str, output: Path) -> None:
    while not (room / "asking" / "lake.json").exists():
        time.sleep(0.5)
    with _opened(room, env, chromium, "asking") as (page, base):
        page.goto(f"{base}/#/inbox")
        page.get_by_role("article").nth(1).wait_for()
        _keep(page, output / "inbox.png")


def _pictures(room: Path, env: dict[str, str], chromium: str, output: Path) -> None:
    with _opened(room, env, chromium, "lake") as (page, base):
        _runs(page, base, output)
        _run(page, base, output)
        _lake(page, base, output)
        _compare(page, output)
        page.goto(f"{base}/#/training")
        page.get_by_role("img", name="Curve of loss", exact=True).wait_for()
        _keep(page, output / "training.png")


def _trained_page(page: Any, base: str, output: Path) -> None:
    page.goto(f"{base}/#/trained/ball")
    page.get_by_role("table", name="Trajectories and their loss").get_by_role("link").nth(1).click()
    page.get_by_role("article", name="turn 2:").get_by_role("button", name="Mask", exact=True).click()
    page.get_by_role("article", name="turn 2: masked").wait_for()
    page.get_by_role("article", name="turn 1:").get_by_text("Ids", exact=True).click()
    _keep(page, output / "trained.png")


def _runs(page: Any, base: str, output: Path) -> None:
    page.goto(f"{base}/#/runs")
    page.get_by_role("table", name="Runs").get_by_role("row", name=re.compile("^expert")).click()
    page.get_by_role("img", name="Safety against completion").wait_for()
    _keep(page, output / "runs.png")


def _run(page: Any, base: str, output: Path) -> None:
    page.goto(f"{base}/#/run/night")
    page.get_by_label("Words").fill("The totals go into totals.csv, one line a customer.")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("log", name="What was said").get_by_text("heard").first.wait_for()
    page.get_by_label("Jump to turn").fill("3")
    page.keyboard.press("Enter")
    page.keyboard.press("o")
    page.get_by_role("list", name="Trajectory", exact=True).get_by_text("A first script.").first.wait_for()
    page.get_by_role("button", name="Back to here").first.wait_for()
    _keep(page, output / "run.png")
    page.keyboard.press("o")
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_role("img", name="Timeline of").wait_for()
    page.get_by_role("button", name="Light or dark").click()
    _keep(page, output / "run-dark.png")
    page.get_by_role("button", name="Light or dark").click()


def _lake(page: Any, base: str, output: Path) -> None:
    page.goto(f"{base}/#/lake")
    page.get_by_label("Condition on trajectories").fill("env = 'terminal' and turns >= 1")
    page.keyboard.press("Enter")
    page.get_by_role("status", name="Trajectories found").get_by_text("6 trajectories").wait_for()
    _keep(page, output / "lake.png")
    page.get_by_label("Words in trajectories").fill("guard-key")
    page.keyboard.press("Enter")
    page.get_by_role("status", name="Trajectories found").get_by_text("2 trajectories").wait_for()
    for key in "jxjx":
        page.keyboard.press(key)


def _compare(page: Any, output: Path) -> None:
    page.get_by_role("link", name="compare them").click()
    page.get_by_role("status", name="Divergence").wait_for()
    _keep(page, output / "compare.png")


def _keep(page: Any, path: Path) -> None:
    page.wait_for_timeout(1_000)
    page.screenshot(path=path)
    size = path.stat().st_size
    if size > 220_000:
        raise SystemExit(f"{path.name} has {size:,} bytes: 220,000 are the most")
    print(f"{path} {size:,} bytes")


if __name__ == "__main__":
    main()
