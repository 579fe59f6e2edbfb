"""The seal of this machine: a keyed digest that says "this state was made here".

A pickled state runs code when it is read. A lake may come from anywhere, so its states are taken up only where their
seal was made with this user's key, `$SILVA_HOME/snapshots.key`; elsewhere a branch replays the actions instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path

from silva.envs.home import home
from silva.errors import StoreError

KEY = "snapshots.key"
_BYTES = 32


def sealed(data: bytes) -> str:
    """The seal of the data, in hex; makes the key when first asked.

    Raises:
        StoreError: the key cannot be written or read.
    """
    return hmac.new(_key(make=True), data, hashlib.sha256).hexdigest()


def made_here(data: bytes, seal: str) -> bool:
    """Whether the data bears the seal of this machine."""
    key = _key(make=False)
    return bool(key) and hmac.compare_digest(hmac.new(key, data, hashlib.sha256).hexdigest(), seal)


def _key(*, make: bool) -> bytes:
    path = home() / KEY
    try:
        if make and not path.exists():
            _write(path)
        key = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise StoreError(f"snapshots: the key {KEY} in SILVA_HOME cannot be used ({error.strerror})") from error
    if make and len(key) < _BYTES:
        raise StoreError(
            f"snapshots: the key {KEY} in SILVA_HOME is damaged; remove it (kept states are then replayed)"
        )
    return key if len(key) >= _BYTES else b""


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".key-")  # readable by its owner alone
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(_BYTES))
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileExistsError):  # another process made one meanwhile: that one counts
        os.link(name, path)
    Path(name).unlink()
