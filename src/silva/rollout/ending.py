"""How an episode ends before its environment says so: with a failure, or cut short and judged as it stands."""

from __future__ import annotations

from silva.tree import Boundary, Failure, Outcome, Status


class Ended(Exception):
    """The episode ends with this failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Stopped(Exception):
    """The episode ends here and is evaluated as it stands. Where `by` is given, its record says who ended it, and
    why."""

    def __init__(self, by: str = "", why: str = "") -> None:
        super().__init__(why or by or "stopped")
        self.by = by
        self.why = why


def failed(boundary: Boundary, code: str, message: str, retryable: bool = False) -> Outcome:
    """The outcome of an episode that broke at a boundary."""
    failure = Failure(boundary=boundary, code=code, message=message, retryable=retryable)
    return Outcome(status=Status.FAILED, failure=failure)
