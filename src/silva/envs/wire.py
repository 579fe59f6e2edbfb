"""What crosses between the engine and a host: a request, a reply, and the frames they travel in.

A frame is a 4-byte little-endian length, then msgpack. The host speaks first (reply 0, a `Hello`); after that every
request carries an id that its reply repeats, so many instances share one channel and answers may overtake each other.
Frames written in one turn of the event loop leave in one system call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import cast

import msgspec

from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation, Planted
from silva.tree import Json, Message, Task

FRAME_LIMIT = 64 << 20
"""Largest frame in bytes; a longer one is refused on both sides."""

EXIT_MEMORY = 86
"""Exit status of a host that ran out of its memory limit."""

EXIT_HUNG = 87
"""Exit status of a host one of whose threads hung."""


_STALE = 0.005  # seconds that frames may gather


class Hello(msgspec.Struct, array_like=True):
    """What a host says once its environment class is imported. `synthesis`: whether it can say what could be brought
    about in a place, `hindsight`: what was, `actions`: which actions are valid, `complete`: all of these."""

    capabilities: Capabilities
    expert: bool
    null: bool
    synthesis: bool = False
    hindsight: bool = False
    actions: bool = False
    complete: bool = False


class Captured(msgspec.Struct, array_like=True):
    """The state of an instance, outside it. `kind`: `own` (the environment keeps it under `id`) or `state` (`data` is
    the instance, pickled). `fidelity`: exact, or files+replay where processes are not in it. `versions`: of what made
    it, by name. `notice`: what the agent was still to be told when it was kept (`silva.envs.notice`)."""

    kind: str
    fidelity: str
    id: str = ""
    data: bytes = b""
    versions: dict[str, str] = {}
    notice: str = ""


class Fault(msgspec.Struct, array_like=True):
    """Why a call failed. `code` is a code of `EnvError`, or `usage` for a mistake of the caller."""

    code: str
    message: str


class Request(msgspec.Struct, array_like=True):
    """One call. `limit` is how many seconds it may take; fields after it are set as the operation needs."""

    id: int
    op: str
    instance: int
    limit: float
    task: Task | None = None
    seed: int = 0
    action: Message | None = None
    arguments: Json | None = None
    captured: Captured | None = None
    actions: list[Message] | None = None
    goal: Goal | None = None


class Reply(msgspec.Struct, array_like=True):
    """One answer. `seconds` is time spent inside the environment's own code; `notice`, of a restore, what the agent is
    to be told of it."""

    id: int
    seconds: float = 0.0
    fault: Fault | None = None
    observation: Observation | None = None
    evaluation: Evaluation | None = None
    message: Message | None = None
    tasks: list[Task] | None = None
    more: bool = False
    hello: Hello | None = None
    captured: Captured | None = None
    notice: str = ""
    planted: Planted | None = None
    goals: list[Goal] | None = None
    achieved: list[Achieved] | None = None
    actions: list[Message] | None = None


encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode


def reply_id(frame: bytes) -> int:
    """The id of a reply that is not of the promised shape.

    Raises:
        msgspec.DecodeError: not even an array that starts with a number.
    """
    values = msgspec.msgpack.decode(frame, type=list)
    if not values or not isinstance(values[0], int):
        raise msgspec.DecodeError("a reply without an id")
    return values[0]


class Frames(asyncio.Protocol):
    """Both ends of the channel. `on_frame` gets each frame's bytes; `on_lost` is called once, when the peer is gone."""

    def __init__(self, on_frame: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._received = bytearray()
        self._outgoing: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._flushed = 0.0
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=FRAME_LIMIT)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        buffer: bytes | bytearray = data
        if self._received:
            self._received += data
            buffer = self._received
        start, end = 0, len(buffer)
        view = memoryview(buffer)
        try:
            while end - start >= 4:
                size = int.from_bytes(view[start : start + 4], "little")
                if size > FRAME_LIMIT:
                    self.close()
                    return
                if end - start - 4 < size:
                    break
                self._on_frame(bytes(view[start + 4 : start + 4 + size]))
                start += 4 + size
        finally:
            view.release()
        if buffer is data:
            self._received += data[start:]
        else:
            del self._received[:start]

    def send(self, body: bytes) -> None:
        """Queue one frame; it leaves when the event loop next turns. A frame for a peer that is gone is dropped."""
        self._outgoing.append(len(body).to_bytes(4, "little") + body)
        if monotonic() - self._flushed > _STALE:
            self.flush()  # the loop turns slowly (synchronous environments): let the peer hear of each call
        elif len(self._outgoing) == 1:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hand what is queued to the transport now."""
        if self._outgoing and self._transport is not None:
            self._transport.write(b"".join(self._outgoing))
        self._flushed = monotonic()
        self._outgoing.clear()

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
