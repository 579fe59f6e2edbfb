"""`/v1/completions` of the local model: ids in, ids out."""

from __future__ import annotations

from silva.models.local.asked import asked_choice, check_ids, check_prompt
from silva.models.local.engine import Engine
from silva.models.local.flight import Flight
from silva.models.local.growing import Growing
from silva.models.local.prompt import Prompter
from silva.models.local.versions import Version
from silva.models.serving import Exchange, Refusal
from silva.models.serving.completion import CompletionReply, CompletionRequest, Sampled, closing_events, part


class Completion:
    """Answers completion requests on an engine."""

    def __init__(self, engine: Engine, prompter: Prompter, model: str) -> None:
        self._engine = engine
        self._prompter = prompter
        self._model = model

    async def answer(self, request: CompletionRequest, version: Version, exchange: Exchange) -> None:
        """Sample one reply with the weights of a version.

        Raises:
            Refusal: the request cannot be answered.
        """
        network = self._engine.network
        prompt = self._prompt(request)
        check_prompt(prompt, network)
        named = request.stop_token_ids or []
        check_ids(named, network, "list stop_token_ids")
        choice = asked_choice(request.temperature, request.top_p, request.top_k, request.seed, request.logprobs or 0)
        ends = frozenset(named) if request.ignore_eos else frozenset(named) | network.ends
        growing = Growing(self._prompter, request.stops, special=not request.skip_special_tokens)
        eager = bool(request.stream)
        most = network.context if request.max_tokens is None else request.max_tokens
        flight = Flight(self._engine, exchange, growing, version, prompt, most, choice, ends, eager=eager)
        async with flight:
            if eager:
                await self._stream(request, exchange, flight)
                return
            async for _ in flight.moves():
                pass
            if not flight.left:
                body = self._reply(request, flight).encode(request)
                await exchange.send(200, body, headers=version.headers)

    def _prompt(self, request: CompletionRequest) -> list[int]:
        given = request.prompt
        if isinstance(given, list) and given and not isinstance(given[0], int):
            if len(given) > 1:
                raise Refusal(400, "one prompt a request: send the others beside it, they are computed together")
            given = given[0]
        if isinstance(given, str):
            return self._prompter.encode(given, request.add_special_tokens)
        ids = [number for number in given or () if isinstance(number, int)]
        if isinstance(given, list) and len(ids) < len(given):
            raise Refusal(400, "the prompt mixes ids and texts")
        return ids

    async def _stream(self, request: CompletionRequest, exchange: Exchange, flight: Flight) -> None:
        await exchange.begin_events(flight.version.headers)
        model, job = request.model or self._model, flight.job
        prompt: tuple[int, ...] | None = tuple(job.prompt)
        shown = told = offset = 0
        async for _ in flight.moves():
            if flight.done:
                break
            text, count = flight.growing.shown, len(job.logprobs)
            if count > told:
                news = self._sampled(request, flight, told, count)
                await exchange.event(part(request, model, text[shown:], news, offset, prompt))
                shown, told, prompt = max(shown, len(text)), count, None
                offset += sum(map(len, news.pieces))
        if flight.left:
            return
        reply = self._reply(request, flight)
        news = self._sampled(request, flight, told, len(job.ids))
        await exchange.event(part(request, model, reply.text[shown:], news, offset, prompt, reply))
        await exchange.event(closing_events(request, reply))
        await exchange.end()

    def _sampled(self, request: CompletionRequest, flight: Flight, start: int, stop: int) -> Sampled:
        job = flight.job
        ids, logprobs = tuple(job.ids[start:stop]), tuple(job.logprobs[start:stop])
        if request.logprobs is None:
            return Sampled(ids=ids, logprobs=logprobs)
        tops = tuple(
            tuple((self._piece(request, number), chance) for number, chance in top) for top in job.tops[start:stop]
        )
        return Sampled(
            ids=ids, pieces=tuple(self._piece(request, number) for number in ids), logprobs=logprobs, tops=tops
        )

    def _piece(self, request: CompletionRequest, number: int) -> str:
        return f"token_id:{number}" if request.return_tokens_as_token_ids else self._prompter.piece(number)

    def _reply(self, request: CompletionRequest, flight: Flight) -> CompletionReply:
        flight.check()
        job = flight.job
        return CompletionReply(
            text=flight.growing.text,
            sampled=self._sampled(request, flight, 0, len(job.ids)),
            prompt_ids=tuple(job.prompt),
            finish_reason=job.finish,
            stop_reason=flight.growing.stop,
            cached_tokens=job.cached,
            model=request.model or self._model,
            fingerprint=flight.version.label,
        )
