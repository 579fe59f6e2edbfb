"""One line that says what, where and what to do; and the exit codes every command shares.

Rooms raise `SilvaError` for anything a user can mend. The command line prints its message as one line and exits with
its code; a traceback means a fault of Silva's own.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command (docs/reference/exit-codes.md)."""

    OK = 0
    FAULT = 1  # a fault of Silva's own, or a check that did not hold
    USAGE = 2  # bad arguments, config or input file
    MISSING = 3  # an extra, environment or model that must be installed first
    UNREACHABLE = 4  # a model or server that cannot be reached or refuses
    STORE = 5  # the lake: full, read-only, locked, corrupt, or of a newer schema
    INCOMPLETE = 6  # the run ended with failures or was interrupted; what was done is kept
    INTERRUPTED = 130  # Ctrl-C


class SilvaError(Exception):
    """Something a user can mend. `str(error)` is one line: what, where, what to do."""

    code: Exit = Exit.USAGE

    def __init__(self, message: str, code: Exit | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class UsageError(SilvaError):
    """Bad arguments, config or input file."""

    code = Exit.USAGE


class MissingError(SilvaError):
    """Something must be installed first; the message gives the command."""

    code = Exit.MISSING


class UnreachableError(SilvaError):
    """A model or server cannot be reached or refuses."""

    code = Exit.UNREACHABLE


class StoreError(SilvaError):
    """The lake cannot be used as asked; nothing acknowledged is lost."""

    code = Exit.STORE
