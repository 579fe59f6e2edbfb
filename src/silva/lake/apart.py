"""Compaction apart: a process of its own does it, so that a server's event loop keeps the interpreter to itself.

    Compactor ── {"number", "gentle"} ─▶ this process ─▶ compact ── {"done"} or {"error"} ─▶ Compactor

The parent holds the lake's lock and says which segment is next; the child writes tables and nothing else. It takes a
quarter of a processor while few segments wait (`gentle`), and all of one when they pile up. It watches
its standard input, a pipe from the parent: however the parent ends, `kill -9` included, the child is gone
before another writer can begin; what it had in hand that writer does again (see `compaction`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from silva.errors import StoreError
from silva.lake.compaction import compact
from silva.lake.place import Place, place
from silva.lake.segment import segments
from silva.lake.tables import Tables

REST = 3.0
"""A gentle child rests so many times as long as it worked."""
LONGEST_REST = 0.05
NICE = 5


class Apart:
    """The child, as its parent sees it: started when the first segment is to be compacted, and again after it died.

    Args:
        where: the lake's place.
    """

    def __init__(self, where: Place) -> None:
        self._place = where
        self._process: subprocess.Popen[bytes] | None = None
        self._hurried = False

    def compact(self, number: int, gentle: bool) -> None:
        """Have one sealed segment compacted; returns when it is.

        Raises:
            StoreError: it could not be; the segment stays.
        """
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            self._send({"number": number, "gentle": gentle and not self._hurried})
            line = process.stdout.readline()
        except OSError:
            line = b""
        answer: dict[str, Any] = json.loads(line) if line else {}
        if "done" in answer:
            return
        if not line:
            self.close()
        what = answer.get("error") or "the process that fills its tables ended; the next segment starts it anew"
        raise StoreError(what if answer else f"lake {self._place.where}: {what}")

    def hurry(self) -> None:
        """From now on, do not rest: somebody waits."""
        self._hurried = True
        if self._process is not None and self._process.poll() is None:
            self._send({"gentle": False})

    def close(self) -> None:
        """End the child."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            # Signals of a terminal go to the parent, who ends the child when it has no more work for it.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from silva.lake.apart import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            # Storage options may be keys: they go through the pipe, where no list of processes shows them.
            self._send({"where": self._place.where, "options": self._place.options})
        return self._process

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                self._process.stdin.flush()
            except OSError:  # it has died; whoever waits for its answer is told
                return


class _Pace:
    """How fast the child works."""

    def __init__(self) -> None:
        self.gentle = False
        self._since = time.monotonic()

    def __call__(self) -> None:
        if self.gentle:
            time.sleep(min(LONGEST_REST, REST * (time.monotonic() - self._since)))
        self._since = time.monotonic()


def _listen(asked: SimpleQueue[int], pace: _Pace) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        pace.gentle = message["gentle"]
        if "number" in message:
            asked.put(message["number"])
    os._exit(0)  # the parent is gone, or has no more work: nothing here is worth finishing


def main() -> None:
    """Compact what standard input asks for."""
    os.nice(NICE)
    told = json.loads(sys.stdin.readline())
    where = place(told["where"], told["options"])
    tables = Tables(where)
    pace = _Pace()
    asked: SimpleQueue[int] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked, pace), daemon=True).start()
    while True:
        number = asked.get()
        path: Path | None = segments(where.journal).get(number)
        try:
            if path is not None:
                compact(number, path, tables, where.where, pace)
            answer: dict[str, Any] = {"done": number}
        except StoreError as error:
            answer = {"error": str(error)}
        try:
            print(json.dumps(answer), flush=True)
        except BrokenPipeError:
            os._exit(0)  # the parent is gone: whoever opens the lake next finds the segment as it is
