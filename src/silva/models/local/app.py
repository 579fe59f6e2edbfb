"""The local model's routes.

/v1/chat/completions ─ Chat ──────┐
/v1/completions ────── Completion ┴▶ Flight ─▶ Engine            model names a Version: its adapter goes along
/v1/models, /tokenize, /detokenize
/v1/load_lora_adapter, /v1/unload_lora_adapter, /silva/policy ─▶ Versions        only with the server's token
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

import msgspec

from silva.models.failure import UNREADABLE
from silva.models.local import MODEL
from silva.models.local.chat import Chat
from silva.models.local.completion import Completion
from silva.models.local.engine import Engine
from silva.models.local.prompt import Prompter
from silva.models.local.tokens import DetokenizeRequest, TokenizeRequest, detokenize, tokenize
from silva.models.local.versions import Versions
from silva.models.serving import ChatApp, ChatRequest, Exchange, Refusal
from silva.models.serving.completion import read_completion
from silva.tree import Json

Body = TypeVar("Body")


class LoadRequest(msgspec.Struct, frozen=True):
    """`/v1/load_lora_adapter`; `policy_version` is ours, the rest is vLLM's."""

    lora_name: str
    lora_path: str
    load_inplace: bool = False
    policy_version: str | None = None


class UnloadRequest(msgspec.Struct, frozen=True):
    """`/v1/unload_lora_adapter`."""

    lora_name: str


class PolicyRequest(msgspec.Struct, frozen=True):
    """`/silva/policy`: which version answers for the model's own name from now on."""

    version: str


class LocalApp(ChatApp):
    """Serves an engine.

    Args:
        engine: the computing part; started and stopped with the server.
        prompter: tokenizer and template of the same weights.
        fingerprint: the policy version of the weights.
        token: what clients must present, or None; without one nobody may change what is served.
        adapters: the folder adapters may be loaded from, or None for none.
        name: what the weights are served under.
    """

    def __init__(
        self,
        engine: Engine,
        prompter: Prompter,
        fingerprint: str,
        token: str | None = None,
        adapters: Path | None = None,
        name: str = MODEL,
    ) -> None:
        super().__init__(name, token)
        self.versions = Versions(engine, fingerprint, adapters, name)
        self._engine = engine
        self._prompter = prompter
        self._guarded = token is not None
        self._chat = Chat(engine, prompter, name)
        self._completion = Completion(engine, prompter, name)

    async def started(self) -> None:
        """Start the engine."""
        self._engine.start()

    async def stopped(self) -> None:
        """Stop the engine."""
        await asyncio.to_thread(self._engine.stop)

    def models(self) -> list[Json]:
        """The model and the adapters loaded."""
        return self.versions.entries()

    def serves(self, model: str) -> bool:
        """Whether a version of this name is loaded."""
        return self.versions.find(model) is not None

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        """Sample one reply."""
        await self._chat.answer(request, self.versions.found(request.model), exchange)

    async def elsewhere(self, path: str, method: str, exchange: Exchange) -> None:
        """Answer the routes that chat servers in general do not have."""
        if path == "/silva/policy" and method == "GET":
            await _answer(exchange, self.versions.state())
            return
        if path not in ROUTES:
            raise Refusal(404, f"there is nothing at {path}: this server has /v1/chat/completions, {', '.join(ROUTES)}")
        if method != "POST":
            raise Refusal(405, f"{method} is not allowed here: use POST")
        body = await exchange.body()
        if path == "/v1/completions":
            request = read_completion(body)
            await self._completion.answer(request, self.versions.found(request.model or ""), exchange)
        elif path == "/tokenize":
            asked = _read(body, TokenizeRequest)
            self.versions.found(asked.model or "")
            await _answer(exchange, tokenize(asked, self._prompter, self._engine.network))
        elif path == "/detokenize":
            given = _read(body, DetokenizeRequest)
            self.versions.found(given.model or "")
            await _answer(exchange, detokenize(given, self._prompter, self._engine.network))
        else:
            await self._change(path, body, exchange)

    async def _change(self, path: str, body: bytes, exchange: Exchange) -> None:
        if not self._guarded:
            raise Refusal(403, "what is served can only be changed on a server with a token: start it with --token-env")
        if path == "/silva/policy":
            await _answer(exchange, self.versions.switch(_read(body, PolicyRequest).version))
        elif path == "/v1/load_lora_adapter":
            asked = _read(body, LoadRequest)
            version = await self.versions.load(
                asked.lora_name, asked.lora_path, asked.policy_version, asked.load_inplace
            )
            await _answer(exchange, {"loaded": version.name, "policy_version": version.label})
        else:
            version = await self.versions.unload(_read(body, UnloadRequest).lora_name)
            await _answer(exchange, {"unloaded": version.name, "policy_version": version.label})


ROUTES = (
    *("/v1/completions", "/v1/models", "/tokenize", "/detokenize"),
    *("/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/silva/policy"),
)


def _read(body: bytes, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as fault:
        raise Refusal(400, f"the request cannot be read: {fault}") from fault


async def _answer(exchange: Exchange, body: Json) -> None:
    await exchange.send(200, msgspec.json.encode(body))
