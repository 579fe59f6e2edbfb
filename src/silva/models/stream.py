"""A reply: server-sent events split off the bytes, and its pieces put together into one Completion.

bytes ─▶ the events that came together ─▶ absorbed one by one ─▶ what they add to read, joined ─▶ … ─▶ Completion
a whole reply ─▶ absorbed as the only piece ─▶ Completion
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from operator import attrgetter
from typing import Any

from silva.models.calls import Calls
from silva.models.carried import grown, nested
from silva.models.carried import joined as both
from silva.models.endpoint import Endpoint
from silva.models.model import Completion, Delta
from silva.models.pieces import Pieces
from silva.models.sizes import MOST_EVENT, MOST_STREAM, Readable, TooLargeError
from silva.models.wire import SET_ASIDE, Reported, WireError, WireReply, WireUsage, read_reply
from silva.tree import Json, Message, OtherPart, Part, TextPart, ThinkingPart, Tokens

DONE = b"[DONE]"

_logprob = attrgetter("logprob")


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


def joined(pieces: list[Delta]) -> Iterator[Delta]:
    """Thoughts, and words after them, as one piece each time; a piece that is more than these by itself. To hand on one
    costs as much as to hand on many, so that who is behind catches up."""
    run: list[Delta] = []
    for piece in pieces:
        if run and (piece.extra or (piece.thinking and run[-1].text) or not type(piece) is type(run[-1]) is Delta):
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


class Assembly(Pieces):
    """The pieces of one reply so far. `finished` once a finish reason came, `ended` once the stream said so."""

    # what holds until a piece says otherwise; a reply replaces these and changes none of them
    _prompt_ids: Sequence[int] = ()
    _usage = WireUsage()
    _model: str | None = None
    _version: str | None = None
    _finish_reason: str | None = None
    _beside: Json | None = None
    _around: Json | None = None
    _said: tuple[Any, ...] = (None, None, None)  # what the piece before said beyond what is read of it

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._parts: list[Part] = []
        self._calls = Calls()
        self._ids: list[int] = []
        self._logprobs: list[float] = []

    @property
    def finished(self) -> bool:
        """See `Pieces`."""
        return self._finish_reason is not None

    def absorb(self, event: bytes) -> Delta | None:
        """See `Pieces`."""
        self.last_event = event
        if event == DONE:
            self.ended = True
            return None
        return self._absorbed(self._taken(read_reply, event))

    def whole(self, body: bytes) -> None:
        """See `Pieces`."""
        reply = self._taken(read_reply, body)
        if reply.error is not None:
            raise Reported(reply.error)
        if not reply.choices:
            raise WireError("the reply has no choices")
        choice = reply.choices[0]
        if choice.message is None:
            raise WireError("the reply has the wrong shape: its choice has no message")
        self._parts += choice.message.parts
        self._calls.add(choice.message.calls)
        self._beside = choice.message.beside
        choice.index, choice.delta = 0, None
        self._absorbed(reply)

    def _absorbed(self, chunk: WireReply) -> Delta | None:
        if chunk.error is not None:
            raise Reported(chunk.error)
        self._model = chunk.model or self._model
        if chunk.usage is not None:
            self._usage = chunk.usage
        if chunk.prompt_token_ids:
            self._prompt_ids = chunk.prompt_token_ids
        if chunk.policy_version:
            self._version = chunk.policy_version
        choice = chunk.choices[0] if chunk.choices else None
        if choice is None or choice.index:
            return self._piece(chunk.around, None, "", "")
        if choice.finish_reason:
            self._finish_reason = choice.finish_reason
        if choice.token_ids:
            self._ids += choice.token_ids
        if choice.logprobs is not None and choice.logprobs.content:
            self._logprobs.extend(map(_logprob, choice.logprobs.content))
        around, said = None, (chunk.extra, chunk.system_fingerprint, choice.extra)
        if said != self._said or chunk.usage is not None:  # most say the same as the one before
            around, self._said = chunk.around, said
            if choice.extra:
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
            known = self._around or {}
            around = {name: value for name, value in around.items() if name not in known or known[name] != value}
            self._around = both(known, around) or known
        extra: Json | None = None
        if beside:
            own = {name: value for name, value in beside.items() if name != "content"}
            self._beside = grown(self._beside, own) if own else self._beside
        if text:
            self._text.append(text)
        if thinking:
            self._thinking.append(thinking)
        if around or beside:
            extra = both(around, nested(choices=nested(delta=beside)))
        return Delta(text=text, thinking=thinking, extra=extra, dialect="chat") if text or thinking or extra else None

    def finish(self, seconds: float, attempts: int, waited: float) -> Completion:
        """See `Pieces`."""
        calls = self._calls.all()
        text, thinking = "".join(self._text), "".join(self._thinking)
        parts: list[Part] = [ThinkingPart(text=thinking)] if thinking else []
        parts += [TextPart(text=text)] if text else []
        ids, logprobs, usage = tuple(self._ids), tuple(self._logprobs), self._usage
        if ids and logprobs and len(logprobs) != len(ids):
            raise WireError(f"the reply has {len(ids)} token ids but {len(logprobs)} logprobs")
        prompt, sampled = usage.prompt_tokens or 0, usage.completion_tokens or 0
        return Completion(
            message=Message(role="assistant", parts=(*parts, *self._parts), tool_calls=calls, extra=self._beside),
            finish_reason=self._finish_reason or ("tool_calls" if calls else "unknown"),
            tokens=Tokens(ids=ids, sampled=len(ids), logprobs=logprobs) if ids else None,
            prompt_ids=tuple(self._prompt_ids),
            logprobs=logprobs,
            usage=self._endpoint.usage(prompt, sampled, usage.cached, usage.written, waited),
            model=self._model or self._endpoint.model,
            policy_version=self._version or "",
            seconds=seconds,
            attempts=attempts,
            attributes={SET_ASIDE: self._aside} if self._aside else {},
            extra=self._around or None,
            dialect="chat",
        )
