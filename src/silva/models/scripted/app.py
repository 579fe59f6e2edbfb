"""The scripted model as a chat server: finds the answer, waits its latency, sends it or fails as planned."""

from __future__ import annotations

import asyncio
import hashlib
from itertools import islice
from urllib.parse import unquote

import msgspec

from silva.models.scripted.answer import Answer
from silva.models.scripted.fault import Faults
from silva.models.scripted.function import ask, load_function
from silva.models.scripted.latency import Latency
from silva.models.scripted.recorded import Recording
from silva.models.scripted.script import Matcher, Rule, Script, expanded
from silva.models.serving import ChatApp, ChatReply, ChatRequest, Exchange, Refusal

PIECE = 8
"""Characters in one piece of a streamed reply."""


class ScriptedApp(ChatApp):
    """Serves one script. `requests` counts the chat completions asked for.

    Raises:
        UsageError: the script names a file, function or pattern that cannot be used.
    """

    def __init__(self, script: Script, token: str | None = None) -> None:
        super().__init__(script.model, token)
        self.requests = 0
        self._script = script
        self._matcher = Matcher(script.rules)
        self._faults = Faults(script.faults, script.seed)
        self._rule_faults = {id(rule): Faults((rule.fault,), script.seed) for rule in script.rules if rule.fault}
        self._recording = None if script.recorded is None else Recording(script.path(script.recorded))
        self._function = None if script.function is None else load_function(script.function, script.path("."))
        self._latency = _latency(script.latency)
        drawn = any(_latency(rule.latency or 0.0).kind != "fixed" for rule in script.rules)
        self._needs_digest = bool(script.faults or self._rule_faults) or self._latency.kind != "fixed" or drawn

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        """Answer as the script says."""
        self.requests += 1
        session = unquote(exchange.header(b"x-session-id"))
        content = self._digest(request, session) if self._needs_digest else ""
        fault = self._faults.next(content)
        rule, answer, latency = None, None, self._latency
        if fault is None or fault.kind in ("cut", "truncated", "slow_stream"):
            rule, answer = await self._answer(request, session)
            if rule is not None and rule.latency is not None:
                latency = _latency(rule.latency)
            if fault is None and rule is not None and rule.fault is not None:
                fault = self._rule_faults[id(rule)].next(content)
        seconds = latency.seconds(f"{self._script.seed}/{content}")
        if seconds:
            await asyncio.sleep(seconds)
        if fault is None or fault.kind == "slow_stream":
            if answer is None:
                raise Refusal(400, self._nothing(request), "no_answer")
            await self._send(request, answer.reply(request, self.model), exchange, fault.pause if fault else 0.0)
            return
        reply = (answer or Answer(text="cut short")).reply(request, self.model)
        if fault.kind == "cut" and request.stream:
            await self._cut(request, reply, exchange)
        else:
            await fault.strike(exchange, reply.encode(request))

    async def _answer(self, request: ChatRequest, session: str) -> tuple[Rule | None, Answer | None]:
        found = self._matcher.find(request, session)
        if found is not None:
            rule, match = found
            return rule, None if rule.reply is None else expanded(rule.reply, match)
        if self._recording is not None:
            recorded = self._recording.find(request)
            if recorded is not None:
                return None, recorded
        if self._function is not None:
            made = await ask(self._function, request, session)
            if made is not None:
                return None, made
        return None, self._script.otherwise

    async def _send(self, request: ChatRequest, reply: ChatReply, exchange: Exchange, pause: float) -> None:
        if not request.stream:
            await exchange.send(200, reply.encode(request))
            return
        await exchange.begin_events()
        for event in reply.events(request, iter(_pieces(reply.text))):
            await exchange.event(event)
            if pause:
                await asyncio.sleep(pause)
        await exchange.end()

    async def _cut(self, request: ChatRequest, reply: ChatReply, exchange: Exchange) -> None:
        """Stream half of its words, at least one event, and drop the connection."""
        pieces = _pieces(reply.text)
        await exchange.begin_events()
        for event in islice(reply.events(request, iter(pieces)), max(1, len(pieces) // 2)):
            await exchange.event(event)
        await exchange.abort()

    def _digest(self, request: ChatRequest, session: str) -> str:
        facts = msgspec.json.encode([session, request.messages, request.tools, request.seed, request.temperature])
        return hashlib.blake2b(facts, digest_size=12).hexdigest()

    def _nothing(self, request: ChatRequest) -> str:
        last = " ".join(request.messages[-1].text.split())[:80]
        where = f"at turn {request.turn} to {request.messages[-1].role} {last!r}"
        return f"the script has no answer {where}: add a rule or 'otherwise'"


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def _latency(value: Latency | float) -> Latency:
    return value if isinstance(value, Latency) else Latency(mean=value)
