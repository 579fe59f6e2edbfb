"""What a folder of weights is called: the name it is served under, and the version it is."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from silva.errors import UsageError
from silva.models.local import MODEL, PLAIN
from silva.models.local.checkpoint import weight_files

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}", re.ASCII)


def served_name(folder: Path) -> str:
    """What the model in a folder of the user's is served under: the folder's name.

    Raises:
        UsageError: the name cannot stand in a request.
    """
    name = folder.resolve().name
    if not _NAME.fullmatch(name) or name == PLAIN:
        raise UsageError(
            f"model folder {name}: a model is served under its folder's name; rename it with letters, digits and ._+- "
            f"only, and not {PLAIN!r}"
        )
    return name


def fingerprint(folder: Path, name: str = MODEL) -> str:
    """Which weights these are: the model's name and a digest of its files, the policy version of what it says.

    Raises:
        UsageError: there are no weights in the folder.
    """
    digest = hashlib.blake2b(digest_size=6)
    for path in weight_files(folder):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return f"{name}@{digest.hexdigest()}"
