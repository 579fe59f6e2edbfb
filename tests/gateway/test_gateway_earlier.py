"""A response that goes on from an earlier one by its name has all of it: the pictures, and the limits."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from silva.lake.blobs import path_of

PATH = "/r/run/main/v1/responses"


def picture(words: bytes) -> tuple[str, dict[str, Any]]:
    """Its address, and an input item that shows it."""
    url = f"data:image/png;base64,{base64.b64encode(words).decode()}"
    content = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": url}]
    return url, {"role": "user", "content": content}


class Seeing:
    """A chat backend that says how many pictures it saw, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        seeing = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
                parts = [part for message in body["messages"] for part in message["content"] if isinstance(part, dict)]
                shown = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
                seeing.asked.append(shown)
                message = {"role": "assistant", "content": f"I see {len(shown)}."}
                usage = {"prompt_tokens": 9, "completion_tokens": 3}
                reply = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
                written = msgspec.json.encode(reply)
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(written)))
                self.end_headers()
                self.wfile.write(written)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.backend = {"url": f"http://127.0.0.1:{self._server.server_address[1]}/v1", "model": "seeing"}

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def seeing() -> Iterator[Seeing]:
    model = Seeing()
    yield model
    model.stop()


def ask(gateway: Any, token: str, given: Any, previous: str | None = None) -> Any:
    body = {"model": "scripted", "input": given if isinstance(given, str) else [given]}
    return gateway.post(PATH, token, body if previous is None else {**body, "previous_response_id": previous})


def said(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    return answer.json()["output"][0]["content"][0]["text"]


def test_a_response_goes_on_from_one_with_pictures(seeing: Seeing, serve: Any) -> None:
    gateway = serve(seeing.backend)
    token = gateway.open_run()
    (one, shows_one), (two, shows_two) = picture(b"first"), picture(b"second")
    first = ask(gateway, token, shows_one)
    assert said(first) == "I see 1."
    second = ask(gateway, token, "and now?", first.json()["id"])
    assert said(second) == "I see 1."
    assert said(ask(gateway, token, shows_two, second.json()["id"])) == "I see 2."
    assert seeing.asked == [[one], [one], [one, two]]
    gateway.stop()
    again = serve(seeing.backend, lake=gateway.lake)
    assert said(ask(again, token, "after a night?", second.json()["id"])) == "I see 1."
    assert seeing.asked[-1] == [one]
    (tree,) = again.trees()
    assert len(tree) == 8 and len(tree.leaves) == 2


def test_a_conversation_dropped_from_memory_goes_on_by_name(seeing: Seeing, serve: Any) -> None:
    gateway = serve(seeing.backend)
    token = gateway.open_run()
    _, shows = picture(b"first")
    first = ask(gateway, token, shows)
    assert said(ask(gateway, token, "something else")) == "I see 0."
    (index,) = gateway.gateway.conversations._indices.values()
    index.drop(0)
    assert index.partial
    assert said(ask(gateway, token, "and now?", first.json()["id"])) == "I see 1."


def test_a_picture_that_is_gone_is_told_by_its_name(seeing: Seeing, serve: Any) -> None:
    gateway = serve(seeing.backend)
    token = gateway.open_run()
    _, shows = picture(b"first")
    first = ask(gateway, token, shows)
    (session,) = gateway.gateway.sessions
    earlier = session.conversation(first.json()["id"].removeprefix("resp_"))
    (name,) = [part.hash for part in earlier[0].parts if hasattr(part, "hash")]
    (gateway.lake / path_of(name)).unlink()
    answer = ask(gateway, token, "and now?", first.json()["id"])
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert name[:12] in error["message"] and "send the conversation whole" in error["message"]
    assert error["param"] == "previous_response_id" and error["code"] == "previous_response_not_found"
    assert len(seeing.asked) == 1 and session.allowance.in_flight == 0


def test_pictures_count_as_if_they_had_been_sent(seeing: Seeing, serve: Any) -> None:
    gateway = serve(seeing.backend, limits={"body_mb": 0.01})
    token = gateway.open_run()
    previous = None
    for each in (b"a", b"b"):
        answer = ask(gateway, token, picture(each * 5000)[1], previous)
        assert said(answer)
        previous = answer.json()["id"]
    assert ask(gateway, token, "and now?", previous).status_code == 413
    assert len(seeing.asked) == 2


def test_a_chain_is_bound_by_the_limit_on_messages(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), limits={"messages": 6})
    token = gateway.open_run()
    previous = None
    for _ in range(3):
        answer = ask(gateway, token, "go on", previous)
        assert answer.status_code == 200, answer.text
        previous = answer.json()["id"]
    refused = ask(gateway, token, "go on", previous)
    assert refused.status_code == 413 and "7 messages" in refused.json()["error"]["message"]
    assert gateway.chat(token, {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}).ok
