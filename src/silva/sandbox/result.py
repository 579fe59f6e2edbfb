"""What became of one command."""

from __future__ import annotations

from enum import StrEnum

from silva.tree import Record


class Killed(StrEnum):
    """Why a command was killed."""

    TIME = "time"  # it took longer than it may
    MEMORY = "memory"  # the sandbox used more memory than it may
    PROCESSES = "processes"  # it kept starting more processes than the sandbox may have
    DISK = "disk"  # the sandbox wrote more than it may
    OUTPUT = "output"  # it printed more than anyone will read
    SANDBOX = "sandbox"  # the sandbox was ended while it ran
    REQUEST = "request"  # its caller did not want it any longer


class Result(Record, frozen=True, kw_only=True):
    """How a command ended and what it said.

    Attributes:
        code: its exit code; minus the signal's number when a signal ended it.
        stdout, stderr: what it printed, at most `Limits.output` bytes each: the beginning and the end.
        stdout_bytes, stderr_bytes: how much it printed in all.
        killed: why it was killed, None when it ended by itself.
        reason: one line on that, for people; also when only a part of it was killed; else empty.
        seconds: wall time from the call to its end.
        first_output: seconds until its first byte; None when there was none.
        cpu: seconds of processor time, its waited-for children's included.
        peak: bytes of memory at most (the largest single process).
    """

    code: int
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    killed: Killed | None = None
    reason: str = ""
    seconds: float = 0.0
    first_output: float | None = None
    cpu: float = 0.0
    peak: int = 0

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.code == 0 and self.killed is None

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are no UTF-8 are replaced."""
        return self.stdout.decode(errors="replace")

    @property
    def truncated(self) -> bool:
        """Whether some of what it printed is not here."""
        return self.stdout_bytes > len(self.stdout) or self.stderr_bytes > len(self.stderr)
