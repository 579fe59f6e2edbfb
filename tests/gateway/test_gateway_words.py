"""What a client says is what the model is asked, to the byte; only the policy's own replies are found loosely."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.gateway.dialects.content import content_key
from silva.models.gateway.index import TreeIndex
from silva.models.gateway.keys import message_key
from silva.models.gateway.rollout import Rollout
from silva.models.gateway.session import Session
from silva.models.model import Completion
from silva.tree import ImagePart, Message, TextPart, ThinkingPart, ToolCall, encode

TEXTS = st.sampled_from(["", "x", " x", "x ", "    x", "x\n", "a\nb", "a", "b", "The answer is", "The answer is "])
ARGUMENTS = st.sampled_from(['{"a":1}', '{"a":1.0}', '{"a": 1}', '{"a":true}', '{"input":"[1]"}', "[1]", "{}"])
PARTS = st.lists(
    st.one_of(
        TEXTS.map(lambda text: TextPart(text=text)), st.sampled_from("01").map(lambda name: ImagePart(hash=name * 64))
    ),
    max_size=3,
).map(tuple)
CALLS = st.lists(
    st.builds(ToolCall, id=st.sampled_from(["c1", "c2"]), name=st.just("f"), arguments=ARGUMENTS), max_size=2
).map(tuple)
NAMES = st.sampled_from([None, "alice", "bob"])
THEIRS = st.one_of(
    st.builds(Message, role=st.sampled_from(["system", "user"]), parts=PARTS, name=NAMES),
    st.builds(Message, role=st.just("tool"), parts=PARTS, tool_call_id=st.sampled_from(["c1", "c2"]), name=NAMES),
)
REPLIES = st.builds(
    Message,
    role=st.just("assistant"),
    parts=st.tuples(TEXTS.map(lambda text: TextPart(text=text))).map(lambda parts: (ThinkingPart(text="hm"), *parts)),
    tool_calls=CALLS,
)
PUT = st.builds(Message, role=st.just("assistant"), parts=PARTS, tool_calls=CALLS)
REQUESTS = st.lists(
    st.tuples(st.lists(st.one_of(THEIRS, PUT), min_size=1, max_size=4), REPLIES, st.booleans()), max_size=6
)


@settings(max_examples=150, deadline=None)
@given(REQUESTS)
def test_the_model_is_asked_what_the_client_said(requests: list[tuple[list[Message], Message, bool]]) -> None:
    rollouts = [Rollout(run_id="run", name=f"r{place}", task_id="task", index=place) for place in range(2)]
    index = TreeIndex(rollouts[0].tree_id)
    sessions = [Session(rollout, index) for rollout in rollouts]
    sampled: list[set[str]] = [set(), set()]
    before: list[Message] = []
    for number, (messages, reply, goes_on) in enumerate(requests):
        mine = number % 2
        asked = [*before, *messages] if goes_on else messages
        keys = [message_key(message) for message in asked]
        place = sessions[mine].match(asked, ())
        assert len(place.messages) == len(asked)
        for told, said in zip(place.messages, asked, strict=True):
            if said.role != "assistant":
                assert told == said
            elif told != said:
                assert encode_message(told) in sampled[mine], "only a reply of this very rollout may stand for another"
                assert content_key(told) == content_key(said)
        nodes = sessions[mine].grow(asked, keys, (), Completion(message=reply, model="m"), {"reply": str(number)})
        sessions[mine].keep(nodes, [encode(node) for node in nodes], keys)
        walk = [entry.message for entry in index.entries[nodes[-1].id].walk()]
        assert walk == [*(entry for entry in walk[: len(asked)]), reply]
        for told, stood in zip(place.messages, walk, strict=False):
            assert content_key(told) == content_key(stood) and (told.role == "assistant" or told == stood)
        sampled[mine].add(encode_message(reply))
        # The client drops the thinking and sends the rest on.
        kept = Message(role="assistant", parts=reply.parts[1:], tool_calls=reply.tool_calls)
        before = [*asked, kept]


def encode_message(message: Message) -> str:
    return msgspec.json.encode(message, order="deterministic").decode()


class Listening:
    """A chat backend that remembers the messages it was asked with."""

    def __init__(self) -> None:
        self.asked: list[list[dict[str, Any]]] = []
        listening = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
                listening.asked.append(body["messages"])
                message = {"role": "assistant", "content": "Yes."}
                usage = {"prompt_tokens": 9, "completion_tokens": 3}
                written = msgspec.json.encode(
                    {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
                )
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(written)))
                self.end_headers()
                self.wfile.write(written)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.backend = {"url": f"http://127.0.0.1:{self.server.server_address[1]}/v1", "model": "listening"}


@pytest.fixture
def listening() -> Iterator[Listening]:
    model = Listening()
    yield model
    model.server.shutdown()
    model.server.server_close()


def told(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def calling(arguments: str) -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [told("user", "q"), told("assistant", None, tool_calls=[call]), told("tool", "r", tool_call_id="c1")]


PAIRS = {
    "trailing space": ([told("user", "def f(x):\n")], [told("user", "def f(x):\n    ")]),
    "leading space": ([told("user", "x = 1")], [told("user", "    x = 1")]),
    "system": ([told("system", "A"), told("user", "q")], [told("system", "  A\n\n"), told("user", "q")]),
    "tool": (
        [*calling("{}")[:2], told("tool", "    r", tool_call_id="c1")],
        [*calling("{}")[:2], told("tool", "r", tool_call_id="c1")],
    ),
    "name": ([told("user", "yes", name="alice")], [told("user", "yes", name="bob")]),
    "prefill": (
        [told("user", "q"), told("assistant", "The answer is")],
        [told("user", "q"), told("assistant", "The answer is ")],
    ),
    "1 and 1.0": (calling('{"a":1}'), calling('{"a":1.0}')),
    "a wrapper": (calling('{"input":"[1]"}'), calling("[1]")),
    "large integers": (calling('{"a":9007199254740993}'), calling('{"a":9007199254740992}')),
    "true and 1": (calling('{"a":1}'), calling('{"a":true}')),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_words_that_differ_a_little_are_other_words(listening: Listening, serve: Any, pair: Any) -> None:
    gateway = serve(listening.backend)
    gateway.open_run()
    for place, messages in enumerate(pair):  # by two rollouts of one task, as a group has them
        body = {"rollout": f"r{place}", "task_id": "my/1", "index": place}
        token = gateway.admin("POST", "runs/run/rollouts", body).json()["token"]
        answer = gateway.chat(token, {"model": "scripted", "messages": messages}, f"r{place}")
        assert answer.ok, answer.text
        heard = [
            {name: value for name, value in message.items() if value is not None} for message in listening.asked[-1]
        ]
        assert heard == [{name: value for name, value in each.items() if value is not None} for each in messages]
