"""Whether CRIU works here: found out by a sandbox that is made to be thrown away, written down, and brought back.

trial() ─▶ python -m silva.sandbox.criu_tried ─▶ a session says its number; does the branch know it? ─▶ one line
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from silva.sandbox import criu

_SECONDS = 60
_HAVE = "install CRIU 4.2 or newer, and name it by SILVA_CRIU if it is not on the path"


@functools.cache
def trial() -> str:
    """Why processes cannot be written down and brought back here; "" where they can. Cached: a machine does not change
    under a running program."""
    program = criu.program()
    if not program:
        return f"there is no CRIU: {_HAVE}"
    if not os.access(program, os.X_OK) or not Path(program).is_file():
        return f"CRIU is to be {program} (SILVA_CRIU), which is no program: {_HAVE}"
    if os.geteuid() != 0:
        return "CRIU is used by root alone here: open the backend as root"
    with tempfile.TemporaryDirectory(prefix="silva-trial-") as scratch:
        try:
            # A process of its own, with an event loop of its own: this may be asked for from within one.
            tried = subprocess.run(
                [sys.executable, "-m", "silva.sandbox.criu_tried", scratch],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            return f"a trial of CRIU ({program}) did not end within {_SECONDS} s"
    said = (tried.stdout if tried.returncode == 0 else tried.stderr).strip().splitlines()
    if tried.returncode == 0 and not said:
        return ""
    return f"a trial of CRIU ({program}) failed: {said[-1] if said else f'exit code {tried.returncode}'}"
