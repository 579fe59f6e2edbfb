"""`silva gateway` as a process of its own, as a user starts it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SILVA = [sys.executable, "-m", "silva"]
EXPORTS = 5
"""Lines that `--run` prints besides the url."""


class Command:
    """A gateway that has said its url, and with `--run` what programs need."""

    def __init__(self, process: subprocess.Popen[str], lines: int) -> None:
        self.process = process
        self.said = [self._line() for _ in range(lines)]
        self.where = self.said[0]
        self.complaints: list[str] = []
        assert process.stderr is not None
        self._reading = threading.Thread(target=lambda: self.complaints.extend(process.stderr or ()), daemon=True)
        self._reading.start()

    @property
    def exports(self) -> dict[str, str]:
        """The variables of its export lines, as a shell reads them."""
        script = "\n".join([*self.said[1:], "env"])
        listed = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=True).stdout
        return dict(line.split("=", 1) for line in listed.splitlines() if line.startswith(("OPENAI_", "ANTHROPIC_")))

    def end(self, by: int = signal.SIGTERM) -> int:
        """Stop it as a user does; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        code = self.process.wait(60)
        self._reading.join(10)
        return code

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().rstrip("\n")
        assert line, (
            f"it ended with {self.process.wait(10)}: {self.process.stderr.read() if self.process.stderr else ''}"
        )
        return line


@contextmanager
def started(lake: Path, *arguments: str, lines: int = 1, shell: str = "") -> Iterator[Command]:
    """`silva gateway ARGUMENTS` on a free port; `shell` is done before it in the same shell."""
    command = [*SILVA, "gateway", "--lake", str(lake), "--port", "0", *arguments]
    process = subprocess.Popen(
        ["sh", "-c", f'{shell or ":"}; exec "$@"', "sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield (running := Command(process, lines))
        running.end()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(20)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
