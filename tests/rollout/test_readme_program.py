"""README.md's commands under "A program as an agent", run as they are written there, and what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from installed_programs import python_program

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "README.md").read_text().split("\n## A program as an agent\n")[1].split("\n## ")[0]


def commands() -> list[tuple[str, str]]:
    """Each command of the section's console blocks, and what is shown below it."""
    shown = "\n".join(re.findall(r"^```console\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL))
    found: list[tuple[str, str]] = []
    for piece in re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]:
        lines = piece.rstrip("\n").split("\n")
        end = next(place for place, line in enumerate(lines) if not line.endswith("\\"))
        found.append(("\n".join(lines[: end + 1]), "\n".join(lines[end + 1 :]).rstrip()))
    return found


@pytest.mark.slow
def test_the_commands_of_the_readme_do_what_it_shows(tmp_path: Path) -> None:
    (install, _), (rollout, _), (listing, table), (replay, same), (export, _) = commands()
    packages = [word for word in shlex.split(install) if "==" in word]
    (tmp_path / "mini").symlink_to(python_program("mini-swe-agent", *packages).parent)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environ = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}

    def told(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    assert install.startswith("python3 -m venv mini && mini/bin/pip install")
    told(rollout)
    head, row, *_ = told(listing).strip().splitlines()
    shown_head, shown_row, *_ = table.strip().splitlines()
    assert head.split() == shown_head.split()
    kept = ("id", "run", "task", "try", "status", "score", "turns")
    assert cells(head, row, kept) == cells(shown_head, shown_row, kept)
    assert told(replay).strip() == same
    told(export)
    assert (tmp_path / "mini.eval").stat().st_size > 0


def cells(head: str, row: str, names: tuple[str, ...]) -> list[str]:
    """The row's values in the columns of these names."""
    return [row[match.start() :].split()[0] for name in names if (match := re.search(rf"\b{name}\b", head))]
