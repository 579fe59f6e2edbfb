"""Records of the lake's own, which are no part of a tree: a blob's entry, and what arrived from a foreign agent."""

from __future__ import annotations

from typing import TypeAlias

from silva.tree import Record


class BlobEntry(Record, frozen=True, kw_only=True):
    """One blob. `id` is the sha256 hex of its bytes, `size` their number, `at` Unix seconds of the first writing."""

    id: str
    media_type: str
    size: int
    at: float = 0.0


class Arrival(Record, frozen=True, kw_only=True):
    """Something a foreign agent's tracer sent, as it was sent (see `silva.lake.ingest`).

    Attributes:
        id: derived from trace, span and content, so that what is sent again is the same arrival.
        kind: `span`, `log`, `score` or `trace`; `assembled`: a note of what was made of a session.
        form: how `data` is to be read: `otlp`, `otlp-json`, `openai-agents`, `langfuse-score` or `assembly`.
        trace, span: ids as the sender named them.
        conversation: the conversation it names, if it does; of an `assembled`, the session's key.
        run: the run its trajectories go to.
        root: whether it ends its trace.
        at: Unix seconds when it came; `started` when what it tells of began.
        data: the bytes.
    """

    id: str
    kind: str
    form: str
    trace: str
    span: str = ""
    conversation: str = ""
    run: str = ""
    root: bool = False
    at: float = 0.0
    started: float = 0.0
    size: int = 0
    data: bytes = b""


Own: TypeAlias = BlobEntry | Arrival
