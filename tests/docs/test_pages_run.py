"""README.md and the tutorials from top to bottom, each in one folder: what they say to type, and what they show."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from page_blocks import ROOT, Block, Reader, blocks, is_shown

from installed_programs import python_program
from silva.envs import Registry
from silva.envs.install import installed
from silva.sandbox.system import probe

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
EVERY_TIME = ("README", "your-environment")
NEEDED = ("babyai", "terminal")
INTO_A_FILE = re.compile(r"> \S+ 2>&1 &$")


def installing(folder: Path) -> None:
    """`make install`: what the tests run in; that the target is there is seen here."""
    subprocess.run(["make", "-n", "-C", ROOT, "install"], check=True, capture_output=True, timeout=60)


def mini(folder: Path) -> None:
    """mini-swe-agent, installed once for all tests."""
    words = next(block.body for block in blocks(README) if "mini-swe-agent==" in block.body).split()
    packages = [word for word in words if "==" in word]
    (folder / "mini").symlink_to(python_program("mini-swe-agent", *packages).parent)


INSTEAD = {"make install": installing, ". .venv/bin/activate": lambda folder: None, "python3 -m venv mini": mini}

needs = pytest.mark.skipif(
    not all(installed(Registry.load().entry(name)) for name in NEEDED) or bool(probe().problem),
    reason=f"needs {' and '.join(NEEDED)} (silva envs install) and sandboxes",
)


@pytest.mark.slow
@needs
@pytest.mark.parametrize(
    "page",
    # README.md is typed in every run of CI, and so is how an environment is made; the other tutorials walk README.md's
    # ways more slowly (play and look, approve and reject, train and measure), and are typed weekly.
    [pytest.param(page, marks=[] if page.stem in EVERY_TIME else [pytest.mark.weekly]) for page in PAGES],
    ids=lambda page: page.stem,
)
def test_a_page_does_what_it_says_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with Reader(tmp_path, INSTEAD) as reader:
        for block in blocks(page):
            if block.how != "elsewhere":
                reader.follow(block)


@pytest.mark.slow
@pytest.mark.skipif(bool(probe().problem), reason="needs sandboxes")
def test_the_loops_of_the_readme_that_stand_for_themselves_end_in_their_reports(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = [block for block in blocks(README) if block.how == "elsewhere"]
    assert len(found) == 2
    with Reader(tmp_path) as reader:
        for block in found:
            reader.follow(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_shows_something_and_no_run_has_a_name_twice(page: Path) -> None:
    of = [block for block in blocks(page) if block.kind == "console"]
    quiet = (block.body for block in of if block.shows is None and not block.commands[0].startswith(tuple(INSTEAD)))
    silent = [body for body in quiet if not INTO_A_FILE.search(body)]
    assert not silent, "what a reader will see is shown below each command"
    runs = [name for block in of for name in re.findall(r"silva rollout [^$]*?--run (\S+)", block.body)]
    assert len(set(runs)) == len(runs) and (runs or page != README)


@pytest.mark.parametrize(
    ("expected", "told", "same"),
    [
        ("a  b\n", "a b\n\n", True),
        ("a b\n", "a c\n", False),
        ("a … c\n", "a b b c\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nd\n", True),
        ("a\nd\n", "a\nb\nd\n", False),
        ("a\n", "a\nb\n", False),
        (" ──── \na\n", "a\n", True),
        ("a.c\n", "abc\n", False),
    ],
)
def test_what_is_shown_is_compared_but_for_what_may_differ(expected: str, told: str, same: bool) -> None:
    assert is_shown(expected, told) is same


def test_a_reader_keeps_one_shell_and_sees_what_differs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '```console\n$ export SEEN=once\n$ cd "$PWD"\n```\n'
        '```text title="a/note.txt"\nhello\n```\n'
        "<!-- run: again -->\n```console\n$ echo x >> looks; wc -l < looks\n```\n```text\n3\n```\n"
        "```console\n$ echo $SEEN \\\n    more; cat a/note.txt\n```\n```text\nonce more\n…\n```\n"
        "```console\n$ false\n```\n"
    )
    *right, wrong = blocks(page)
    with Reader(tmp_path) as reader:
        for block in right:
            reader.follow(block)
        with pytest.raises(AssertionError, match="ended with 1"):
            reader.follow(wrong)
        with pytest.raises(AssertionError, match="should show"):
            reader.follow(Block("console", "$ echo 1\n", shows="2\n"))
