"""Guidance over HTTP: who may speak, how much, and what the web hook is told."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from silva.cli.main import run as silva
from silva.errors import Exit, UsageError
from silva.guide import words
from silva.guide.app import GuideApp
from silva.guide.event import Event, Events
from silva.guide.hook import Hook
from silva.guide.mailroom import folder_of
from silva.lake import Lake
from silva.models.serving.server import ServerThread
from silva.tree import Run, Task, trajectory_id

RUN = Run(id="r", envs=("e",), started=1.0, status="running")
LIVE = trajectory_id("r", "e/1", 0, 0)
BURST = 8
FACTS = {"at": 1.0, "run_id": "r", "trajectory_id": LIVE, "task_id": "e/1", "turn": 3}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a run that goes on."""
    folder = tmp_path_factory.mktemp("http") / "lake"
    with Lake.open(folder) as opened:
        opened.append_sync([RUN, Task(id="e/1", env="e")])
    return folder


@pytest.fixture
def lake(home: Path, stored: Path) -> Path:
    """That lake, with a mailbox of this test's own."""
    return stored


class Client:
    """Speaks to a server with one token."""

    def __init__(self, url: str, token: str | None) -> None:
        self._netloc, self._token = urlsplit(url).netloc, token

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self._netloc, timeout=60)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token is not None else {}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            self.retry_after = answer.getheader("retry-after")
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture
def server(lake: Path) -> Iterator[ServerThread]:
    """The API on loopback, its clock standing still."""
    app = GuideApp(str(lake), "secret", {"bob": "bobs"}, burst=BURST, clock=lambda: 0.0)
    with ServerThread(app) as running:
        yield running


def test_words_over_http_are_kept_shown_and_told_apart_by_person(server: ServerThread, lake: Path) -> None:
    anybody, bob = Client(server.url, "secret"), Client(server.url, "bobs")
    status, body = anybody("POST", "/v1/runs/r/words", {"kind": "say", "by": "ann", "text": "<b>hé</b>"})
    assert status == 201 and body["said"][0]["by"] == "ann"
    action = {"name": "add", "arguments": {"number": 5}}
    given = {"kind": "back", "to": "e/1", "turn": 2, "action": action, "why": "no"}
    assert bob("POST", "/v1/runs/r/words", given)[0] == 201
    status, body = bob("POST", "/v1/runs/r/words", {"kind": "pause", "by": "ann"})
    assert status == 403 and "speaks as bob" in body["error"]["message"]
    Events(folder_of(str(lake)), "r").tell(Event(kind="heard", word=words(lake, "r")[0].id, text="say", **FACTS))
    status, body = anybody("GET", "/v1/runs/r/words")
    assert [each["by"] for each in body["words"]] == ["ann", "bob"]
    assert [each["state"]["heard"] for each in body["words"]] == [1, 0]
    assert body["words"][0]["text"] == "<b>hé</b>" and json.loads(body["words"][1]["action"]) == action


