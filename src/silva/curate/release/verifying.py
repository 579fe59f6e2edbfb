"""Verifying a release: every file is there and is what the manifest says, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from silva.curate.release.releasing import MANIFEST, file_sha256
from silva.errors import UsageError


def verify(folder: Path) -> list[str]:
    """What is wrong with a release, a line each; none where it is whole.

    Raises:
        UsageError: the folder holds no release.
    """
    try:
        manifest: Any = json.loads((folder / MANIFEST).read_bytes())
        expected = cast(dict[str, str], dict(manifest["files"]))
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise UsageError(f"{folder}: it is no release, its {MANIFEST} cannot be read ({fault})") from fault
    found: list[str] = []
    for name, wanted in sorted(expected.items()):
        path = folder / name
        if not path.is_file():
            found.append(f"{name}: is missing")
            continue
        if file_sha256(path) != wanted:
            found.append(f"{name}: was changed")
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found + [f"{name}: is no part of the release" for name in sorted(there - set(expected) - {MANIFEST})]
