"""What a stranger may send, and how it is told that something was not taken."""

from __future__ import annotations

from silva.tree import Record

MIB = 1 << 20


class Limits(Record, frozen=True, kw_only=True):
    """Bounds of an ingest server.

    Attributes:
        body: bytes of a request as it comes.
        unpacked: bytes of it once unpacked, however small it came.
        spans: how many spans, log records or items one request may bring.
        span: bytes of one of them.
        attributes: how many attributes one may have.
        depth: how deep its values may be nested.
        under_way: bytes of requests that are being read or written to disk at once, of all clients together.
        behind: segments of the journal (64 MB each) that may wait to become tables.
        seconds: how long the body of a request may take to come.
    """

    body: int = 16 * MIB
    unpacked: int = 64 * MIB
    spans: int = 50_000
    span: int = 4 * MIB
    attributes: int = 1024
    depth: int = 40
    under_way: int = 256 * MIB
    behind: int = 24
    seconds: float = 30.0


class Refused(Exception):
    """A request that is not taken, in one line; nothing of it is kept.

    Attributes:
        status: the HTTP status.
        retry_after: seconds after which it may be tried again; None: it would be refused again.
    """

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(" ".join(message.split())[:400])
        self.status, self.retry_after = status, retry_after


def depth_of(value: object, most: int) -> int:
    """How deep lists and objects are nested in a value; stops counting beyond `most`."""
    deepest, level = 0, [value]
    while level and deepest <= most:
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(each.values())
            elif isinstance(each, list):
                below.extend(each)
        level = [each for each in below if isinstance(each, dict | list)]
        deepest += 1
    return deepest
