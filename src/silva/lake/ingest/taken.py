"""What of one request is taken: arrivals with ids of their own, and what is refused of it, by name.

trace, span, content ─▶ id (so what is sent again is the same arrival)          a fault ─▶ counted, and told why
"""

from __future__ import annotations

import re
from hashlib import sha256

from silva.lake.entry import Arrival

_RUN = re.compile(r"[^A-Za-z0-9._-]+")
_NAMELESS = ("", "unknown_service")
PREFIX = "ingest"


def run_named(service: str) -> str:
    """The run of what a service sends; a name of its own, which no rollout bears."""
    name = _RUN.sub("-", service).strip("-.")[:80]
    return PREFIX if name in _NAMELESS or name.startswith("unknown_service") else f"{PREFIX}-{name}"


def arrival_id(trace: str, span: str, data: bytes) -> str:
    """The id of what was sent: the same for the same content of the same span."""
    return f"{trace[:64]}:{span[:64]}:{sha256(data).hexdigest()[:20]}"


class Taken:
    """What a request brings, gathered.

    Attributes:
        arrivals: what is kept.
        refused: how many of its items are not.
        why: the first reason why not.
        size: bytes of the arrivals.
    """

    def __init__(self, at: float, run: str = "") -> None:
        self.arrivals: list[Arrival] = []
        self.refused = 0
        self.why = ""
        self.size = 0
        self._at, self._run = at, run

    def add(
        self,
        kind: str,
        form: str,
        trace: str,
        span: str,
        data: bytes,
        *,
        service: str = "",
        conversation: str = "",
        root: bool = False,
        started: float = 0.0,
    ) -> None:
        """Take an item."""
        self.size += len(data)
        self.arrivals.append(
            Arrival(
                id=arrival_id(trace, span, data),
                kind=kind,
                form=form,
                trace=trace,
                span=span,
                conversation=conversation,
                run=self._run or run_named(service),
                root=root,
                at=self._at,
                started=started,
                size=len(data),
                data=data,
            )
        )

    def refuse(self, why: str) -> None:
        """Do not take an item."""
        self.refused += 1
        self.why = self.why or why
