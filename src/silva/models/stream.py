"""A streamed reply: server-sent events split off the bytes, and their pieces put together into one Completion.

bytes ─▶ the events that came together ─▶ absorbed one by one ─▶ what they add to read, joined ─▶ … ─▶ Completion
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import msgspec

from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.model import Delta
from silva.models.sizes import MOST_EVENT, MOST_STREAM, Readable, TooLargeError
from silva.models.wire import (
    Id,
    Reported,
    WireCall,
    WireLogProbs,
    WireMessage,
    WireUsage,
    completion,
    to_call,
)

DONE = b"[DONE]"

Value = TypeVar("Value")


class _Choice(msgspec.Struct, gc=False):
    delta: WireMessage | None = None
    finish_reason: str | None = None
    logprobs: WireLogProbs | None = None
    token_ids: list[Id] | None = None
    index: int = 0


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    model: str | None = None
    usage: WireUsage | None = None
    prompt_token_ids: list[Id] | None = None
    policy_version: str | None = None
    error: object = None


_decode = msgspec.json.Decoder(_Chunk).decode


async def events(content: Readable, stop_at: float, most: float = MOST_STREAM) -> AsyncIterator[list[bytes]]:
    """The data of each event, in order, those that came together in one list; `stop_at` is in the loop's time, `most`
    bounds the bytes of all together.

    Raises:
        TimeoutError: the deadline passed while waiting for bytes.
        TooLargeError: an event or the whole stream is larger than is read.
        aiohttp.ClientError, OSError: the connection broke.
    """
    line: list[bytes] = []
    data: list[bytes] = []
    begun = held = read = 0  # bytes of a line that has not ended, of an event that has not, and of all
    while True:
        async with asyncio.timeout_at(stop_at):
            chunk = await content.readany()
        if not chunk:
            if data:
                yield [b"\n".join(data)]
            return
        read += len(chunk)
        if read > most:
            raise TooLargeError("the stream", int(most))
        line.append(chunk)
        begun += len(chunk)
        if b"\n" in chunk:
            found: list[bytes] = []
            lines = (chunk if len(line) == 1 else b"".join(line)).split(b"\n")
            line = [lines.pop()]
            begun = len(line[0])
            for ended in lines:
                ended = ended.rstrip(b"\r")
                if ended.startswith(b"data:"):
                    data.append(ended[5:].removeprefix(b" "))
                    held += len(ended)
                elif not ended and data:
                    found.append(b"\n".join(data))
                    data, held = [], 0
            if found:
                yield found
        if held + begun > MOST_EVENT:
            raise TooLargeError("an event of the stream", MOST_EVENT)


def taken(found: list[bytes], read: Callable[[bytes], Value | None]) -> tuple[list[Value], ModelError | None]:
    """What events that came together add, and what is wrong with the first that `read` cannot read."""
    values: list[Value] = []
    for event in found:
        try:
            value = read(event)
        except ModelError as error:
            return values, error
        if value is not None:
            values.append(value)
    return values, None


def joined(pieces: list[Delta]) -> Iterator[Delta]:
    """Thoughts, and words after them, as one piece each time; a piece that is more than these by itself. To hand on one
    costs as much as to hand on many, so that who is behind catches up."""
    run: list[Delta] = []
    for piece in pieces:
        if run and not (type(piece) is type(run[-1]) is Delta and not (piece.thinking and run[-1].text)):
            yield _one(run)
            run = []
        run.append(piece)
    if run:
        yield _one(run)


def _one(run: list[Delta]) -> Delta:
    if len(run) == 1:
        return run[0]
    return Delta(text="".join(piece.text for piece in run), thinking="".join(piece.thinking for piece in run))


class Assembly:
    """The pieces of one streamed reply so far. `finished` once a finish reason came, `ended` once the stream said
    so."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[int, WireCall] = {}
        self._ids: list[int] = []
        self._logprobs = WireLogProbs(content=[])
        self._prompt_ids: list[int] | None = None
        self._usage: WireUsage | None = None
        self._model: str | None = None
        self._version: str | None = None
        self._finish_reason: str | None = None
        self.last_event = b""
        self.ended = False

    @property
    def finished(self) -> bool:
        """Whether the reply is whole."""
        return self._finish_reason is not None

    def absorb(self, event: bytes) -> Delta | None:
        """Take in one event and return what it adds to read, if anything.

        Raises:
            Reported: the server put an error into the stream.
            msgspec.DecodeError: the event is not a chunk.
        """
        self.last_event = event
        if event == DONE:
            self.ended = True
            return None
        chunk = _decode(event)
        if chunk.error is not None:
            raise Reported(chunk.error)
        self._model = chunk.model or self._model
        self._usage = chunk.usage or self._usage
        self._prompt_ids = chunk.prompt_token_ids or self._prompt_ids
        self._version = chunk.policy_version or self._version
        if not chunk.choices or chunk.choices[0].index != 0:
            return None
        choice = chunk.choices[0]
        self._finish_reason = choice.finish_reason or self._finish_reason
        self._ids.extend(choice.token_ids or ())
        if choice.logprobs is not None and self._logprobs.content is not None:
            self._logprobs.content.extend(choice.logprobs.content or ())
        if choice.delta is None:
            return None
        self._join(choice.delta.tool_calls)
        text, thinking = choice.delta.text, choice.delta.thinking
        if not text and not thinking:
            return None
        self._text.append(text)
        self._thinking.append(thinking)
        return Delta(text=text, thinking=thinking)

    def _join(self, fragments: list[WireCall] | None) -> None:
        for fragment in fragments or []:
            known = self._calls.setdefault(fragment.index, fragment)
            if known is fragment:
                continue
            known.id = known.id or fragment.id
            known.function.name = known.function.name or fragment.function.name
            before, more = known.function.arguments, fragment.function.arguments
            if isinstance(more, str):
                known.function.arguments = before + more if isinstance(before, str) else more

    def finish(self, seconds: float, attempts: int, waited: float) -> Delta:
        """The last delta: the tool calls and the whole completion.

        Raises:
            WireError: a tool call without a name, or ids and logprobs that do not match.
        """
        calls = tuple(to_call(self._calls[index], index) for index in sorted(self._calls))
        return Delta(
            tool_calls=calls,
            completion=completion(
                self._endpoint,
                text="".join(self._text),
                thinking="".join(self._thinking),
                calls=calls,
                finish_reason=self._finish_reason,
                ids=self._ids,
                logprobs=self._logprobs.content,
                prompt_ids=self._prompt_ids,
                usage=self._usage,
                model=self._model,
                version=self._version,
                seconds=seconds,
                attempts=attempts,
                waited=waited,
            ),
        )
