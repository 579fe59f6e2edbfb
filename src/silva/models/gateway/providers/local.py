"""The bundled model, or that of a folder, as a backend: `silva models serve local [--weights FOLDER]`, started and
stopped by load like any other process."""

from __future__ import annotations

import asyncio
import sys

from silva.models.child import python_path
from silva.models.gateway.config import LocalBackends, ProcessBackends
from silva.models.gateway.providers.process import ProcessProvider
from silva.models.gateway.routing.fleet import Fleet
from silva.models.local import MODEL
from silva.models.local.server import check_servable
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
        super().__init__(name, _served(chosen))
        self._local = chosen

    async def start(self, fleet: Fleet) -> None:
        """Begin.

        Raises:
            MissingError: a package the model needs is not installed.
            UsageError: the folder holds no model that can be served.
        """
        await asyncio.to_thread(_require, self._local)
        await super().start(fleet)


def _served(chosen: LocalBackends) -> ProcessBackends:
    """The processes that serve what was chosen."""
    options = {
        "--threads": chosen.threads,
        "--weights": chosen.weights,
        "--adapters": chosen.adapters,
        "--engine": None if chosen.engine == "torch" else chosen.engine,
        "--engine-python": chosen.engine_python or None,
    }
    command = [sys.executable, "-P", "-m", "silva", "models", "serve", "local"]
    command += ["--port", "{port}", "--token-env", TOKEN_ENV]
    command += [str(word) for option in options.items() if option[1] is not None for word in option]
    own = chosen.engine == "torch"
    return ProcessBackends(
        provider="process",
        command=tuple(command),
        kind="silva" if own else "vllm",
        model=MODEL if chosen.weights is None else served_name(chosen.weights),
        health="/healthz" if own else "/health",
        token_env=TOKEN_ENV,
        start_seconds=START_SECONDS if own else VLLM_START_SECONDS,
        variables={"PYTHONPATH": python_path()},
        **chosen.model_dump(include={"least", "most", "target", "idle"}),
    )


def _require(chosen: LocalBackends) -> None:
    if chosen.engine == "vllm":
        require_vllm(VllmOptions(python=chosen.engine_python))
        if chosen.weights is not None:
            return  # vLLM reads the folder itself, in its own environment
    check_servable(chosen.weights)
