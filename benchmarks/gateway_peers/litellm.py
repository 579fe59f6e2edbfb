"""LiteLLM's proxy with a custom callback that appends every successful call to a file of JSON lines.

LiteLLM has no store of its own without a database server; a callback of this kind is its documented way of keeping calls.
It runs after the reply, in a background queue. The deployment asks the backend for ids and log probabilities. One worker, as
the other gateways have, and no key; `litellm-2-workers` has two.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from gateway_load import Endpoint

from gateway_peers.gateway import VENVS, Kept, Running, Settling, Venv, Whole, process
from silva.models.child import free_port

VERSION = "1.105.3"
VENV = Venv("litellm", (f"litellm[proxy]=={VERSION}",))
CALLBACK = Path(__file__).with_name("_litellm_callback.py")


class LiteLLM:
    """One deployment, one callback, no database."""

    name = "litellm"
    version = VERSION
    durable = "no: file, after the reply"
    streams = True

    def __init__(self, folder: Path = VENVS, *, workers: int = 1) -> None:
        self._folder, self._workers = folder, workers
        if workers > 1:
            self.name = f"litellm-{workers}-workers"

    def install(self, folder: Path) -> None:
        """Build its virtual environment."""
        VENV.build(folder)

    def missing(self, folder: Path) -> str | None:
        """Not installed?"""
        return VENV.missing(folder)

    @contextlib.contextmanager
    def start(self, backend: str, scratch: Path) -> Iterator[Running]:
        """`litellm --config` with its logs at ERROR."""
        base = f"http://127.0.0.1:{(port := free_port())}"
        turns = scratch / "turns.jsonl"
        turns.touch()
        shutil.copy(CALLBACK, scratch / "keep_turns.py")
        asked = {
            "model": "openai/scripted",
            "api_base": f"{backend}/v1",
            "api_key": "unused",
            "logprobs": True,
            "extra_body": {"return_token_ids": True},
        }
        config = {
            "model_list": [{"model_name": "scripted", "litellm_params": asked}],
            "litellm_settings": {"callbacks": "keep_turns.keeper", "telemetry": False},
            "general_settings": {"disable_spend_logs": True, "dangerously_permit_weak_or_unset_master_key": True},
        }
        (scratch / "config.yaml").write_text(yaml.safe_dump(config))
        command = [
            str(VENV.interpreter(self._folder).parent / "litellm"),
            "--config",
            "config.yaml",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--num_workers",
            str(self._workers),
        ]
        environment = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "KEEP_TURNS_IN": str(turns)}
        with process(command, scratch, ready=f"{base}/health/liveliness", environment=environment) as started:

            def kept(wanted: int) -> Kept:
                settling = Settling(lambda: _lines(turns))
                held = settling.wait(wanted)
                with turns.open() as lines:
                    whole = Whole()
                    for line in lines:
                        whole.add(*_ids(json.loads(line)["reply"]))
                return Kept(
                    held,
                    len(whole),
                    f"file settled {settling.seconds:.1f} s after the load" if settling.seconds > 0.5 else "",
                )

            yield Running(started.pid, lambda count: [Endpoint(f"{base}/v1")] * count, kept)


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _ids(reply: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Prompt ids, sampled ids and log probabilities, at the root or in what LiteLLM sets aside as the provider's own."""
    choice = reply["choices"][0]
    aside, choice_aside = (one.get("provider_specific_fields") or {} for one in (reply, choice))
    prompt = reply.get("prompt_token_ids") or aside.get("prompt_token_ids")
    sampled = choice.get("token_ids") or choice_aside.get("token_ids")
    return prompt, sampled, (choice.get("logprobs") or {}).get("content")
