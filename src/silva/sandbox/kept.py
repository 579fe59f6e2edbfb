"""A session's program that its sandbox's process 1 is the parent of, so that a checkpoint can take it along.

    sh (says the exit code by a pipe, keeps the terminal's other end open) ─▶ setsid --ctty ─▶ the program

What is started in the common way is a child of the fork server, which stands outside, and whatever a process snapshot
takes must be below process 1. The owner sees its end by a pidfd. After a restore the pipe is a new one, and the
terminal's other end is taken out of `sh` by `pidfd_getfd`.

What CRIU 4.2 does not take: a program that holds /dev/tty itself open (dash as an interactive shell, some pagers), for
the first to have its terminal is another. The checkpoint then keeps files, and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import platform
import signal
import time
from pathlib import Path

from silva.sandbox.spawner import Child, Ended

REPORT, TERMINAL = 3, 4
"""The descriptors that `sh` has open for its owner: the pipe, the terminal's other end."""
WORDS = (
    "sh",
    "-c",
    '(exec <>"$0" >&0 2>&0; echo >&3; exec setsid -c "$@" 3>&- 4>&-); printf "%s\\n" "$?" >&3',
    "TERMINAL",
)
"""What stands before the program's words; the fork server puts the terminal's name in the last one's place. `sh` itself
has not got it open, so that the terminal closes when the last program that had it ends."""
_PIDFD_GETFD = {"x86_64": 438, "aarch64": 438}


class Kept(Child):
    """Such a program. `inner`: the process id of its `sh` inside the sandbox."""

    def __init__(self, pidfd: int, report: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(0, loop)
        os.set_blocking(report, False)
        self._loop = loop
        self._pidfd, self._report = pidfd, report
        self.pipe = os.fstat(report).st_ino
        ids = _numbers(pidfd)
        self.pid, self.inner = ids[0], ids[-1]
        self.started.set_result(self.pid)
        loop.add_reader(pidfd, self._end)

    def signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if not self.ended.done():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def terminal(self) -> int:
        """Its terminal's other end, as a descriptor of this process's own. Raises OSError."""
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.syscall(_PIDFD_GETFD.get(platform.machine(), 438), self._pidfd, TERMINAL, 0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.set_inheritable(fd, False)
        return fd

    def close(self) -> None:
        """Look at it no longer: its sandbox has ended, and it has too."""
        if not self.ended.done():
            self._loop.remove_reader(self._pidfd)
            self._finish(-signal.SIGKILL)

    def _end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        said = b""
        with contextlib.suppress(BlockingIOError):
            said = os.read(self._report, 16)
        word = said.strip().decode(errors="replace")
        self._finish(int(word) if word.isdigit() else -signal.SIGKILL)

    def _finish(self, code: int) -> None:
        os.close(self._pidfd)
        os.close(self._report)
        self.ended.set_result(Ended(code=code))


def found(first: int, wanted: dict[int, int]) -> dict[int, Kept]:
    """The programs of a restored sandbox, by the id that their `sh` has inside.

    Args:
        first: process 1, as seen here.
        wanted: id inside to the reading end of its pipe, which is theirs then.

    Raises:
        ProcessLookupError: one is not there; what was given stays the caller's.
    """
    below: dict[int, int] = {}
    for pid in Path(f"/proc/{first}/task/{first}/children").read_text().split():
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(int(pid))
            inner = _numbers(fd)[-1]
            if inner in wanted:
                below[inner] = fd
            else:
                os.close(fd)
    missing = set(wanted) - set(below)
    if missing:
        for fd in below.values():
            os.close(fd)
        raise ProcessLookupError(f"processes {sorted(missing)} are not there")
    made = {inner: Kept(fd, wanted[inner]) for inner, fd in below.items()}
    for each in made.values():
        # What runs there may be older than this owner: nothing started before now is this program's alone.
        each.at = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    return made


def _numbers(pidfd: int) -> list[int]:
    """The ids of the process behind a pidfd: as seen here first, as seen inside last."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("NSpid:"):
            return [int(word) for word in line.split()[1:]]
    raise ProcessLookupError("the process has ended")
