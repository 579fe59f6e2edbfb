"""Servers of token ids for the tests: they say what a function says, over real HTTP, in vLLM's form and in SGLang's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

Said = Callable[[list[int]], list[int]]
Spoil = Callable[[dict[str, Any]], dict[str, Any] | None]


class IdServer:
    """Answers prompts of ids with `say(prompt)`; `spoil` may change what is sent. `asked` holds the bodies received.
    `cumulative`: SGLang's streams repeat what came before. `pause`: seconds after each piece of a stream, so that it
    comes by itself. `pictures`: the ids that SGLang reads in place of a placeholder, by the placeholder."""

    def __init__(
        self,
        say: Said,
        *,
        spoil: Spoil = lambda body: body,
        cumulative: bool = True,
        pause: float = 0.0,
        pictures: dict[int, list[int]] | None = None,
    ) -> None:
        self.say, self.spoil, self.cumulative, self.pause = say, spoil, cumulative, pause
        self.pictures = pictures or {}
        self.asked: list[dict[str, Any]] = []
        self.failing = 0
        self.url = ""
        app = web.Application()
        app.router.add_post("/v1/completions", self._vllm)
        app.router.add_post("/generate", self._sglang)
        self._runner = web.AppRunner(app)

    async def start(self) -> IdServer:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _vllm(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        if body is None:
            return web.json_response({"error": {"message": "busy"}}, status=503)
        prompt, most = body["prompt"], body["max_tokens"]
        ids = self.say(prompt)
        finish = "length" if most is not None and len(ids) > most else "stop"
        ids = ids[:most]

        def said(ids: list[int], finish: str | None, first: bool) -> dict[str, Any]:
            choice: dict[str, Any] = {"index": 0, "text": "", "token_ids": ids, "finish_reason": finish}
            if first:
                choice["prompt_token_ids"] = prompt
            if body.get("logprobs") is not None:
                choice["logprobs"] = {"token_logprobs": [-number / 1000 for number in ids]}
            usage = {"prompt_tokens": len(prompt), "completion_tokens": len(self.say(prompt)[:most])}
            return {"model": "m", "system_fingerprint": "v7", "choices": [choice], "usage": usage}

        if not body.get("stream"):
            return self._whole(said(ids, finish, True))
        events = [said([number], None, place == 0) for place, number in enumerate(ids)]
        return await self._events(request, [*events, said([], finish, False)])

    async def _sglang(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        if body is None:
            return web.json_response({"error": {"message": "busy"}}, status=503)
        ids = self.say(body["input_ids"])
        prompt = [read for number in body["input_ids"] for read in self.pictures.get(number, [number])]

        def said(start: int, stop: int) -> dict[str, Any]:
            meta: dict[str, Any] = {
                "finish_reason": {"type": "stop"} if stop == len(ids) else None,
                "prompt_tokens": len(prompt),
                "completion_tokens": stop,
                "cached_tokens": 2,
                "weight_version": "v7",
            }
            if body["return_logprob"]:
                meta["output_token_logprobs"] = [[-number / 1000, number, None] for number in ids[start:stop]]
            return {"text": "", "output_ids": ids[start:stop], "prompt_token_ids": prompt, "meta_info": meta}

        if not body["stream"]:
            return self._whole(said(0, len(ids)))
        starts = [0] * len(ids) if self.cumulative else list(range(len(ids)))
        return await self._events(request, [said(start, stop + 1) for stop, start in enumerate(starts)])

    async def _body(self, request: web.Request) -> dict[str, Any] | None:
        self.asked.append(await request.json())
        self.failing -= 1
        return None if self.failing >= 0 else self.asked[-1]

    def _whole(self, body: dict[str, Any]) -> web.Response:
        return web.json_response(self.spoil(body))

    async def _events(self, request: web.Request, bodies: list[dict[str, Any]]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for body in bodies:
            spoiled = self.spoil(body)
            if spoiled is None:  # the connection is lost
                assert request.transport is not None
                request.transport.close()
                return response
            await response.write(f"data: {json.dumps(spoiled)}\n\n".encode())
            await asyncio.sleep(self.pause)
        await response.write(b"data: [DONE]\n\n")
        return response
