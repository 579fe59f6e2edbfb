"""What the web API of guidance refuses, in one vocabulary."""

from __future__ import annotations

STATUS = {
    "malformed": 400,
    "auth": 401,
    "forbidden": 403,
    "not_found": 404,
    "too_large": 413,
    "refused": 409,
    "rate_limit": 429,
    "fault": 500,
    "store": 507,
}
"""The HTTP status of each kind."""


class Problem(Exception):
    """A request that gets an error. `kind` is a key of `STATUS`; `retry_after` in seconds."""

    def __init__(self, kind: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """Its HTTP status."""
        return STATUS[self.kind]
