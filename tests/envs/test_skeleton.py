"""A package that `silva envs new` writes: refused names, files, and an environment that scores as it should at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from silva.cli.main import run as silva
from silva.envs import Registry
from silva.envs.check import check
from silva.envs.skeleton import files
from silva.errors import Exit


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((name, "is no name") for name in ("", "3d", "Shelf", "a_b", "a/b", "../a", "a b", "-a", "a-", "ä", "a" * 41)),
        ("class", "word of Python's own"),
        ("json", "word of Python's own"),
        ("arithmetic", "there is an environment arithmetic already"),
        ("numpy", "a package numpy is installed here already"),
        ("silva", "a package silva is installed here already"),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_one_line_and_nothing_is_written(
    tmp_path: Path, name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--dry-run"]):
        assert silva(["envs", "new", "--into", str(tmp_path), *more, "--", name]) == Exit.USAGE
        said = capsys.readouterr()
        assert why in said.err and said.err.count("\n") == 1 and said.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_is_there_is_left_as_it_is(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "tidy"
    {
        "folder": there.mkdir,
        "file": lambda: there.write_text("mine"),
        "link": lambda: there.symlink_to(tmp_path / "nowhere"),
    }[kind]()
    assert silva(["envs", "new", "tidy", "--into", str(tmp_path)]) == Exit.USAGE
    assert "is there already" in capsys.readouterr().err
    assert [each.name for each in tmp_path.rglob("*")] == ["tidy"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert silva(["envs", "new", "tidy", "--into", str(tmp_path / "file" / "below")]) == Exit.USAGE
    assert "cannot be written" in capsys.readouterr().err


def test_a_dry_run_lists_the_files_and_writes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert silva(["envs", "new", "tidy-shelf", "--into", str(tmp_path), "--dry-run"]) == Exit.OK
    listed = {Path(line) for line in capsys.readouterr().out.splitlines()}
    assert list(tmp_path.iterdir()) == []
    assert silva(["envs", "new", "tidy-shelf", "--into", str(tmp_path)]) == Exit.OK
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == listed
    assert tmp_path / "tidy-shelf/src/tidy_shelf/environment.py" in listed
    assert "silva envs test tidy-shelf" in capsys.readouterr().out


async def test_the_environment_scores_as_it_should(tmp_path: Path) -> None:
    assert silva(["envs", "new", "tidy-shelf", "--into", str(tmp_path)]) == Exit.OK
    source = tmp_path / "tidy-shelf" / "src" / "tidy_shelf" / "environment.py"
    for split in ("test", "train"):
        made = await check(Registry.load().entry(f"{source}:TidyShelf"), n=200, split=split)
        assert made.holds and not made.differs
        assert [(policy.policy, policy.score) for policy in made.policies] == [("expert", 1.0), ("null", 0.0)]


def test_every_name_gives_python_that_compiles() -> None:
    for name in ("a", "tidy", "tidy-shelf", "a1-b2-c3", "x" * 40):
        for place, text in files(name).items():
            if place.endswith(".py"):
                compile(text, place, "exec")
            assert not re.search(r"{[{%]|[%}]}", text), f"{place} holds what a template should have filled"
