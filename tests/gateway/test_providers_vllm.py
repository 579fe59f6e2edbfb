"""`provider: local, engine: vllm`: vLLM's server as a process started by load, by an interpreter that stands in for one
with vLLM."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from dialect_errors import ASKED

from silva.errors import MissingError
from silva.models.gateway.config import LocalBackends, Route
from silva.models.gateway.providers import open_providers
from silva.models.gateway.routing import Router

SERVER = """
import http.server, json, os, sys
arguments = dict(zip(sys.argv[1:], sys.argv[2:]))

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(200 if self.path == "/health" else 404, {})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer " + os.environ["VLLM_API_KEY"]:
            return self.answer(401, {})
        if self.path != "/v1/completions" or asked["model"] != arguments["--served-model-name"]:
            return self.answer(404, {})
        ids = [*("from " + arguments["--model"].rsplit("/", 1)[-1]).encode(), END]
        choice = {"index": 0, "text": "", "token_ids": ids, "prompt_token_ids": asked["prompt"]}
        choice |= {"finish_reason": "stop", "logprobs": {"token_logprobs": [-0.1] * len(ids)}}
        usage = {"prompt_tokens": len(asked["prompt"]), "completion_tokens": len(ids)}
        self.answer(200, {"model": asked["model"], "choices": [choice], "usage": usage})
    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(arguments["--port"])), Handler).serve_forever()
"""


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """An interpreter with a package named vllm in it."""
    from silva.models.scripted import tokens

    package = tmp_path / "site" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "api_server.py").write_text(textwrap.dedent(SERVER).replace("END", str(tokens.END)))
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path / "site"}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script


def test_vllm_serves_a_route_where_torch_is_not_installed(
    interpreter: Path, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    weights = tmp_path / "some-llama"
    weights.mkdir()
    backend = {"provider": "local", "engine": "vllm", "engine_python": str(interpreter), "weights": str(weights)}
    gateway = serve(backend, route={"renderer": "scripted"})
    answer = gateway.chat(gateway.open_run(), ASKED)
    assert answer.ok, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "from some-llama"
    (shown,) = gateway.admin("GET", "models").json()["models"][0]["backends"]
    assert shown["kind"] == "vllm"
    assert all(node.tokens is not None for node in gateway.nodes() if node.message.role == "assistant")


async def test_an_interpreter_without_vllm_is_told_before_anything_is_started(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    chosen = LocalBackends(provider="local", engine="vllm", engine_python=str(bare), weights=tmp_path)
    route = Route(backends=(chosen,))
    (provider,) = open_providers("policy", route)
    with pytest.raises(MissingError, match="vLLM is not installed"):
        await provider.start(Router("policy", route).fleet)
