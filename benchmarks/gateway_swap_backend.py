"""A backend that says which version of itself answers: `python gateway_swap_backend.py PORT tells|silent`.

    POST /version                 its weights are changed in place: refused (409) while anything is in flight
    POST /v1/load_lora_adapter    it holds one version more, asked for by name, as vLLM and Silva's local model have it
    /v1/chat/completions, /v1/completions (ids in, ids out)

`tells`: replies carry the version in their fingerprint; `silent`: only their words do. It ends with its parent.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
from typing import Any

import msgspec

from silva.models.child import announce, run_child, stop_with_parent
from silva.models.scripted import tokens
from silva.models.serving import ChatApp, ChatRequest, Exchange, Refusal, serve_forever
from silva.models.serving.chat import ChatReply
from silva.models.serving.server import bind

FIRST = "v0"
SHORTEST, LONGEST = 0.02, 0.3
PIECES = 6


class VersionedApp(ChatApp):
    """See the module."""

    def __init__(self, tells: bool) -> None:
        super().__init__("scripted")
        self._version = FIRST
        self._tells = tells
        self._adapters: set[str] = set()
        self._in_flight = 0

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        """Answer with the version that answers: it is drawn when the request comes, told piece by piece."""
        self._in_flight += 1
        try:
            version, seconds = self._version, random.uniform(SHORTEST, LONGEST)
            text = _words(version)
            reply = ChatReply(text=text, fingerprint=version if self._tells else None)
            if not request.stream:
                await asyncio.sleep(seconds)
                if version != self._version:
                    raise Refusal(500, "the weights were changed under a request")
                await exchange.send(200, reply.encode(request))
                return
            await exchange.begin_events()
            size = -(-len(text) // PIECES)
            for event in reply.events(request, (text[at : at + size] for at in range(0, len(text), size))):
                await asyncio.sleep(seconds / PIECES)
                await exchange.event(event)
            await exchange.end()
        finally:
            self._in_flight -= 1

    async def elsewhere(self, path: str, method: str, exchange: Exchange) -> None:
        """The routes by which versions change, and completions of ids."""
        body = msgspec.json.decode(await exchange.body())
        if path == "/version":
            if self._in_flight:
                raise Refusal(409, f"{self._in_flight} requests are in flight")
            self._version = body["version"]
            await exchange.send(200, b"{}")
        elif path == "/v1/load_lora_adapter":
            await asyncio.sleep(0.05)
            if body["lora_name"] in self._adapters:
                raise Refusal(400, f"the adapter {body['lora_name']!r} is already loaded")
            self._adapters.add(body["lora_name"])
            await exchange.send(200, b"{}")
        elif path == "/v1/completions":
            await self._complete(body, exchange)
        else:
            raise Refusal(404, f"there is nothing at {path}")

    async def _complete(self, body: dict[str, Any], exchange: Exchange) -> None:
        model = body["model"]
        if model not in {*self._adapters, self.model}:
            raise Refusal(404, f"there is no model {model!r}")
        version = model if model in self._adapters else self._version
        await asyncio.sleep(random.uniform(SHORTEST, LONGEST))
        ids = [*_words(version).encode(), tokens.END]
        choice = {
            "index": 0,
            "text": "",
            "token_ids": ids,
            "prompt_token_ids": body["prompt"],
            "logprobs": {"token_logprobs": [-0.1] * len(ids)},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(ids)}
        said = {"model": model, "system_fingerprint": f"digest-of-{version}", "choices": [choice], "usage": usage}
        if not body.get("stream"):
            await exchange.send(200, msgspec.json.encode(said))
            return
        await exchange.begin_events()
        await exchange.event(b"data: " + msgspec.json.encode(said) + b"\n\ndata: [DONE]\n\n")
        await exchange.end()


def _words(version: str) -> str:
    return f"{version} says {secrets.token_hex(16)}"


def main(port: int, tells: bool) -> None:
    """Serve."""
    run_child(lambda: serve_forever(VersionedApp(tells), bind("127.0.0.1", port), announce, stop_with_parent))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "tells")
