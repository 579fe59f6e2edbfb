"""What the gateway refuses, in one vocabulary that every dialect can say."""

from __future__ import annotations

from silva.models.errors import ModelError

STATUS = {
    "malformed": 400,
    "auth": 401,
    "budget": 402,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "context_length": 400,
    "rate_limit": 429,
    "upstream": 502,
    "overloaded": 503,
    "store": 507,
    "timeout": 504,
}
"""The HTTP status of each kind."""

_OF_MODEL = {
    "unreachable": "upstream",
    "timeout": "timeout",
    "rate_limit": "rate_limit",
    "server": "upstream",
    "refused": "malformed",
    "auth": "upstream",
    "missing": "upstream",
    "quota": "upstream",
    "garbage": "upstream",
    "context_length": "context_length",
}


class Problem(Exception):
    """A request that gets an error. `kind` is a key of `STATUS`; `field` the place in the body; `retry_after` in
    seconds, for rate_limit and overloaded."""

    def __init__(self, kind: str, message: str, field: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.field = field
        self.retry_after = retry_after

    def copy(self) -> Problem:
        """The same without the frames it was raised through, for whoever keeps it: these hold the whole request."""
        return Problem(self.kind, str(self), self.field, self.retry_after)

    @property
    def status(self) -> int:
        """Its HTTP status."""
        return STATUS[self.kind]


def of_model(error: ModelError) -> Problem:
    """The problem a client is told when no backend could answer: that a backend refuses the key, is out of quota or has
    not the model it was configured with is the gateway's affair, not the client's."""
    return Problem(_OF_MODEL[error.kind], str(error), retry_after=error.retry_after)
