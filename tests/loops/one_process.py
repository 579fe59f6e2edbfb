"""Loops turned in one process of their own, which costs less than a process for each stage, and killed there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TURN = """
import json, sys
from silva.loops.kernel.kinds import kind
from silva.loops.kernel.turn import turn
turn(kind(sys.argv[1]).config.model_validate(json.loads(sys.argv[2])), here=True)
"""


def begin_whole(kind: str, values: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Begin a loop of a kind, or go on with it."""
    words = [sys.executable, "-c", TURN, kind, json.dumps(values)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)


def kill_in(process: subprocess.Popen[bytes], folder: Path, stage: str, seconds: float = 0.3) -> None:
    """Kill a loop so many seconds into a stage; where that has ended already, in the next."""
    ledger, deadline = folder / "ledger.jsonl", time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        if ledger.exists() and f'"stage":"{stage}"'.encode() in ledger.read_bytes():
            break
        time.sleep(0.02)
    time.sleep(seconds)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
