"""The model endpoint that verifiers is given: a loopback server whose model is Silva's agent.

verifiers' client ─ POST /<secret>/v1/chat/completions ─▶ ModelEndpoint ─▶ Talk.ask ─▶ … ─▶ a chat completion
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from aiohttp import web

from silva.envs.gyms.bridge_talk import Cut, Talk
from silva.hosts import REFUSAL, Hosts
from silva.tree import Json, Message
from silva.tree.formats.chat import read_message, read_tool

MODEL = "silva"

_LARGEST = 64 << 20
_HOSTS = Hosts("127.0.0.1")


class ModelEndpoint:
    """Serves on a free loopback port from `start` to `close`.

    Args:
        on_cut: Called when the episode ends here and is to be scored as it stands, before the request is refused.
    """

    def __init__(self, on_cut: Callable[[], None]) -> None:
        self._on_cut = on_cut
        self._secret = secrets.token_urlsafe(16)
        self._runner: web.AppRunner | None = None
        self.talk = Talk()
        self.blobs: dict[str, bytes] = {}
        self.url = ""

    async def start(self) -> None:
        """Listen; `url` is then the base URL of the endpoint."""
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post(f"/{self._secret}/v1/chat/completions", self._complete)
        self._runner = runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/{self._secret}/v1"

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _complete(self, request: web.Request) -> web.Response:
        if not _HOSTS.known(request.headers.get("Host", "").encode("latin-1", "replace")):
            return web.json_response({"error": {"message": REFUSAL}}, status=421)
        body = await request.json()
        messages = [read_message(message, None, self.blobs)[0] for message in body["messages"]]
        tools = [read_tool(tool) for tool in body.get("tools") or ()]
        try:
            answer = await self.talk.ask(messages, tools)
        except Cut:
            self._on_cut()
            return web.json_response({"error": {"message": "Silva ended the episode here"}}, status=400)
        return web.json_response(_completion(answer, self.talk.turns))


def _completion(answer: Message, number: int) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if answer.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.tool_calls
        ]
    finish = "tool_calls" if answer.tool_calls else "stop"
    return {
        "id": f"silva-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }
