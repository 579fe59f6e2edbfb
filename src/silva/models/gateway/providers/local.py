"""The bundled model, or that of a folder, as a backend: `silva models serve local [--weights FOLDER]`, started and
stopped by load like any other process."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from silva.models.bundled import packed_weights, require
from silva.models.gateway.config import LocalBackends
from silva.models.gateway.providers.process import ProcessProvider
from silva.models.gateway.providers.scaling import Scaling
from silva.models.gateway.providers.worker import Command
from silva.models.gateway.routing.fleet import Fleet
from silva.models.local import MODEL
from silva.models.local.checkpoint import read_architecture, weight_files
from silva.models.local.vllm import START_SECONDS as VLLM_START_SECONDS
from silva.models.local.vllm import VllmOptions, require_vllm
from silva.models.local.weights import served_name

TOKEN_ENV = "SILVA_CHILD_TOKEN"

START_SECONDS = 300.0
"""The first start ever unpacks the weights, which takes about a minute."""


class LocalProvider(ProcessProvider):
    """The local model's processes.

    Args:
        name: what its backends are called, before their numbers.
        chosen: what the configuration says of them.

    Raises:
        UsageError: the folder of weights has a name that cannot stand in a request.
    """

    def __init__(self, name: str, chosen: LocalBackends) -> None:
        arguments = [sys.executable, "-m", "silva", "models", "serve", "local", "--port", "{port}"]
        arguments += ["--token-env", TOKEN_ENV]
        if chosen.threads is not None:
            arguments += ["--threads", str(chosen.threads)]
        if chosen.weights is not None:
            arguments += ["--weights", str(chosen.weights)]
        if chosen.adapters is not None:
            arguments += ["--adapters", str(chosen.adapters)]
        if chosen.engine != "torch":
            arguments += ["--engine", chosen.engine]
            if chosen.engine_python:
                arguments += ["--engine-python", chosen.engine_python]
        source = str(Path(__file__).resolve().parents[4])  # a checkout that is not installed must still find itself
        command = Command(
            arguments=tuple(arguments),
            kind="silva" if chosen.engine == "torch" else "vllm",
            model=MODEL if chosen.weights is None else served_name(chosen.weights),
            health="/healthz" if chosen.engine == "torch" else "/health",
            token_env=TOKEN_ENV,
            start_seconds=START_SECONDS if chosen.engine == "torch" else VLLM_START_SECONDS,
            variables={"PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))},
        )
        super().__init__(name, command, Scaling(chosen.least, chosen.most, chosen.target, chosen.idle))
        self._chosen = chosen

    async def start(self, fleet: Fleet) -> None:
        """Begin.

        Raises:
            MissingError: a package the model needs is not installed.
            UsageError: the folder holds no model that can be served.
        """
        await asyncio.to_thread(_require, self._chosen)
        await super().start(fleet)


def _require(chosen: LocalBackends) -> None:
    if chosen.engine == "vllm":
        require_vllm(VllmOptions(python=chosen.engine_python))
        if chosen.weights is not None:
            return  # vLLM reads the folder itself, in its own environment
    if chosen.weights is None:
        packed_weights()
    else:
        read_architecture(chosen.weights)
        weight_files(chosen.weights)
    require("torch", "safetensors", "tokenizers")
