"""The local model's server process: weights, engine, routes; and how a parent starts it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from silva.models.child import TOKEN_VARIABLE, Child, announce, run_child, start_child, stop_with_parent
from silva.models.local.weights import fingerprint, packed_weights, require, weights_folder
from silva.models.serving.server import bind, serve_forever

ENVIRONMENT = {
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "0",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Waiting threads must sleep: spinning ones starve whatever shares the cores. Read once, when torch is loaded."""


def serve_local(
    listening: socket.socket,
    token: str | None,
    say: Callable[[str], None],
    watch: Callable[[Callable[[], None]], None] | None = None,
    threads: int | None = None,
    rows: int = 32,
    adapters: Path | None = None,
) -> None:
    """Serve the bundled model on a socket until told to stop.

    Args:
        listening: from `bind`.
        token: what clients must present, or None for anyone.
        say: told the url.
        watch: given a function that stops the server.
        threads: of torch; None leaves its default.
        rows: most requests computed at once.
        adapters: the folder LoRA adapters may be loaded from, or None for none.

    Raises:
        MissingError: a package is not installed.
        UsageError: the weights cannot be cached.
    """
    folder = weights_folder()
    from silva.models.local.app import LocalApp
    from silva.models.local.engine import Engine
    from silva.models.local.prompt import Prompter

    engine = Engine(folder, rows=rows, threads=threads)
    app = LocalApp(engine, Prompter(folder), fingerprint(folder), token, adapters)
    serve_forever(app, listening, say, watch)


def start_local(threads: int | None = None, rows: int = 32, adapters: Path | None = None) -> Child:
    """Start the local model in a child process and wait, blocking, until it serves.

    With `adapters`, LoRA adapters can be loaded from folders under it while it runs; the child's token allows it.

    The first start ever unpacks the weights, which takes about a minute.

    Raises:
        MissingError: a package is not installed.
    """
    packed_weights()
    require("torch", "safetensors", "tokenizers")
    arguments = [str(threads or 0), str(rows), *([str(adapters)] if adapters else [])]
    return start_child("silva.models.local", arguments, "the local model", ENVIRONMENT)


def main(arguments: list[str]) -> None:
    """Entry of the child process: threads (0: torch's default), rows and perhaps the adapters' folder."""
    threads, rows = int(arguments[0]) or None, int(arguments[1])
    adapters = Path(arguments[2]) if len(arguments) > 2 else None
    token = os.environ.pop(TOKEN_VARIABLE)
    run_child(lambda: serve_local(bind("127.0.0.1", 0), token, announce, stop_with_parent, threads, rows, adapters))
