"""Embedders: unit rows that say what is alike, the same each time, from hashes, from weights and from an endpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from silva.errors import MissingError, UsageError
from silva.models.embedding import Embedder, open_embedder
from silva.models.errors import ModelError

TEXTS = ["How do I bake bread?", "", "Baking bread at home: how to", "The stock market fell sharply today."]


def _alike(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.dtype == np.float32 and np.allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1, 1])
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[3] + 0.1
    backwards = embedder.embed(TEXTS[::-1])[::-1]
    assert np.allclose(vectors, backwards, atol=1e-5), "a text's vector does not depend on the others"


def test_hashed_words() -> None:
    embedder = open_embedder("hashed")
    _alike(embedder)
    assert embedder.embed([]).shape == (0, 1024)
    assert embedder.embed(["\ud83d half", "漢字 is fine"]).any(axis=1).all()


def test_minilm() -> None:
    try:
        embedder = open_embedder("minilm")
    except MissingError:
        pytest.skip("silva[embed] is not installed")
    _alike(embedder)
    close = embedder.embed(["a cat sits on the mat", "a kitten is lying on a rug"])
    assert close[0] @ close[1] > 0.5, "it knows what means the same, not only the same words"


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[Any]]]:
    asked: list[Any] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            rows = [{"index": n, "embedding": [len(text), 3.0, 4.0]} for n, text in enumerate(body["input"])]
            data = json.dumps({"data": rows[::-1] if body["model"] == "good" else rows[1:]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
        server.shutdown()


def test_an_endpoint_is_asked_in_batches_and_its_order_is_heeded(endpoint: tuple[str, list[Any]]) -> None:
    url, asked = endpoint
    vectors = open_embedder(f"{url}#good").embed(["x" * n for n in range(100)])
    assert [len(body["input"]) for body in asked] == [64, 35], "the empty text is not sent"
    assert not vectors[0].any() and np.allclose(vectors[7], np.array([7, 3, 4]) / np.sqrt(74))
    with pytest.raises(ModelError, match="1 embeddings for 2 texts"):
        open_embedder(f"{url}#bad").embed(["one", "two"])


def test_an_unknown_embedder_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="hashed, minilm, http"):
        open_embedder("word2vec")
