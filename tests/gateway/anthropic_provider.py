"""A provider of the Messages API on a real socket, for its client to be tried on."""

from __future__ import annotations

import json
from typing import Any

from silva.models import Request, Retry
from silva.models.anthropic.marks import SignedDelta, redacted
from silva.models.gateway.dialects import Anthropic, Asked, Stamp
from silva.models.model import Completion, Delta
from silva.models.serving.exchange import Exchange, Receive, Scope, Send
from silva.tree import (
    Message,
    TextPart,
    ThinkingPart,
    Tool,
    ToolCall,
    Usage,
    user,
)

QUICK = Retry(attempts=4, first=0.001, longest=0.002)
HELLO = Request(messages=(user("hello"),), deadline=20.0)
SECRET = "sk-ant-secret-123456"
WEATHER = Tool(name="weather", description="Looks.", parameters={"properties": {"city": {"type": "string"}}})
CALL = ToolCall(id="toolu_1", name="weather", arguments='{"city":"Köln"}')
FINE = Completion(
    message=Message(
        role="assistant",
        parts=(
            ThinkingPart(text="Let me see.", signature="c2ln"),
            redacted("c2VjcmV0"),
            TextPart(text="Guten Tag."),
            ThinkingPart(text="", signature="b21pdA=="),
            TextPart(text="I look."),
        ),
        tool_calls=(CALL, ToolCall(id="toolu_2", name="weather", arguments='{"city": "Par')),
    ),
    finish_reason="tool_calls",
    usage=Usage(prompt_tokens=50, completion_tokens=7, cached_tokens=20),
)


def deltas(completion: Completion) -> list[Delta]:
    """The pieces of a reply, as an upstream of this API gives them."""
    found: list[Delta] = []
    spoke = False
    for part in completion.message.parts:
        if isinstance(part, TextPart):
            found += [Delta(text="\n" + part.text[:2] if spoke else part.text[:2]), Delta(text=part.text[2:])]
            spoke = True
        elif isinstance(part, ThinkingPart):
            found += [Delta(thinking=part.text)] if part.text else []
            found.append(SignedDelta(signature=part.signature or ""))
    return found


class Provider:
    """Speaks the Messages API: checks key and version, keeps what was asked, and fails as told, as often as told."""

    def __init__(self, completion: Completion = FINE, *, times: int = 0, fault: tuple[Any, ...] = ()) -> None:
        self.dialect = Anthropic()
        self.completion = completion
        self.fault = fault
        self.times = times
        self.bodies: list[dict[str, Any]] = []
        self.asked: list[Asked] = []
        self.headers: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        exchange = Exchange(scope, receive, send)
        body = await exchange.body()
        self.headers = {name.decode(): value.decode() for name, value in exchange.headers}
        self.bodies.append(json.loads(body))
        if scope["path"] != "/v1/messages":
            await exchange.send(404, self.dialect.error(404, "not_found", "no such page"))
            return
        if self.headers.get("x-api-key") != SECRET:
            await exchange.send(401, self.dialect.error(401, "auth", f"bad key {self.headers.get('x-api-key')}"))
            return
        assert self.headers["anthropic-version"] == "2023-06-01" and "authorization" not in self.headers
        asked = self.dialect.decode(body)
        self.asked.append(asked)
        stamp = Stamp(id=str(len(self.asked)), created=0, model=asked.model)
        failing = len(self.asked) <= self.times
        if failing and self.fault[0] == "status":
            _, status, kind, message = self.fault
            headers = ((b"retry-after", b"0.001"),) if status == 429 else ()
            await exchange.send(status, self.dialect.error(status, kind, message), headers=headers)
        elif failing and self.fault[0] == "abort":
            await exchange.abort()
        elif failing and self.fault[0] == "body":
            await exchange.send(200, self.fault[1])
        elif failing and self.fault[0] == "hang":
            await exchange.gone()
        elif asked.stream:
            await self._stream(exchange, asked, stamp, failing)
        else:
            await exchange.send(200, self.dialect.encode(asked, self.completion, stamp))

    async def _stream(self, exchange: Exchange, asked: Asked, stamp: Stamp, failing: bool) -> None:
        events = self.dialect.events(asked, stamp)
        await exchange.begin_events()
        await exchange.event(events.begin())
        if failing and self.fault[0] == "first":
            await exchange.event(events.error(*self.fault[1:]))
            await exchange.end()
            return
        for delta in deltas(self.completion):
            data = events.delta(delta)
            await exchange.event(data[:7])  # events cut anywhere
            await exchange.event(data[7:])
        if failing and self.fault[0] == "midway":
            await exchange.event(events.error(*self.fault[1:]))
        elif not (failing and self.fault[0] == "cut"):
            await exchange.event(events.end(self.completion))
        await exchange.end()
