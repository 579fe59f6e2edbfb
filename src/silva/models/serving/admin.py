"""The admin token of a server: named by its configuration or drawn anew, and written where only its owner reads."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from silva.errors import UsageError
from silva.hosts import is_loopback


def admin_token(host: str, variable: str) -> tuple[str, bool]:
    """The token of a server's admin routes, and whether it was drawn now.

    Args:
        host: where it listens.
        variable: the environment variable that holds the token (`listen.admin_token_env`); "" where none is named.

    Raises:
        UsageError: a variable is named but not set, or other machines could come in and none is named.
    """
    if variable:
        token = os.environ.get(variable)
        if not token:
            raise UsageError(f"listen.admin_token_env names ${variable}, which is not set: put the admin token there")
        return token, False
    if not is_loopback(host):
        raise UsageError(
            f"serving on {host} lets other machines in: put an admin token into an environment variable"
            " and name it in listen.admin_token_env"
        )
    return secrets.token_urlsafe(24), True


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner may read.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; choose another place") from error