def test_who_waits_and_what_happened_can_be_asked(server: ServerThread, lake: Path) -> None:
    client = Client(server.url, "secret")
    assert client("GET", "/v1/runs/r/waiting") == (200, {"waiting": []})
    Events(folder_of(str(lake)), "r").tell(Event(kind="waiting", node_id="n1", action="rm", **FACTS))
    status, body = client("GET", "/v1/runs/r/waiting")
    assert status == 200 and [each["node_id"] for each in body["waiting"]] == ["n1"]
    status, body = client("GET", "/v1/runs/r/events")
    assert [each["kind"] for each in body["events"]] == ["waiting"]
    assert client("GET", f"/v1/runs/r/events?after={body['after']}") == (200, {"events": [], "after": body["after"]})
    status, body = client("POST", "/v1/runs/r/words", {"kind": "approve", "by": "ann"})
    assert status == 201 and body["said"][0]["node"] == "n1"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        ("POST", "/v1/runs/r/words", b"{nonsense", 400, "body"),
        ("POST", "/v1/runs/r/words", {"kind": "say", "by": "ann", "text": "x", "tone": "sharp"}, 400, "tone"),
        ("POST", "/v1/runs/r/words", {"kind": "say", "text": "x"}, 400, "who you are"),
        ("POST", "/v1/runs/r/words", {"kind": "edit", "by": "ann", "to": "e/1", "action": {"tool": 1}}, 400, "give"),
        ("POST", "/v1/runs/r/words", {"kind": "say", "by": "ann", "text": "x" * 1_000_000}, 400, "1,000,000"),
        ("POST", "/v1/runs/r/words", {"kind": "approve", "by": "ann"}, 409, "no action waits"),
        ("POST", "/v1/runs/none/words", {"kind": "pause", "by": "ann"}, 404, "no run"),
        ("GET", "/v1/runs/none/words", None, 404, "no run"),
        ("GET", "/v1/runs/r/events?after=x", None, 400, "after"),
        ("GET", "/v1/elsewhere", None, 404, "nothing"),
        ("DELETE", "/v1/runs/r/words", None, 404, "DELETE"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(
    server: ServerThread, lake: Path, method: str, path: str, body: Any, status: int, expected: str
) -> None:
    got, answer = Client(server.url, "secret")(method, path, body)
    assert got == status and expected in answer["error"]["message"]
    assert words(lake, "r") == []


@pytest.mark.parametrize("token", [None, "", "wrong", "secre"])
def test_without_the_right_token_nothing_is_told(server: ServerThread, lake: Path, token: str | None) -> None:
    status, body = Client(server.url, token)("POST", "/v1/runs/r/words", {"kind": "pause", "by": "ann"})
    assert status == 401 and "token" in body["error"]["message"]
    assert words(lake, "r") == []


def test_one_who_speaks_too_fast_is_told_to_wait_and_nobody_else_is(server: ServerThread, lake: Path) -> None:
    fast = Client(server.url, "bobs")
    got = [fast("POST", "/v1/runs/r/words", {"kind": "say", "text": f"{n}"})[0] for n in range(BURST + 3)]
    assert got == [201] * BURST + [429] * 3 and fast.retry_after == "1"
    assert [each.text for each in words(lake, "r")] == [str(n) for n in range(BURST)], "each once, in order"
    assert Client(server.url, "secret")("GET", "/v1/runs/r/words")[0] == 200


class Chat:
    """A chat tool's side of the hook: what it was sent; it fails the first `fails` times."""

    def __init__(self, fails: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.signatures: list[bool] = []
        self.fails = fails
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                if chat.fails:
                    chat.fails -= 1
                    self.send_error(503)
                    return
                expected = "sha256=" + hmac.new(b"shh", data, hashlib.sha256).hexdigest()
                chat.signatures.append(self.headers["x-silva-signature"] == expected)
                chat.bodies.append(json.loads(data))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def wait_for(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.02)


def test_the_hook_tells_what_happens_though_the_chat_tool_fails_at_first(home: Path, stored: Path) -> None:
    lake = Path(shutil.copytree(stored, home / "lake"))
    room = Events(folder_of(str(lake)), "r")
    room.tell(Event(kind="heard", word="old", text="say", **FACTS))
    chat = Chat(fails=2)
    hook = Hook(str(lake), chat.url, "shh", pause=0.01)
    hook.start()
    try:
        room.tell(Event(kind="waiting", node_id="n1", action="rm", **FACTS))
        room.tell(Event(kind="heard", word="w1", text="approve", by="ann", **FACTS))
        with Lake.open(lake) as opened:
            opened.append_sync([msgspec.structs.replace(RUN, status="finished", finished=9.0)])
        wait_for(lambda: len(chat.bodies) >= 3)
    finally:
        hook.stop()
    assert [each["kind"] for each in chat.bodies] == ["waiting", "heard", "ended"], "in order, and nothing old"
    assert all(chat.signatures) and len({each["id"] for each in chat.bodies}) == 3
    room.tell(Event(kind="undone", word="w2", text="late", **FACTS))
    again = Hook(str(lake), chat.url, "shh", pause=0.01)
    again.start()
    again.stop()
    chat.close()
    assert len(chat.bodies) == 3, "a restarted hook does not send again what was sent"


def test_a_chat_tool_that_refuses_is_given_up_and_the_rest_is_sent(lake: Path) -> None:
    hook = Hook(str(lake), "http://127.0.0.1:9/none", pause=0.001)
    hook.start()
    Events(folder_of(str(lake)), "r").tell(Event(kind="waiting", node_id="n1", **FACTS))
    wait_for(lambda: hook.given_up == 1)
    hook.stop()
    with pytest.raises(UsageError, match="no http"):
        Hook(str(lake), "file:///etc/passwd")


@pytest.mark.parametrize(
    ("words_", "expected"),
    [
        (["--host", "0.0.0.0"], "lets other machines in"),
        (["--token-env", "SILVA_NOT_SET"], "is not set"),
        (["--person", "bob"], "NAME=VARIABLE"),
        (["--hook", "ftp://x"], "no http"),
    ],
)
def test_a_server_that_cannot_be_is_one_line(
    lake: Path, capsys: pytest.CaptureFixture[str], words_: list[str], expected: str
) -> None:
    assert silva(["guide", "serve", "--lake", str(lake), "--port", "0", *words_]) == Exit.USAGE
    err = capsys.readouterr().err
    assert expected in err and len(err.splitlines()) == 1
