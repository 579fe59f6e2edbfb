"""Our engine behind its routes, as a user starts it: `silva models serve local`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from local_engines.served import ServedSampler
from silva.models.child import free_port
from silva.models.local.network import best_dtype


def open_sampler(model: Path, threads: int) -> ServedSampler:
    """The server on the bundled weights, which are those of `model`.

    Raises:
        NotRun: it did not come to health.
    """
    port = free_port("127.0.0.1")
    command = [
        sys.executable,
        "-m",
        "silva",
        "models",
        "serve",
        "local",
        "--port",
        str(port),
        "--threads",
        str(threads),
    ]
    kind = str(best_dtype()).removeprefix("torch.")
    return ServedSampler(
        command, os.environ, f"http://127.0.0.1:{port}", "/v1/models", f"torch {torch.__version__}, {kind}"
    )
