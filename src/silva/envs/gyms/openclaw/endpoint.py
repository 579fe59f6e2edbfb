"""The door of OpenClaw's model: a chat API on a loopback port whose model is Silva's agent.

    OpenClaw ─ POST /v1/chat/completions (streamed) ─▶ Door ─▶ Talk.ask ─▶ Observation … action ─▶ one streamed reply

OpenClaw puts a note on what runs in the background behind every request and takes it away from the one before. An
agent's conversation only grows here, so the note is told where it says something new, stays where it was told, and is
not told again; that a later note replaces an earlier one is what OpenClaw's own system prompt says of them.
"""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from silva.envs.gyms.bridge_talk import Cut, Talk
from silva.hosts import REFUSAL, Hosts
from silva.tree import Json, Message
from silva.tree.formats.chat import read_message, read_tool

NOTE = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
_LARGEST = 32 << 20
_HOSTS = Hosts("127.0.0.1")


class Notes:
    """The notes of one conversation: where each was told."""

    def __init__(self) -> None:
        self._told: list[tuple[int, Message]] = []

    def settled(self, messages: list[Message]) -> list[Message]:
        """The conversation with its notes where they were first told."""
        plain = list(messages)
        if len(plain) > 1 and plain[-1].role == "user" and plain[-1].text.startswith(NOTE):
            note = plain.pop()
            if not self._told or self._told[-1][1].text != note.text:
                self._told.append((len(plain), note))
        for place, note in reversed(self._told):
            plain.insert(place, note)
        return plain


class Door:
    """Serves on a free loopback port from `start` to `stop`; `talk` is the episode, `heard` how often it was asked."""

    def __init__(self) -> None:
        self._server: ThreadingHTTPServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.talk = Talk()
        self.notes = Notes()
        self.heard = 0
        self.port = 0

    def start(self) -> None:
        """Listen; `port` is where."""
        self._loop = asyncio.get_running_loop()
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def parse_request(self) -> bool:
                """Whether a request is one; a page of a stranger's site that leads here is answered by no method."""
                if not super().parse_request():
                    return False
                if _HOSTS.known(self.headers.get("Host", "").encode("latin-1", "replace")):
                    return True
                self.close_connection = True
                _send(self, 421, _error(REFUSAL))
                return False

            def do_POST(self) -> None:
                door._answer(self)

            def do_GET(self) -> None:
                _send(self, 200, json.dumps({"object": "list", "data": [{"id": "agent", "object": "model"}]}))

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing is logged."""

        self._server = server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="silva-door").start()

    def stop(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = handler.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > _LARGEST:
            _send(handler, 413, _error("the request has no length, or is over 32 MB"))
            return
        try:
            body = json.loads(handler.rfile.read(int(length)))
            blobs: dict[str, bytes] = {}
            messages = [read_message(message, None, blobs)[0] for message in body["messages"]]
            tools = [read_tool(tool) for tool in body.get("tools") or ()]
        except (ValueError, KeyError, TypeError) as error:
            _send(handler, 400, _error(f"no chat request: {' '.join(str(error).split())[:200]}"))
            return
        assert self._loop is not None
        self.heard += 1
        asked = self.talk.ask(self.notes.settled(messages), tools)
        try:
            answer = asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        except (Cut, asyncio.CancelledError, RuntimeError):
            _send(handler, 400, _error("the episode has ended"))
            return
        _stream(handler, answer, self.heard) if body.get("stream") else _send(
            handler, 200, json.dumps(_completion(answer, self.heard))
        )


def _send(handler: BaseHTTPRequestHandler, code: int, text: str) -> None:
    content = text.encode()
    handler.send_response(code)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def _stream(handler: BaseHTTPRequestHandler, answer: Message, number: int) -> None:
    whole = _completion(answer, number)
    choice = whole["choices"][0]
    said = choice["message"]
    if "tool_calls" in said:
        said["tool_calls"] = [{"index": place, **made} for place, made in enumerate(said["tool_calls"])]
    base = {"id": whole["id"], "object": "chat.completion.chunk", "created": 0, "model": whole["model"]}
    pieces: list[Json] = [
        {**base, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**base, "choices": [], "usage": whole["usage"]},
    ]
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()
    for piece in pieces:
        handler.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
    handler.wfile.write(b"data: [DONE]\n\n")
    handler.close_connection = True


def _completion(answer: Message, number: int) -> Json:
    said: Json = {"role": "assistant", "content": answer.text or None}
    if answer.tool_calls:
        said["tool_calls"] = [
            {"id": made.id, "type": "function", "function": {"name": made.name, "arguments": made.arguments}}
            for made in answer.tool_calls
        ]
    finish = "tool_calls" if answer.tool_calls else "stop"
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return {
        "id": f"silva-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": "agent",
        "choices": [choice],
        "usage": usage,
    }


def _error(text: str) -> str:
    return json.dumps({"error": {"message": text, "type": "invalid_request_error"}})
