"""What scorers ask of endpoints, over real sockets, and what endpoints that do not tell it are told."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from silva.curate.value.sample import Samples
from silva.curate.value.scoring import Scores, resolve, score
from silva.errors import SilvaError, UnreachableError


def samples(*pairs: tuple[str, str]) -> Samples:
    questions, answers = zip(*pairs, strict=True)
    return Samples(pa.table({"id": [str(n) for n in range(len(pairs))], "question": questions, "answer": answers}))


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """Words as tokens; a word that stood before costs 1 nat, another 2."""
    text, tokens, at = body["prompt"], [], 0
    logprobs: list[float | None] = []
    for word in text.split(" "):
        logprobs.append(None if not tokens else -1.0 if word in text[:at].split() else -2.0)
        tokens.append(at)
        at += len(word) + 1
    scores = {"token_logprobs": [*logprobs, -0.1], "text_offset": [*tokens, len(text)]}
    return {"choices": [{"text": f"{text} more", "logprobs": scores}]}


def chat(body: dict[str, Any]) -> dict[str, Any]:
    said = body["messages"][-1]["content"]
    words = (
        {"yes": 0.6, " Yes": 0.2, "no": 0.1, "maybe": 0.1}
        if "one word, yes or no" in said
        else {"5": 0.5, "4": 0.25, "the": 0.25}
    )
    words = {"I": 1.0} if "strange" in said else words
    top = [{"token": word, "logprob": math.log(chance)} for word, chance in words.items()]
    entry = {"token": top[0]["token"], "logprob": top[0]["logprob"], "top_logprobs": top}
    message = {"role": "assistant", "content": top[0]["token"]}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": [entry]}}]}


ROUTES: dict[str, Any] = {
    "/v1/completions": completion,
    "/v1/chat/completions": chat,
    "/classify": lambda body: {"data": [{"label": "high", "probs": [0.1, 0.2, 0.7]} for _ in body["input"]]},
}
MUTE: dict[str, Any] = {
    "/v1/completions": lambda body: {"choices": [{"text": "x", "logprobs": None}]},
    "/v1/chat/completions": lambda body: {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]
    },
}


@contextmanager
def served(routes: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(self.path)
            made = routes.get(self.path)
            data = json.dumps({"error": "none"} if made is None else made(body)).encode()
            self.send_response(404 if made is None else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1#m", asked
    finally:
        server.shutdown()
        server.server_close()


def asked_of(url: str, name: str, given: Samples, folder: Path | None = None, **options: Any) -> Scores:
    scorers = resolve([name], {name: {"model": url, **options}})
    return score(given, scorers, folder)[name]


def test_likelihoods_choices_grades_and_classes_come_from_an_endpoint(tmp_path: Path) -> None:
    given = samples(("say red", "red green"), ("other", "blue strange"))
    with served(ROUTES) as (url, asked):
        ifd = asked_of(url, "ifd", given, tmp_path)
        # behind "say red": green 2 nats of the last token that both readings tell; alone: 2
        assert [*ifd.values] == [1.0, 1.0]
        ppl = asked_of(url, "ppl", given)
        assert ppl.values[0] == pytest.approx(math.exp(2.0))
        ask = asked_of(url, "ask_llm", given)
        assert ask.values[0] == pytest.approx(0.8 / 0.9) and np.isnan(ask.values[1])
        assert ask.notes[1].startswith("the model says something else")
        assert asked_of(url, "grade_quality", given).values[0] == pytest.approx((5 * 0.5 + 4 * 0.25) / 0.75)
        template = tmp_path / "prompt.txt"
        template.write_text("Q: {question} A: {answer} grade:")
        deita = asked_of(url, "deita_q", given, template=str(template))
        assert deita.values[0] == pytest.approx(14 / 3)
        assert asked_of(url, "deberta", given).values[0] == pytest.approx(1.6)
        before = len(asked)
        assert asked_of(url, "ifd", given, tmp_path).known == 2 and len(asked) == before
        asked_of(url, "ifd", given, tmp_path, version="other weights")
        assert len(asked) == before + 4


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ppl", "tell no log-probabilities; needed is `/completions` with `echo`"),
        ("ask_llm", "tell no top_logprobs of a token"),
        ("fineweb_edu", "is no classifier: neither /classify"),
    ],
)
def test_an_endpoint_without_logprobs_is_told_in_one_line(name: str, words: str) -> None:
    with served(MUTE) as (url, _), pytest.raises(UnreachableError, match=words) as told:
        asked_of(url, name, samples(("a", "b")))
    assert "\n" not in str(told.value)


def test_a_prompt_without_a_place_for_the_sample_and_a_label_without_a_number_are_refused(tmp_path: Path) -> None:
    template = tmp_path / "prompt.txt"
    template.write_text("Grade this: {question}")
    with pytest.raises(SilvaError, match=r"\{answer\} does not stand in it"):
        resolve(["deita_q"], {"deita_q": {"model": "http://127.0.0.1:9/v1#m", "template": str(template)}})
    with served(ROUTES) as (url, _), pytest.raises(SilvaError, match="says nothing of '1'"):
        asked_of(url, "deberta", samples(("a", "b")), labels={"0": 1.0})
