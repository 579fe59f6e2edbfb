"""A model whose policy version can be changed, in place or by adapters, and that says which one answers."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from under_load import completed, generated

from silva.models.serving import ChatApp, ChatRequest, Exchange, Refusal
from silva.models.serving.chat import ChatReply

_numbers = itertools.count()

BUILD = "vllm-0.32-tp1-7f2c"


class Versioned(ChatApp):
    """A model that says which version answers. Its weights can be changed in place, while nothing is in flight; or it
    holds adapters beside them, at most `most`, as vLLM's routes have it, or SGLang's. `tells`: it says which version
    answers, as Silva's servers do; else its fingerprint is that of its build, which stays. `adapters`: what is loaded,
    and from where; `loads` counts how often it was asked to load."""

    def __init__(self, tells: bool = True, most: int = 1000) -> None:
        super().__init__("scripted")
        self.version = "v0"
        self.tells = tells
        self.most = most
        self.adapters: dict[str, str] = {}
        self.loads = 0
        self.in_flight = 0
        self.refuses: Refusal | None = None
        """What it says to every conversation."""
        self.lacks = Refusal(404, "no such model")
        """What it says where it lacks the adapter."""
        self.pause = 0.01
        self.load_pause = 0.0

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        version = self.version
        text = await self._said(version)
        reply = ChatReply(text=text, fingerprint=version if self.tells else None)
        if not request.stream:
            await exchange.send(200, built(reply.encode(request)))
            return
        await exchange.begin_events()
        for event in reply.events(request, iter((text[:3], text[3:]))):
            await exchange.event(built(event))
        await exchange.end()

    async def elsewhere(self, path: str, method: str, exchange: Exchange) -> None:
        if path == "/health":
            await exchange.send(200, b"{}")
            return
        body = json.loads(await exchange.body())
        if path.removeprefix("/v1") == "/load_lora_adapter":
            self.loads += 1
            await asyncio.sleep(self.load_pause)
            if body["lora_name"] in self.adapters:
                raise Refusal(400, "the adapter is already loaded")
            if len(self.adapters) >= self.most:
                raise Refusal(409, f"{self.most} adapters are loaded: unload one first")
            if "wrong" in body["lora_path"]:
                raise Refusal(400, "there is no such folder")
            self.adapters[body["lora_name"]] = body["lora_path"]
            await exchange.send(200, b"{}")
        elif path.removeprefix("/v1") == "/unload_lora_adapter":
            if self.adapters.pop(body["lora_name"], None) is None:
                raise Refusal(404, "no such adapter")
            await exchange.send(200, b"{}")
        elif path == "/v1/completions":
            await self._completed(body, exchange)
        elif path == "/generate":
            await self._generated(body, exchange)
        else:
            raise Refusal(404, path)

    async def _completed(self, body: dict[str, Any], exchange: Exchange) -> None:
        if self.refuses is not None:
            raise self.refuses
        if body["model"] not in {*self.adapters, self.model}:
            raise self.lacks
        version = body["model"] if body["model"] in self.adapters else self.version
        text = await self._said(version)
        said = completed(body, text, f"digest-of-{version}" if self.tells else BUILD)
        await self._send(body, said, exchange)

    async def _generated(self, body: dict[str, Any], exchange: Exchange) -> None:
        asked = body.get("lora_path")
        if asked is not None and asked not in self.adapters:
            raise self.lacks
        said = generated(body, await self._said(asked or self.version), self.version if self.tells else "default")
        await self._send(body, said, exchange)

    async def _send(self, body: dict[str, Any], said: dict[str, Any], exchange: Exchange) -> None:
        if not body.get("stream"):
            await exchange.send(200, json.dumps(said).encode())
            return
        await exchange.begin_events()
        await exchange.event(f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n".encode())
        await exchange.end()

    async def _said(self, version: str) -> str:
        self.in_flight += 1
        await asyncio.sleep(self.pause)
        self.in_flight -= 1
        return f"{version} says {next(_numbers)}"


def built(data: bytes) -> bytes:
    """A reply that tells no version, with the fingerprint of a build."""
    return data.replace(b'"system_fingerprint":null', f'"system_fingerprint":"{BUILD}"'.encode())
