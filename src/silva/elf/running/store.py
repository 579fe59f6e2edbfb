"""Artefacts kept by the digest of their content, and which step gave which.

    results/ab/ab12…   an artefact's bytes          cache/KEY   the digest that a pure step gave

A key is made of the tool's name, version and code, its settings and the digests of what it was given: two data sets of
equal size have different keys, and a tool that was changed finds nothing of its old self.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from silva import __version__
from silva.elf.artefact import Artefact, content, decoded, encoded
from silva.elf.tool import Card
from silva.errors import StoreError
from silva.lake.durable import refusals, write_whole
from silva.tree import Json, digest


class Store:
    """The results of an engine's home.

    Args:
        home: its folder; made with the first result.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def put(self, artefact: Artefact) -> str:
        """Keep an artefact, durably; its digest. Raises StoreError."""
        data = encoded(artefact)
        name = content(data)
        path = self._path(name)
        if not path.exists():
            with refusals(f"result {path}"):
                write_whole(path, data)
        return name

    def get(self, name: str) -> Artefact:
        """The artefact of that digest.

        Raises:
            StoreError: it is not there, or is another one.
        """
        path = self._path(name)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreError(f"result {path}: cannot be read ({error.strerror}); run the job anew") from error
        if content(data) != name:
            raise StoreError(f"result {path}: is damaged (its content has another digest); remove it, run the job anew")
        try:
            return decoded(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"result {path}: is of another version ({error}); run the job anew") from error

    def known(self, key: str) -> str | None:
        """What a pure step with that key gave, where it is still here."""
        path = self._home / "cache" / key
        if not path.exists():
            return None
        name = path.read_text().strip()
        return name if self._path(name).exists() else None

    def remember(self, key: str, name: str) -> None:
        """Keep what a pure step gave. Raises StoreError."""
        with refusals(f"result {key}"):
            write_whole(self._home / "cache" / key, name.encode())

    def _path(self, name: str) -> Path:
        return self._home / "results" / name[:2] / name


def step_key(card: Card, settings: Json, inputs: dict[str, tuple[str, ...]]) -> str:
    """The key of a step: equal only where the same code is asked the same of the same."""
    parts = msgspec.json.encode((settings, inputs), order="deterministic")
    return digest("step", __version__, card.name, str(card.version), card.code, parts)
