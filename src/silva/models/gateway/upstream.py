"""A backend as a model: the client that speaks its API, with ids in and out where it can.

Backend (url, kind) ─▶ chat: Client │ anthropic: AnthropicClient │ responses: ResponsesClient      ─▶ Upstream
                    └▶ vllm, sglang, silva: ExactModel                                             ─┘
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from silva.errors import UsageError
from silva.models.anthropic import AnthropicClient
from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.exact import Continuation, ExactModel, Renderer, open_exact
from silva.models.exact.sglang import ADAPTER_FIELD
from silva.models.gateway.crossing import carried_on, crossed, in_its_words
from silva.models.gateway.dialects.dialect import Asked
from silva.models.gateway.place import Place
from silva.models.gateway.responses import ResponsesClient
from silva.models.gateway.routing.backend import Backend
from silva.models.held import Held
from silva.models.model import Completion, Delta, Model, Request
from silva.models.retry import NO_RETRY

NATIVE = frozenset({"vllm", "sglang", "silva"})
"""Kinds that take and return token ids."""


class Upstream:
    """One backend's client. Retrying is the gateway's affair, so a client tries once.

    Args:
        backend: where it is and what it speaks.
        model: its name for the model.
        renderer: tokenizer and template, which backends that take ids need.
        version: the policy version `model` names, "" where the backend decides which one answers. What a reply tells
            counts (`tells`) where it was not asked for by name; vLLM tells only the name it was asked under.
        held: counts, together with others, what it keeps of conversations.

    Raises:
        UsageError: its url cannot be used, or it takes ids and there is no renderer.
    """

    def __init__(
        self, backend: Backend, model: str, renderer: Renderer | None, version: str = "", held: Held | None = None
    ) -> None:
        self.backend = backend
        self.version = version
        self.tells = not version and backend.kind != "vllm"
        self.in_flight = 0
        """Calls that it is asked right now; whoever asks counts them."""
        self._exact: ExactModel | None = None
        self._client: Client | None = None
        endpoint = Endpoint(
            url=backend.url,
            model=model,
            api_key_env=backend.api_key_env,
            headers=dict(backend.headers),
            token_ids=backend.ids,
            max_tokens_field=backend.max_tokens_field,
            extra={ADAPTER_FIELD: version} if version and backend.kind == "sglang" else {},
        )
        if backend.kind in NATIVE:
            if renderer is None:
                raise UsageError(
                    f"backend {backend.name} takes token ids: give its model a `renderer`, "
                    "the folder with its tokenizer and chat template"
                )
            key = backend.token or None
            self._exact = open_exact(renderer, backend.kind, endpoint, api_key=key, retry=NO_RETRY, remembers=False)
            self.model: Model = self._exact
        elif backend.kind == "anthropic":
            self.model = AnthropicClient(endpoint, api_key=backend.token or None, retry=NO_RETRY)
        elif backend.kind == "responses":
            self.model = ResponsesClient(endpoint, api_key=backend.token or None, retry=NO_RETRY)
        else:
            self._client = Client(endpoint, api_key=backend.token or None, retry=NO_RETRY, held=held)
            self.model = self._client

    def crossed(self, request: Request, asked: Asked) -> tuple[Request, tuple[str, ...]]:
        """The request as this backend can be told it: with what the client said beside its messages, of the ones it has
        given now, and without what this API has no word for; and the names of that. One of ids goes on from those.

        Raises:
            Problem: the client asks for what only a backend of its own API has.
        """
        if self._exact is None and request.messages is not asked.messages:
            messages = carried_on(request.messages, asked.messages)
            request = msgspec.structs.replace(request, messages=messages)
        request, names = in_its_words(request, asked, self.backend.kind)
        request, lost = crossed(request, self.backend.kind)
        return request, (*names, *lost)

    async def complete(self, request: Request, place: Place) -> Completion:
        """Complete a conversation; `place` says what of it is known as exact ids."""
        if self._exact is None:
            return await self.model.complete(self._asking(request))
        return await self._exact.complete(self._asking(request), _continuation(request, place))

    def stream(self, request: Request, place: Place) -> AsyncIterator[Delta]:
        """Complete it piece by piece."""
        if self._exact is None:
            return self.model.stream(self._asking(request))
        return self._exact.stream(self._asking(request), _continuation(request, place))

    def _asking(self, request: Request) -> Request:
        """The request as this backend can take it: with log-probabilities asked for where ids are (what is trained on
        needs both)."""
        sampling = request.sampling
        if not sampling.logprobs and (self._exact or self.backend.ids):
            sampling = msgspec.structs.replace(sampling, logprobs=True)
        return request if sampling is request.sampling else msgspec.structs.replace(request, sampling=sampling)

    def forget(self, session: str) -> None:
        """Let go of what is kept of a session that has ended, or that memory has no room for."""
        if self._client is not None:  # one of ids keeps nothing
            self._client.forget(session)

    async def close(self) -> None:
        """Close its connections."""
        await self.model.close()


def _continuation(request: Request, place: Place) -> Continuation:
    seen, said, same_tools = place.known()
    return Continuation(ids=seen, messages=said, tools=request.tools if same_tools else None)
