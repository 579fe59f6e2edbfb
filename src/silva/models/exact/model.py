"""A model whose tokens are exact: what it is sent begins with the very ids it saw and sampled before.

    Request ─▶ prompt_for (renderer, Continuation) ─▶ ids ─▶ NativeBackend ─▶ sampled ids ─▶ ReplyReader ─▶ Completion
                    ▲                                                                                          │
                    └──────── what is known now: prompt + sampled ids, the messages they stand for ◀───────────┘

A caller that keeps the ids itself (the gateway, whose nodes hold them) hands in the continuation. For others the last
one of each session is remembered; a session whose messages were changed meanwhile begins anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator

from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.exact.backend import Draw, Image, NativeBackend, Piece, Sampled
from silva.models.exact.continuation import Continuation, Prompt, prompt_for
from silva.models.exact.renderer import CONVERSATION_CHANGED, Renderer
from silva.models.exact.reply import Parsed
from silva.models.exact.template import RenderError
from silva.models.model import Completion, Delta, Request
from silva.models.wire import WireError, bytes_of
from silva.tree import ImagePart, Json, Message, Tokens

MOST_REMEMBERED = 4096
"""Sessions remembered; the longest unused are let go first."""

FREE = Endpoint(url="", model="")
"""Costs nothing."""

RESTART_REASON = "restart"
"""Attribute of a completion (and so of its node) whose prompt does not go on from what was known: the reason."""


class ExactModel:
    """A `Model` over a renderer and a native backend.

    Completions carry the prompt's ids and the sampled ones. Their attribute `restart` names the reason where the prompt
    could not go on from the known ids.

    Args:
        renderer: of the model that is served.
        backend: where it is served; closed with this.
        priced: the endpoint whose prices count.
        remembers: whether the last ids of each session are kept here; a caller that keeps them itself says no.
    """

    def __init__(
        self,
        renderer: Renderer,
        backend: NativeBackend,
        *,
        priced: Endpoint = FREE,
        remembers: bool = True,
    ) -> None:
        self.name = backend.name
        self.renderer = renderer
        self.backend = backend
        self._priced = priced
        self._remembers = remembers
        self._sessions: OrderedDict[str, Continuation] = OrderedDict()

    async def complete(self, request: Request, continuation: Continuation | None = None) -> Completion:
        """Complete the conversation.

        Args:
            request: as for any model. Its first messages, those the continuation covers, need not be word for word what
                was sampled.
            continuation: what is known of the conversation; None takes the session's last.

        Raises:
            ModelError: no reply could be had, or the conversation cannot be written; see its kind.
        """
        prompt, known = self._prompt(request, continuation)
        sampled = await self.backend.sample(self._draw(request, prompt))
        reader = self._reader(request, prompt)
        reader.feed(sampled.ids)
        parsed, _ = reader.finish()
        return self._completion(request, prompt, known, sampled, parsed)

    async def stream(self, request: Request, continuation: Continuation | None = None) -> AsyncIterator[Delta]:
        """Complete it piece by piece; see `complete`. Marks of calls and thinking never stand in the pieces.

        Raises:
            ModelError: no reply could be had, or it broke off half-way.
        """
        prompt, known = self._prompt(request, continuation)
        reader = self._reader(request, prompt)
        fed = 0
        async for piece in self.backend.stream(self._draw(request, prompt)):
            if isinstance(piece, Piece):
                fed += len(piece.ids)
                if (delta := reader.feed(piece.ids)) is not None:
                    yield delta
                continue
            if fed < len(piece.ids) and (delta := reader.feed(piece.ids[fed:])) is not None:
                yield delta
            parsed, rest = reader.finish()
            if rest is not None:
                yield rest
            completion = self._completion(request, prompt, known, piece, parsed)
            yield Delta(tool_calls=completion.message.tool_calls, completion=completion)

    async def close(self) -> None:
        """Close the backend."""
        await self.backend.close()

    def continuation(
        self, request: Request, completion: Completion, messages: tuple[Message, ...] = ()
    ) -> Continuation:
        """What is known after a completion; `messages` are those its prompt stands for, where not the request's."""
        sampled = completion.tokens.ids if completion.tokens is not None else ()
        said = (messages or request.messages, (completion.message,))
        return Continuation(ids=completion.prompt_ids + sampled, messages=said[0] + said[1], tools=request.tools)

    def _prompt(self, request: Request, given: Continuation | None) -> tuple[Prompt, tuple[Message, ...]]:
        """The prompt, and the messages it stands for."""
        known, changed = given, ""
        if known is None and request.session:
            known = self._sessions.get(request.session)
            if known is not None and request.messages[: known.count] != known.messages:
                known, changed = None, CONVERSATION_CHANGED
        choice = request.sampling.tool_choice
        if choice not in (None, "auto", "none"):
            raise self._refused(f"tool_choice {choice!r} cannot be enforced on token ids: use auto or none")
        try:
            prompt = prompt_for(self.renderer, request.messages, request.tools, known)
        except RenderError as fault:
            raise self._refused(str(fault)) from fault
        if changed:
            prompt = Prompt(ids=prompt.ids, restart=changed)
        covered = known.messages if known is not None and known.count <= len(request.messages) else ()
        return prompt, covered + request.messages[len(covered) :]

    def _draw(self, request: Request, prompt: Prompt) -> Draw:
        return Draw(
            prompt_ids=prompt.ids,
            sampling=request.sampling,
            stop_ids=tuple(sorted(self.renderer.stop_ids)),
            deadline=request.deadline,
            session=request.session,
            images=self._images(request),
        )

    def _images(self, request: Request) -> tuple[Image, ...]:
        shown = [part for message in request.messages for part in message.parts if isinstance(part, ImagePart)]
        try:
            return tuple(Image(data=bytes_of(part, request.images), media_type=part.media_type) for part in shown)
        except WireError as fault:
            raise self._refused(str(fault)) from fault

    def _reader(self, request: Request, prompt: Prompt):
        tools = () if request.sampling.tool_choice == "none" else request.tools
        return self.renderer.reader(tools, stop=request.sampling.stop, name=str(len(prompt.ids)))

    def _completion(
        self, request: Request, prompt: Prompt, said: tuple[Message, ...], sampled: Sampled, parsed: Parsed
    ) -> Completion:
        message = parsed.message
        called = message.tool_calls and sampled.finish_reason == "stop"
        drawn = len(sampled.ids)
        attributes: Json = {RESTART_REASON: prompt.restart} if prompt.restart else {}
        completion = Completion(
            message=message,
            finish_reason="tool_calls" if called else sampled.finish_reason,
            tokens=Tokens(ids=sampled.ids, sampled=drawn, logprobs=sampled.logprobs),
            prompt_ids=prompt.ids,
            logprobs=sampled.logprobs,
            usage=self._priced.usage(len(prompt.ids), drawn, sampled.cached_tokens, 0, sampled.waited),
            model=sampled.model or self.name,
            policy_version=sampled.policy_version,
            seconds=sampled.seconds,
            attempts=sampled.attempts,
            attributes=attributes,
        )
        if request.session and self._remembers:
            self._sessions[request.session] = self.continuation(request, completion, said)
            self._sessions.move_to_end(request.session)
            if len(self._sessions) > MOST_REMEMBERED:
                self._sessions.popitem(last=False)
        return completion

    def _refused(self, what: str) -> ModelError:
        return ModelError("refused", f"model {self.name}: {what}")
