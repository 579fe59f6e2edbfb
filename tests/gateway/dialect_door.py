"""A gateway without a network: the official SDKs on one side, completions that were made up on the other."""

from __future__ import annotations

from collections.abc import Callable

import anthropic
import httpx2
import openai

from silva.models.anthropic.marks import SignedDelta
from silva.models.gateway.dialects import Asked, Stamp, content_key
from silva.models.gateway.dialects.dialect import Dialect
from silva.models.model import Completion, Delta
from silva.tree import Message, TextPart, ThinkingPart, ToolCall, Usage

USAGE = Usage(prompt_tokens=50, completion_tokens=7, cached_tokens=20)
CALL = ToolCall(id="call_1", name="weather", arguments='{"city": "Köln"}')


def reply(*parts: object, calls: tuple[ToolCall, ...] = (), finish: str = "", **fields: object) -> Completion:
    message = Message(role="assistant", parts=parts, tool_calls=calls)  # type: ignore[arg-type]
    reason = finish or ("tool_calls" if calls else "stop")
    return Completion(message=message, finish_reason=reason, usage=USAGE, model="m", **fields)  # type: ignore[arg-type]


WORDS = reply(TextPart(text="Guten Tag\n☀ 😀"))
THOUGHT = reply(ThinkingPart(text="Let me see."), TextPart(text="It is sunny."))
CALLS = reply(
    TextPart(text="I look."), calls=(CALL, ToolCall(id="call_2", name="weather", arguments='{"city": "Ulm"}'))
)
BARE = reply(calls=(CALL,))
BROKEN = reply(calls=(ToolCall(id="call_1", name="weather", arguments='{"city": "Par'),))
NOTHING = reply()
LONG = reply(TextPart(text="and so on and"), finish="length")
ALL = {
    "words": WORDS,
    "thought": THOUGHT,
    "calls": CALLS,
    "bare": BARE,
    "broken": BROKEN,
    "nothing": NOTHING,
    "long": LONG,
}


def pieces(completion: Completion) -> list[Delta]:
    """The reply as a backend would stream it, three characters at a time."""
    found: list[Delta] = []
    for part in completion.message.parts:
        assert not hasattr(part, "hash")
        for start in range(0, len(part.text), 3):  # type: ignore[union-attr]
            text = part.text[start : start + 3]  # type: ignore[union-attr]
            found.append(Delta(thinking=text) if isinstance(part, ThinkingPart) else Delta(text=text))
        if isinstance(part, ThinkingPart) and part.signature:
            found.append(SignedDelta(signature=part.signature))
    return found


class Door:
    """A gateway without a network: decodes what an SDK sends, answers with the next completion."""

    def __init__(
        self, dialect: Dialect, *completions: Completion, deltas: Callable[[Completion], list[Delta]] = pieces
    ):
        self.dialect = dialect
        self.completions = list(completions)
        self.asked: list[Asked] = []
        self.deltas = deltas
        self.breaks = False
        self.http = httpx2.Client(transport=httpx2.MockTransport(self.answer))

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        asked = self.dialect.decode(request.read())
        self.asked.append(asked)
        completion = self.completions.pop(0)
        stamp = Stamp(id=f"a{len(self.asked)}", created=1700000000, model=asked.model)
        if not asked.stream:
            body = self.dialect.encode(asked, completion, stamp)
            return httpx2.Response(200, content=body, headers={"content-type": "application/json"})
        events = self.dialect.events(asked, stamp)
        written = [events.begin(), *(events.delta(delta) for delta in self.deltas(completion))]
        written.append(events.error(529, "overloaded", "too much") if self.breaks else events.end(completion))
        return httpx2.Response(200, content=b"".join(written), headers={"content-type": "text/event-stream"})

    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url="http://gateway/v1", api_key="k", http_client=self.http, max_retries=0)

    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url="http://gateway", api_key="k", http_client=self.http, max_retries=0)

    def same_turn(self, completion: Completion) -> None:
        """What came back after the first question is what was recorded."""
        back = [message for message in self.asked[-1].messages if message.role == "assistant"]
        assert [content_key(message) for message in back] == [content_key(completion.message)]
