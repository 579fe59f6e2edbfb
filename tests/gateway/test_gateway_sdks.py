"""The official SDKs at a running gateway: streamed tool calls, pictures, and their own retries when a reply is lost."""

from __future__ import annotations

import base64
import json
import socket
import threading
from typing import Any

import anthropic
import openai
import pytest

from silva.lake import Lake
from silva.lake.blobs import path_of

LOOK = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "when": {"last": "weather in (\\w+)"},
    "reply": {"text": "I look.", "tool_calls": [{"name": "look", "arguments": {"city": "\\1"}}], "expand": True},
}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_streamed_tool_calls_of_the_openai_sdk_become_one_walk(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(rules=[WEATHER], otherwise={"text": "It is sunny."}))
    client = openai.OpenAI(base_url=f"{gateway.where}/r/run/main/v1", api_key=gateway.open_run())
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": LOOK}}]
    messages: list[Any] = [{"role": "user", "content": "weather in Oslo"}]
    texts = []
    for _ in range(2):
        asked: dict[str, Any] = {"model": "scripted", "messages": messages, "tools": tools}
        with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            for _event in stream:
                pass
            got = stream.get_final_completion()
        said = got.choices[0].message
        assert got.usage is not None and got.usage.completion_tokens
        texts.append(said.content)
        messages.append(said.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in said.tool_calls or ():
            assert (call.function.name, json.loads(call.function.arguments)) == ("look", {"city": "Oslo"})
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "18"})
    assert texts == ["I look.", "It is sunny."]
    (tree,) = gateway.trees()
    (leaf,) = tree.leaves
    walk = tree.walk(leaf.id)
    assert [node.message.role for node in walk] == ["user", "assistant", "tool", "assistant"]
    assert all(node.tokens for node in walk if node.message.role == "assistant")


def data(kind: str) -> dict[str, Any]:
    encoded = base64.b64encode(PIXEL).decode()
    if kind == "anthropic":
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded}}
    return {"type": "input_image", "image_url": f"data:image/png;base64,{encoded}", "detail": "auto"}


@pytest.mark.parametrize("kind", ["anthropic", "responses"])
def test_a_picture_in_two_places_and_two_turns_is_kept_once(scripted: Any, serve: Any, kind: str) -> None:
    model = scripted(otherwise={"text": "A point."})
    gateway = serve(model)
    token, two = gateway.open_run(), [data(kind), data(kind)]
    if kind == "anthropic":
        client = anthropic.Anthropic(base_url=f"{gateway.where}/r/run/main", api_key=token)
        messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "See?"}, *two]}]
        for _ in range(2):
            said = client.messages.create(model="scripted", max_tokens=9, messages=messages)
            messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": two}]
    else:
        other = openai.OpenAI(base_url=f"{gateway.where}/r/run/main/v1", api_key=token)
        items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "See?"}, *two]}]
        for _ in range(2):
            answer = other.responses.create(model="scripted", input=items)
            items += [*answer.output, {"role": "user", "content": two}]
    (tree,) = gateway.trees()
    (leaf,) = tree.leaves
    walk = tree.walk(leaf.id)
    assert [node.message.role for node in walk] == ["user", "assistant", "user", "assistant"]
    hashes = [part.hash for node in walk for part in node.message.parts if hasattr(part, "hash")]
    assert len(hashes) == 4 and len(set(hashes)) == 1
    with Lake.open(gateway.lake, mode="read") as lake:
        assert lake.get_blob(hashes[0]) == PIXEL
    place = gateway.lake / path_of(hashes[0])
    kept = [file for file in (gateway.lake / "blobs").rglob("*") if file.is_file()]
    assert kept == [place], "the blob is there, and there once"


class Losing:
    """A way to a gateway that loses the first reply: it is read to its end, and the client's connection is dropped."""

    def __init__(self, where: str, path: bytes) -> None:
        host, port = where.removeprefix("http://").split(":")
        self._to = (host, int(port))
        self._path = path
        self.asked = 0
        self.lost: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.where = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._to) as gateway, gateway.makefile("rb") as reading:
            asking = client.makefile("rb")
            while request := _message(asking):
                gateway.sendall(request)
                reply = _message(reading)
                self.asked += self._path in request
                if self._path in request and not self.lost:
                    self.lost.append(reply)
                    return
                client.sendall(reply)

    def stop(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)


def _message(stream: Any) -> bytes:
    """One request or reply, whole; b"" where none comes any more."""
    head, length, chunked = b"", 0, False
    while (line := stream.readline()) not in (b"\r\n", b""):
        head += line
        name, _, value = line.lower().partition(b":")
        length = int(value) if name == b"content-length" else length
        chunked = chunked or (name == b"transfer-encoding" and b"chunked" in value)
    if not head:
        return b""
    body = b"\r\n" + stream.read(length)
    while chunked:
        line = stream.readline()
        body += line + stream.read(int(line, 16) + 2)
        chunked = int(line, 16) != 0
    return head + body


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_an_sdk_that_asks_again_for_a_lost_reply_gets_it_and_nothing_is_kept_twice(
    scripted: Any, serve: Any, api: str, streamed: bool
) -> None:
    gateway = serve(scripted(otherwise={"text": "Only once."}))
    token = gateway.open_run()
    way = Losing(gateway.where, {"chat": b"/chat/completions", "responses": b"/responses"}.get(api, b"/messages"))
    hello: Any = [{"role": "user", "content": "hello"}]
    try:
        if api == "messages":
            claude = anthropic.Anthropic(base_url=f"{way.where}/r/run/main", api_key=token, max_retries=2)
            if streamed:
                with claude.messages.stream(model="scripted", max_tokens=9, messages=hello) as events:
                    said = events.get_final_message()
            else:
                said = claude.messages.create(model="scripted", max_tokens=9, messages=hello)
            text = "".join(block.text for block in said.content if block.type == "text")
        else:
            client = openai.OpenAI(base_url=f"{way.where}/r/run/main/v1", api_key=token, max_retries=2)
            if api == "responses":
                if streamed:
                    with client.responses.stream(model="scripted", input="hello") as events:
                        text = events.get_final_response().output_text
                else:
                    text = client.responses.create(model="scripted", input="hello").output_text
            elif streamed:
                with client.chat.completions.stream(model="scripted", messages=hello) as events:
                    text = events.get_final_completion().choices[0].message.content or ""
            else:
                text = client.chat.completions.create(model="scripted", messages=hello).choices[0].message.content or ""
    finally:
        way.stop()
    assert text == "Only once." and way.asked == 2 and len(way.lost) == 1
    assert way.lost[0].startswith(b"HTTP/1.1 200 "), "the gateway had kept it, and sent it"
    assert gateway.admin("GET", "runs/run").json()["spent"]["requests"] == 1, "the model was asked once"
    nodes = gateway.nodes()
    assert [node.message.role for node in nodes] == ["user", "assistant"]
