"""An engine in a process of its own, as the benchmark sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from local_engines.environments import ENGINES
from local_engines.sampler import NotRun, Sampled

HOME = Path(__file__).parent.parent
QUIET = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "HF_HUB_OFFLINE": "1"}
"""Waiting threads sleep: all engines are open at once, and spinning would take the cores from the one at work."""


class Opened:
    """One engine. `reason` says why it is not run, or is None; `version` what it is and in which number format."""

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        self.name, self.version = name, ""
        self.reason: str | None = None
        self._process: subprocess.Popen[str] | None = None
        self._scratch = tempfile.TemporaryDirectory()
        self._log = Path(self._scratch.name) / "log"
        try:
            command = ENGINES[name](folder).command(threads)
            with self._log.open("w") as log:
                self._process = subprocess.Popen(
                    command,
                    cwd=HOME,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, **QUIET},
                    text=True,
                )
            said = self._line()
            if "not_run" in said:
                raise NotRun(said["not_run"])
            self.version = said["version"]
        except NotRun as fault:
            self.reason = str(fault)
            if self._process is not None:
                self._tell()

    def _line(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise NotRun(f"its process ended with {self._process.wait()}")
        return json.loads(line)

    def _tell(self) -> None:
        """Its last words, for whoever runs this; the results hold no paths."""
        words = self._log.read_text(errors="replace")[-3000:]
        print(f"{self.name}: {self.reason}\n{words}", file=sys.stderr)

    def sample(self, prompts: list[list[int]], new: int) -> tuple[float, Sampled] | None:
        """How many seconds it takes to read the prompts and sample `new` ids for each, and what it sampled.

        None, and a `reason`, where it ended meanwhile; its last words are on standard error.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([prompts, new]) + "\n")
            self._process.stdin.flush()
            said = self._line()
        except (NotRun, BrokenPipeError):
            self.reason = "its process ended while it was measured"
            self._tell()
            return None
        return said["seconds"], said["sampled"]

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
        self._scratch.cleanup()
