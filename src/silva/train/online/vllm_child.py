"""vLLM's keeper, a child process: starts it, tells its url, and ends it when the run that asked for it is gone.

python -m silva.train.online.vllm_child FOLDER NAME ROWS PYTHON      the token: in the environment
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from silva.errors import UnreachableError, UsageError
from silva.models.child import TOKEN_VARIABLE, announce, run_child
from silva.models.local.vllm import VllmOptions, serve_vllm


def serve() -> None:
    """Serve until the parent is gone.

    Raises:
        MissingError: vLLM is not installed.
        UsageError: it ended by itself.
    """
    folder, name, rows, python = sys.argv[1:]
    token = os.environ.pop(TOKEN_VARIABLE)
    options = VllmOptions(port=0, token=token, rows=int(rows), adapters=True, python=python, name=name)
    try:
        serve_vllm(Path(folder), options, announce)
    except UnreachableError as error:  # the parent is told of what a user can mend by this kind
        raise UsageError(f"serve.engine: vllm: {error}") from error


if __name__ == "__main__":
    run_child(serve)
