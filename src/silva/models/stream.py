"""A streamed reply: server-sent events split off the bytes, and their pieces put together into one Completion.

bytes ─▶ the events that came together ─▶ absorbed one by one ─▶ what they add to read, joined ─▶ … ─▶ Completion
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from silva.models.calls import Calls
from silva.models.carried import Open, Reader, grown, nested
from silva.models.carried import joined as both
from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.forgiving import forgiven
from silva.models.model import Delta
from silva.models.sizes import MOST_EVENT, MOST_STREAM, Readable, TooLargeError
from silva.models.wire import (
    Id,
    Reported,
    WireLogProbs,
    WireMessage,
    WireUsage,
    completion,
)
from silva.tree import Json, OtherPart, Part, TextPart, ThinkingPart

DONE = b"[DONE]"

Value = TypeVar("Value")


class _Choice(Open):
    delta: WireMessage | None = None
    finish_reason: str | None = None
    logprobs: WireLogProbs | None = None
    token_ids: list[Id] | None = None
    index: int | None = None


class _Chunk(Open):
    choices: list[_Choice] | None = None
    id: Any = None
    object: Any = None
    created: Any = None
    system_fingerprint: Any = None
    model: str | None = None
    usage: WireUsage | None = None
    prompt_token_ids: list[Id] | None = None
    policy_version: str | None = None
    error: Any = None


_decode: Reader[_Chunk] = Reader(_Chunk)


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
        alike = type(piece) is type(run[-1]) is Delta and not piece.extra if run else True
        if run and not (alike and not (piece.thinking and run[-1].text)):
            yield _one(run)
            run = []
        run.append(piece)
    if run:
        yield _one(run)


def _one(run: list[Delta]) -> Delta:
    if len(run) == 1:
        return run[0]
    words, thoughts = "".join(piece.text for piece in run), "".join(piece.thinking for piece in run)
    return Delta(text=words, thinking=thoughts, extra=run[0].extra, dialect=run[0].dialect)


class Assembly:
    """The pieces of one streamed reply so far. `finished` once a finish reason came, `ended` once the stream said
    so."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._parts: list[Part] = []
        self._calls = Calls()
        self._ids: list[int] = []
        self._logprobs = WireLogProbs(content=[])
        self._prompt_ids: list[int] | None = None
        self._usage: WireUsage | None = None
        self._model: str | None = None
        self._version: str | None = None
        self._finish_reason: str | None = None
        self._beside: Json | None = None
        self._around: Json = {}
        self._aside: list[str] = []
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
        chunk, aside = forgiven(_decode, event)
        if aside:
            self._aside += [name for name in aside if name not in self._aside]
        if chunk.error is not None:
            raise Reported(chunk.error)
        self._model = chunk.model or self._model
        self._usage = chunk.usage or self._usage
        self._prompt_ids = chunk.prompt_token_ids or self._prompt_ids
        self._version = chunk.policy_version or self._version
        around = chunk.extra
        if chunk.system_fingerprint is not None:
            around = both(around, {"system_fingerprint": chunk.system_fingerprint})
        if chunk.usage is not None:
            around = both(around, nested(usage=chunk.usage.beside))
        choice = chunk.choices[0] if chunk.choices else None
        if choice is None or choice.index:
            return self._piece(around, None, "", "")
        self._finish_reason = choice.finish_reason or self._finish_reason
        self._ids.extend(choice.token_ids or ())
        if choice.logprobs is not None and self._logprobs.content is not None:
            self._logprobs.content.extend(choice.logprobs.content or ())
        around = both(around, nested(choices=choice.extra))
        delta = choice.delta
        if delta is None:
            return self._piece(around, None, "", "")
        if delta.tool_calls or delta.function_call is not None:
            self._calls.join(delta.calls)
        if delta.extra is None and (delta.content is None or isinstance(delta.content, str)) and not delta.reasoning:
            text, thinking = delta.content or delta.refusal or "", delta.reasoning_content or ""
            return self._piece(around, {"refusal": None} if delta.refusal else None, text, thinking)
        said = delta.parts
        text = "".join(part.text for part in said if isinstance(part, TextPart))
        thinking = "".join(part.text for part in said if isinstance(part, ThinkingPart))
        kept = [part for part in said if not isinstance(part, TextPart | ThinkingPart)]
        self._parts += kept
        more = delta.beside
        if kept:
            more = both(more, {"content": [part.written for part in kept if isinstance(part, OtherPart)]})
        return self._piece(around, more, text, thinking)

    def _piece(self, around: Json | None, beside: Json | None, text: str, thinking: str) -> Delta | None:
        """What a chunk adds: its words, and what it says beyond them that was not said before."""
        if around:
            known = self._around
            around = {name: value for name, value in around.items() if name not in known or known[name] != value}
            self._around = both(known, around) or known
        if beside:
            own = {name: value for name, value in beside.items() if name != "content"}
            self._beside = grown(self._beside, own) if own else self._beside
        if text:
            self._text.append(text)
        if thinking:
            self._thinking.append(thinking)
        extra = both(around, nested(choices=nested(delta=beside))) if around or beside else None
        return Delta(text=text, thinking=thinking, extra=extra, dialect="chat") if text or thinking or extra else None

    def finish(self, seconds: float, attempts: int, waited: float) -> Delta:
        """The last delta: the tool calls and the whole completion.

        Raises:
            WireError: a tool call without a name, or ids and logprobs that do not match.
        """
        calls = self._calls.all()
        text, thinking = "".join(self._text), "".join(self._thinking)
        parts: list[Part] = [ThinkingPart(text=thinking)] if thinking else []
        parts += [TextPart(text=text)] if text else []
        return Delta(
            tool_calls=calls,
            completion=completion(
                self._endpoint,
                parts=(*parts, *self._parts),
                calls=calls,
                beside=self._beside,
                around=self._around or None,
                aside=tuple(self._aside),
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
