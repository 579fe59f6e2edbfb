"""What the buffer refuses, in one vocabulary for callers in this process and over HTTP."""

from __future__ import annotations

from silva.errors import Exit, SilvaError

STATUS = {
    "malformed": 400,
    "auth": 401,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "full": 429,
    "fault": 500,
    "busy": 503,
    "store": 507,
}
"""The HTTP status of each kind."""

_CODES = {
    "fault": Exit.FAULT,
    "store": Exit.STORE,
    "auth": Exit.UNREACHABLE,
    "full": Exit.UNREACHABLE,
    "busy": Exit.UNREACHABLE,
}


class Refused(SilvaError):
    """The buffer did not do what was asked, and changed nothing.

    Args:
        kind: a key of `STATUS`. `full` passes when the trainer goes on, `busy` when the server does: try again
            after `retry_after`.
        message: one line: what, where, what to do.
        retry_after: in seconds.
    """

    def __init__(self, kind: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message, _CODES.get(kind, Exit.USAGE))
        self.kind = kind
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.kind]
