"""What the nodes hold is what the backend was sent and what it sampled, id for id, as the backend itself wrote it down.

Over families of templates, in vLLM's form and SGLang's, through branches, other tools and a gateway begun anew.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "models"))

from exact_families import FAMILIES, family, family_folder
from exact_server import IdServer

from silva.models.exact import HISTORY_REWRITTEN, THINKING_DROPPED, TOOLS_CHANGED
from silva.tree import Author, Tree, token_walk

CALL = '{"name": "look", "arguments": {"city":"Paris"}}'
CALLS = {
    "chatml": f"<tool_call>\n{CALL}\n</tool_call>",
    "qwen3": f"<think>\nI look.\n</think>\n\n<tool_call>\n{CALL}\n</tool_call>",
    "llama3": CALL.replace("arguments", "parameters"),
    "mistral": f"[TOOL_CALLS] [{CALL}]",
    "deepseek": "</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n"
    '```json\n{"city":"Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
}
THOUGHT = {"qwen3": "<think>\nit shines\n</think>\n\nSunny.", "deepseek": "it shines\n</think>\n\nSunny."}
WORDS = {"deepseek": "</think>\n\nthe weather"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


class Recording:
    """A server of token ids in a thread. `turns` holds what it was sent and what it sampled thereupon, in order; it
    says its `texts` one after another, letter by letter where no mark is in them."""

    def __init__(self, name: str, kind: str) -> None:
        self.texts: list[str] = []
        self.turns: list[tuple[int, ...]] = []
        self._renderer, self._kind = family(name), kind
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = IdServer(self._say)
        self._answered: list[int] = []
        self._run(self._server.start())
        url = self._server.url if kind == "vllm" else self._server.url.removesuffix("/v1")
        self.backend = {"url": url, "kind": kind, "model": "m"}

    def stop(self) -> None:
        self._run(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _say(self, prompt: list[int]) -> list[int]:
        if len(self.turns) < len(self._server.asked):  # the first time this request is answered
            vocabulary, text = self._renderer.vocabulary, self.texts.pop(0)
            pieces = [text] if any(mark in text for mark in vocabulary.controls) else list(text)
            ids = [number for piece in pieces for number in vocabulary.encode(piece, first=False)]
            self._answered = [*ids, min(self._renderer.stop_ids)]
            self.turns.append((*prompt, *self._answered))
        return self._answered


@pytest.fixture
def recording() -> Iterator[Any]:
    running: list[Recording] = []

    def start(name: str, kind: str) -> Recording:
        running.append(Recording(name, kind))
        return running[-1]

    yield start
    for each in running:
        each.stop()


class Agent:
    """A client of a gateway: sends back what it was given, as chat clients do."""

    def __init__(self, gateway: Any, server: Recording, token: str) -> None:
        self.gateway, self.server, self.token = gateway, server, token

    def ask(self, messages: list[Any], text: str, tools: list[Any], *, stream: bool = False) -> list[Any]:
        """The conversation with the reply, for which the model is made to say `text`."""
        self.server.texts.append(text)
        body = {"model": "exact", "messages": messages, "stream": stream, **({"tools": tools} if tools else {})}
        answer = self.gateway.chat(self.token, body)
        assert answer.status_code == 200, answer.text
        if stream:
            return [*messages, {"role": "assistant", "content": streamed_text(answer.text)}]
        return [*messages, answer.json()["choices"][0]["message"]]


def streamed_text(events: str) -> str:
    lines = [line.removeprefix("data: ") for line in events.splitlines() if line.startswith("data: {")]
    return "".join(c["delta"].get("content") or "" for line in lines for c in json.loads(line)["choices"])


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}


def says(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


def route(server: Recording, name: str, keep_history: bool = False) -> dict[str, Any]:
    return {"exact": {"backends": [server.backend], "renderer": str(family_folder(name)), "keep_history": keep_history}}


def exact_nodes(gateway: Any, server: Recording) -> list[str]:
    """Why each turn began anew, in order. The nodes of each turn hold what the server has written down of it."""
    nodes = gateway.nodes()
    tree = Tree(nodes)
    turns = sorted((node for node in nodes if node.author is Author.POLICY), key=lambda n: n.started)
    assert [token_walk(tree.walk(node.id)).ids for node in turns] == server.turns
    for node in turns:
        walk = token_walk(tree.walk(node.id))
        assert node.tokens is not None and all(walk.sampled[-node.tokens.sampled :])
        assert node.attributes.get("tokens") == ("restart" if "restart" in node.attributes else None)
    return [str(node.attributes.get("restart", "")) for node in turns]


CASES = [(name, kind, False) for name in sorted(FAMILIES) for kind in ("vllm", "sglang")]
CASES += [(name, "vllm", True) for name in ("deepseek", "mistral", "qwen3")]


@pytest.mark.parametrize(("name", "kind", "keep_history"), CASES)
def test_the_ids_on_the_nodes_are_those_the_backend_was_sent_and_sampled(
    recording: Any, serve: Any, name: str, kind: str, keep_history: bool
) -> None:
    server = recording(name, kind)
    first = serve(models=route(server, name, keep_history))
    agent = Agent(first, server, first.open_run())
    calls = name in CALLS
    tools, others = ([tool("look")], [tool("look"), tool("listen")]) if calls else ([], [])
    words, sunny = WORDS.get(name, "the weather"), THOUGHT.get(name, "Sunny.")

    def result(said: list[Any], words: str) -> list[Any]:
        if not calls:
            return [*said, says(words)]
        (made,) = said[-1]["tool_calls"]
        return [*said, {"role": "tool", "tool_call_id": made["id"], "content": words}]

    look = says("Weather <|im_end|> in Paris?")
    if kind == "sglang" and name in ("chatml", "gemma"):
        shown = {"type": "image_url", "image_url": {"url": PIXEL}}
        look = {"role": "user", "content": [{"type": "text", "text": "What is "}, shown]}
    opening = [] if name == "gemma" else [{"role": "system", "content": "Be brief."}]
    asked = agent.ask([*opening, look], CALLS.get(name, words), tools)
    told = agent.ask(result(asked, "sunny ☃"), sunny, tools)
    agent.ask([*told, says("And tomorrow?")], words, tools, stream=True)
    branch = agent.ask(result(asked, "rainy"), words, tools)
    changed = agent.ask([*branch, says("Listen.")], words, others)
    without = agent.ask([*changed, says("No tools now.")], words, [])
    onward = agent.ask([*without, says("Go on.")], words, [])
    first.stop()
    second = serve(models=route(server, name, keep_history), lake=first.lake)
    agent.gateway = second
    again = agent.ask([*onward, says("Are you there?")], words, [])
    agent.ask([*again, says("Good.")], words, [], stream=True)
    agent.ask([*told, says("And on Sunday?")], words, tools)

    reason = {"qwen3": THINKING_DROPPED, "deepseek": THINKING_DROPPED, "mistral": HISTORY_REWRITTEN}.get(name, "")
    spoke = "" if keep_history else reason
    after = spoke if name == "qwen3" else ""  # the others thought nothing, and have no tools that move
    swapped = TOOLS_CHANGED if calls else ""
    expected = ["", "", spoke, "", swapped, swapped, after, after, after, spoke]
    assert exact_nodes(second, server) == expected


def test_tools_that_are_left_out_in_mid_conversation_are_seen_no_more(recording: Any, serve: Any) -> None:
    server = recording("chatml", "vllm")
    gateway = serve(models=route(server, "chatml"))
    agent = Agent(gateway, server, gateway.open_run())
    said = agent.ask([says("Hi")], "hello", [tool("look")])
    agent.ask([*said, says("And now?")], "hm", [])
    renderer = family("chatml")
    assert "look" in renderer.text(server.turns[0]) and "look" not in renderer.text(server.turns[1])
    assert exact_nodes(gateway, server) == ["", TOOLS_CHANGED]
