"""Programs that the slow tests drive, installed once into the user's cache: NAME-VERSION, under a file lock."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from platformdirs import user_cache_dir

CACHE = Path(user_cache_dir("silva")) / "test-programs"
LONGEST = 900
"""Seconds one installation may take."""


def python_program(name: str, *packages: str) -> Path:
    """The `bin` folder of a virtual environment with these packages; the first gives the version. `name` is a word."""

    def install(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=LONGEST)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True, timeout=LONGEST)

    return _installed(f"{name}-{packages[0].rpartition('==')[2]}", install) / "bin"


def node_program(name: str, package: str, program: str) -> Path:
    """A program of an npm package, `package` being NAME@VERSION; the test is skipped where there is no node."""
    return node_folder(name, package) / "node_modules" / ".bin" / program


def node_folder(name: str, package: str, *beside: str) -> Path:
    """The folder an npm package is installed in, behind others (a node of its own) that its installation needs."""
    for needed in ("node", "npm"):
        if shutil.which(needed) is None:
            pytest.skip(f"{package} needs {needed}, which is not here (Debian: apt-get install nodejs npm)")

    def install(folder: Path) -> None:
        own = {**os.environ, "PATH": f"{folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"}
        for each in (*beside, package):
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, each]
            subprocess.run(command, check=True, timeout=LONGEST, env=own)

    return _installed(f"{name}-{package.rpartition('@')[2]}", install)


def _installed(name: str, install: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, complete; one that was broken off is made anew."""
    folder, complete = CACHE / name, CACHE / f"{name}.complete"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / f"{name}.lock"):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            install(folder)
            complete.touch()
    return folder
