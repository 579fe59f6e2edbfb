"""What can go wrong with a model, in one flat vocabulary, and which of it is worth another try."""

from __future__ import annotations

from silva.errors import UnreachableError


class ModelError(UnreachableError):
    """A model call failed for good. `code` names the kind for the record; `transient` says a later try may work.

    `kind` is one of: unreachable, timeout, rate_limit, server, refused (a 4xx), auth, missing (the endpoint has no such
    model or path), quota (what was paid for is used up), garbage, context_length.
    """

    def __init__(self, kind: str, message: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.transient = transient
        self.retry_after = retry_after
