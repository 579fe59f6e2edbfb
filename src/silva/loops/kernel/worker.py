"""A stage's process: `python -m silva.loops.kernel.worker FOLDER STAGE`.

    lock (an earlier worker may still be dying) ─▶ run the stage ─▶ results/STAGE.json, whole and durable ─▶ exit 0

Standard input is the parent: when it closes, the parent is gone, and this process ends itself at once with all it has
started. How the stage ended is one line of JSON on standard output; progress goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from filelock import FileLock, Timeout

from silva.errors import Exit, SilvaError, StoreError
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.stage import Nothing, Waiting
from silva.models.child import stop_with_parent

LOCK = ".worker.lock"
LOCK_SECONDS = 60.0
"""How long an earlier worker may take to be gone."""


def main(folder: str, name: str) -> int:
    """Run the stage `name` of the loop in `folder`; return the exit code."""
    stop_with_parent(lambda: os.kill(os.getpid(), signal.SIGKILL))
    try:
        with FileLock(Path(folder) / LOCK).acquire(timeout=LOCK_SECONDS):
            kind, loop = read_loop(Path(folder))
            stage = next(each for each in loop.plan if each.name == name)
            if loop.result(stage) is None:
                loop.keep_result(stage, kind.run(loop, stage))
    except Timeout:
        error = StoreError(f"loop {folder}: another process runs a stage of it; wait for it, or end it")
        return _say(error=str(error), code=int(error.code))
    except Nothing as why:
        return _say(nothing=str(why), code=int(Exit.OK))
    except Waiting as what:
        return _say(waiting=str(what), code=int(Exit.OK))
    except SilvaError as error:
        return _say(error=str(error), code=int(error.code))
    return _say(code=int(Exit.OK))


def _say(code: int, **said: str) -> int:
    sys.stdout.write(json.dumps({"code": code, **said}) + "\n")
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
