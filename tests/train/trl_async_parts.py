"""What the tests of TRL's asynchronous trainer share: a home with a tiny policy and a task, a configuration, a source
of groups that are there already, and a server in vLLM's place."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vowels import VOWELS

from silva.train.online.config import OnlineConfig
from silva.train.sample import Sample

VLLM_PYTHON = "SILVA_VLLM_PYTHON"
"""Names the interpreter of an environment that has vLLM; Silva's own where it is not set."""
SMALL = {"vocabulary": 320, "width": 64, "inner": 96, "layers": 2, "heads": 4, "key_heads": 2, "context": 256}
WIDER = {"vocabulary": 320, "width": 256, "inner": 256, "layers": 2, "heads": 4, "key_heads": 2, "context": 256}
"""A shape whose heads are of 64 numbers, the fewest that all of vLLM's kernels take."""


def gpu_and_vllm() -> bool:
    """Whether this machine has a GPU that torch sees, and vLLM."""
    import torch

    from silva.errors import MissingError
    from silva.models.local.vllm import VllmOptions, require_vllm

    if not torch.cuda.is_available():
        return False
    try:
        require_vllm(VllmOptions(python=os.environ.get(VLLM_PYTHON, "")))
    except MissingError:
        return False
    return True


def home(folder: Path, size: dict[str, int] = SMALL) -> Path:
    """A folder with `tiny`, a llama of some thousand parameters with a chat template."""
    from silva.models.tiny import Shape, write_tiny
    from silva.tree import assistant, user

    shape = Shape.model_validate(size)
    heard = [((user(f"Say {n}."), assistant("aeiou, and sometimes y")), ()) for n in range(6)]
    write_tiny(folder / "tiny", heard, shape, seed=1)
    return folder


def settings(home: Path, output: Path, **fields: Any) -> dict[str, Any]:
    """A small run."""
    values: dict[str, Any] = {
        "run": output.name,
        "output": str(output),
        "engine": "trl-async",
        "policy": {"weights": str(home / "tiny"), "method": "lora", "adapter": {"rank": 4}, "dtype": "float32"},
        "algorithm": {"name": "grpo"},
        "optimiser": {"learning_rate": 5e-3},
        "steps": 4,
        "batch": 2,
        "group": 4,
        "threads": 1,
        "serve": {"threads": 1},
        "rollout": {
            "env": f"{VOWELS}:VowelsTwice",
            "lake": str(output.parent / "lake"),
            "pool": 8,
            "tasks": {"split": "train"},
            "sampling": {"max_tokens": 8},
        },
    }
    return values | fields


class Handed:
    """A source of groups that are there already, in the shape of a `BufferSource`."""

    def __init__(self, groups: Sequence[list[Sample]]) -> None:
        self.position = 0
        self.staleness: list[int] = []
        self.handed: list[int] = []
        self._groups = list(groups)

    def take(self, count: int) -> list[list[Sample]]:
        found = self._groups[self.position : self.position + count]
        self.position += len(found)
        self.staleness += [0] * len(found)
        return found

    def seek(self, position: int) -> None:
        self.position = position

    def align(self) -> None:
        self.handed.append(0)

    def hand_over(self, *, checkpointed: bool = False) -> None:
        self.handed.append(self.position)


def configured(base: Path, output: Path, **fields: Any) -> OnlineConfig:
    """A configuration for weights in a folder, for trainings that get their groups from `Handed`."""
    values: dict[str, Any] = {
        "run": "handed",
        "output": str(output),
        "engine": "trl-async",
        "policy": {"weights": str(base), "method": "full", "dtype": "float32"},
        "algorithm": {"name": "grpo"},
        "optimiser": {"learning_rate": 1e-3},
        "steps": 2,
        "batch": 2,
        "group": 4,
        "rollout": {"env": "arithmetic", "lake": str(output / "lake")},
    }
    return OnlineConfig.model_validate(values | fields)


def in_vllms_place(folder: Path) -> Path:
    """An interpreter in which vLLM's server is Silva's own, under vLLM's command line: it takes and gives token ids,
    loads adapters and answers under their names as vLLM does."""
    package = folder / "site" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for each in (package, package.parent, package.parent.parent):
        (each / "__init__.py").touch()
    (package / "api_server.py").write_text(
        textwrap.dedent(
            """
            import os, sys
            from pathlib import Path
            from silva.models.local.app import LocalApp
            from silva.models.local.server import serve_local
            from silva.models.serving.exchange import Exchange
            from silva.models.serving.server import bind

            known = dict(zip(sys.argv, sys.argv[1:]))
            answer = LocalApp.__call__

            async def call(self, scope, receive, send):
                path = scope.get("path", "")
                if path == "/health":  # asked without a token
                    return await Exchange(scope, receive, send).send(200, b"{}")
                if path == "/silva/policy":
                    return await Exchange(scope, receive, send).send(404, b"vLLM has no such route")
                return await answer(self, scope, receive, send)

            LocalApp.__call__ = call
            assert "--enable-lora" in sys.argv and os.environ["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"
            socket = bind(known["--host"], int(known["--port"]))
            serve_local(socket, os.environ["VLLM_API_KEY"], lambda url: None, threads=1,
                        adapters=Path("/"), weights=Path(known["--model"]))
            """
        )
    )
    script = folder / "python"
    source = Path(__file__).resolve().parents[2] / "src"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{folder / "site"}:{source}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script
