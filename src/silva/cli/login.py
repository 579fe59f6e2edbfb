"""Who speaks where nobody is named."""

from __future__ import annotations

import getpass


def login() -> str:
    """The login name; "somebody" where the system knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
