"""Why a request gets no backend."""

from __future__ import annotations

from typing import Literal

Why = Literal["absent", "exhausted", "held", "line_full", "too_long", "deadline", "closed"]

COME_AGAIN = 5.0
"""Seconds after which those are asked to come again for whom there was no room."""


class Refused(Exception):
    """A request gets no backend.

    `kind`: `absent` (no backend is up), `exhausted` (all that are up were tried), `held` (those that are up asked to be
    left alone for longer than it may wait), `line_full`, `too_long` (it waited as long as it may), `deadline` (its own
    deadline passed), `closed` (the route is going away). `retry_after`: seconds after which another try makes sense;
    None where it makes none.
    """

    def __init__(self, kind: Why, message: str, retry_after: float | None = None) -> None:
        if kind in ("line_full", "too_long"):
            retry_after = COME_AGAIN
            message = f"{message}; come again in {retry_after:.0f} s"
        super().__init__(message)
        self.kind: Why = kind
        self.retry_after = retry_after
