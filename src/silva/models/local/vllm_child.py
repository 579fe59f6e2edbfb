"""vLLM's server as a child process of who asked for `vllm:FOLDER`: it says its url once the server is healthy.

rollout ─ start_vllm ─▶ this module ─ serve_vllm ─▶ vLLM's own server, by the interpreter that has it
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from silva.models.child import TOKEN_VARIABLE, Child, announce, run_child, start_child
from silva.models.local.vllm import VllmOptions, require_vllm, serve_vllm
from silva.models.local.weights import served_name

PYTHON_VARIABLE = "SILVA_VLLM_PYTHON"
"""Names the interpreter of an environment that has vLLM, where this one has not."""


def start_vllm(rows: int, weights: Path) -> Child:
    """Start vLLM on the weights of a folder and wait, blocking, until it serves.

    Raises:
        MissingError: the interpreter has no vLLM.
        UsageError: the folder has a name that cannot stand in a request.
        ModelError: it ended, or was not healthy in time; its own words are on standard error.
    """
    served_name(weights)
    require_vllm(VllmOptions(python=os.environ.get(PYTHON_VARIABLE, "")))
    return start_child("silva.models.local.vllm_child", [str(rows), str(weights)], f"vLLM with {weights.name}")


def main(arguments: list[str]) -> None:
    """Entry of the child process: rows, and the folder of weights."""
    rows, weights = int(arguments[0]), Path(arguments[1])
    token, python = os.environ.pop(TOKEN_VARIABLE), os.environ.get(PYTHON_VARIABLE, "")
    options = VllmOptions(port=0, token=token, rows=rows, python=python, name=served_name(weights))
    run_child(lambda: sys.exit(serve_vllm(weights, options, announce)))


if __name__ == "__main__":
    main(sys.argv[1:])
