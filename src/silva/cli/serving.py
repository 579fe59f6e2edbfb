"""What the commands that serve share."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from silva.redact import redact


class _Line(logging.Formatter):
    """`warning: what`, without secrets; a fault of Silva's own keeps its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(f"{record.levelname.lower()}: {super().format(record)}")


def tell_troubles() -> None:
    """What a server says of its troubles while it runs stands on standard error."""
    told = logging.StreamHandler()
    told.setLevel(logging.WARNING)
    told.setFormatter(_Line("%(message)s"))
    logging.getLogger("silva").addHandler(told)


def told_admin_token(host: str, variable: str, file: Path | None) -> str:
    """The admin token of a server about to start: written into `file`, or shown once where it was drawn anew.

    Raises:
        UsageError: as `silva.models.serving.admin.admin_token`, or the file cannot be written.
    """
    from silva.models.serving.admin import admin_token, write_secret

    token, drawn = admin_token(host, variable)
    if file is not None:
        write_secret(file, token)
    elif drawn:
        sys.stderr.write(f"admin token (shown this once; --admin-token-file keeps it): {token}\n")
    return token
