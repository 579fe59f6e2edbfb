"""Chat completions of the local model: conversation to ids, ids to text and tool calls."""

from __future__ import annotations

from silva.models.local.asked import asked_choice, check_prompt
from silva.models.local.engine import Engine
from silva.models.local.flight import Flight
from silva.models.local.growing import Growing
from silva.models.local.prompt import Prompter
from silva.models.local.versions import Version
from silva.models.serving import ChatMessage, ChatReply, ChatRequest, Exchange, Refusal
from silva.models.serving.chat import NOT_OFFERED, CallFunction, HistoryCall
from silva.models.serving.offered import check_offered

DEFAULT_MOST = 512
"""Tokens of a reply whose request sets no bound: a small model may ramble on for ever."""


class Chat:
    """Answers chat requests on an engine."""

    def __init__(self, engine: Engine, prompter: Prompter, model: str) -> None:
        self._engine = engine
        self._prompter = prompter
        self._model = model

    async def answer(self, request: ChatRequest, version: Version, exchange: Exchange) -> None:
        """Sample one reply with the weights of a version.

        Raises:
            Refusal: the request cannot be answered.
        """
        if request.bound is not None and request.bound < 1:
            raise Refusal(400, "max_tokens must be at least 1")
        check_offered(request, NOT_OFFERED)
        if request.tool_choice not in (None, "auto", "none"):
            raise Refusal(400, "tool_choice must be auto or none: a call cannot be promised here")
        choice = asked_choice(request.temperature, request.top_p, request.top_k, request.seed)
        if any(
            isinstance(m.content, list) and any(p.get("type") != "text" for p in m.content) for m in request.messages
        ):
            raise Refusal(400, f"{self._model} reads text only: leave out the images")
        prompt = self._prompter.ids(request)
        check_prompt(prompt, self._engine.network, "conversation")
        stops = [request.stop] if isinstance(request.stop, str) else list(request.stop or ())
        growing = Growing(self._prompter, [stop for stop in stops if stop], self._prompter.call_marks)
        most = request.bound if request.bound is not None else DEFAULT_MOST
        flight = Flight(self._engine, exchange, growing, version, prompt, most, choice, eager=request.stream)
        async with flight:
            if request.stream:
                await self._stream(request, exchange, flight)
                return
            async for _ in flight.moves():
                pass
            if not flight.left:
                await exchange.send(200, self._reply(request, flight).encode(request), headers=version.headers)

    async def _stream(self, request: ChatRequest, exchange: Exchange, flight: Flight) -> None:
        await exchange.begin_events(flight.version.headers)
        blank = ChatReply(model=request.model or self._model)
        sent = 0
        async for _ in flight.moves():
            text = flight.growing.shown
            if len(text) > sent and not flight.done:
                await exchange.event(blank.event({"content": text[sent:]}))
                sent = len(text)
        if flight.left:
            return
        reply = self._reply(request, flight)
        if len(reply.text) > sent:
            await exchange.event(reply.event({"content": reply.text[sent:]}))
        for event in reply.closing_events(request):
            await exchange.event(event)
        await exchange.end()

    def _reply(self, request: ChatRequest, flight: Flight) -> ChatReply:
        flight.check()
        job, said = flight.job, flight.growing.text
        text, calls = self._prompter.calls(said, job.ids, request) if request.tools else (said, ())
        reply = ChatReply(
            text=text,
            tool_calls=calls,
            finish_reason="tool_calls" if calls and job.finish == "stop" else job.finish,
            ids=tuple(job.ids),
            logprobs=tuple(job.logprobs),
            pieces=tuple(self._prompter.piece(number) for number in job.ids)
            if request.logprobs
            else ("",) * len(job.ids),
            prompt_ids=tuple(job.prompt),
            prompt_tokens=len(job.prompt),
            completion_tokens=len(job.ids),
            cached_tokens=job.cached,
            model=request.model or self._model,
            fingerprint=flight.version.label,
        )
        message = ChatMessage(
            role="assistant",
            content=text,
            tool_calls=[HistoryCall(function=CallFunction(name=c.name, arguments=c.arguments)) for c in calls],
        )
        self._prompter.remember(request, message, job.prompt + job.ids)
        return reply
