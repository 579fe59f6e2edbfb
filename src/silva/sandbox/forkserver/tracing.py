"""A judge's programs, followed: each one it starts is its own, or is run by somebody else in its place.

    test.sh ─▶ execve, held by the kernel's filter ─▶ rules ─┬▶ the judge's own: goes on
                                                              └▶ what the judged wrote: a runner with the same words,
                                                                 which has it run where the verdict cannot be reached

The follower stands outside the sandbox's processes, as their debugger: nothing inside sees it, and they end with it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
from typing import Any

from . import rules, syscalls

_TRACEME, _CONT, _SETOPTIONS, _GETREGSET, _SETREGSET = 0, 7, 0x4200, 0x4204, 0x4205
_OPTIONS = 0x02 | 0x04 | 0x08 | 0x80 | 0x100000  # forks, clones, held calls; whoever is followed ends with its follower
_HELD = 7
_WALL = 0x40000000
_MOST_WORDS = 4096
_MOST_BYTES = 8192
_NUMBERS = {"x86_64": (59, 322), "aarch64": (221, 281)}
_LD, _JEQ, _RET, _ALLOW, _TRACE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x7FF00000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def traced() -> None:
    """Have the parent follow this process. Raises OSError."""
    _ptrace(_TRACEME, 0)
    os.kill(os.getpid(), signal.SIGSTOP)


def hold_executions() -> None:
    """Have every execve of this process and its children held for who follows it. Raises OSError."""
    execve, execveat = _NUMBERS[platform.machine()]
    program = b"".join(
        (
            struct.pack("=HBBI", _LD, 0, 0, 0),
            struct.pack("=HBBI", _JEQ, 1, 0, execve),
            struct.pack("=HBBI", _JEQ, 0, 1, execveat),
            struct.pack("=HBBI", _RET, 0, 0, _TRACE),
            struct.pack("=HBBI", _RET, 0, 0, _ALLOW),
        )
    )
    syscalls.install_filter(program)


class Follower:
    """Follows one program and all it starts. `judge`: `own` and `places` as of `rules.stays`, and the `runner`'s
    words."""

    def __init__(self, root: int, judge: dict[str, Any], proc: int) -> None:
        self._root = root
        self._own, self._places = tuple(judge["own"]), tuple(judge["places"])
        self._runner = judge["runner"]
        self._proc = proc
        """/proc of the machine: ids here are the machine's, the mounts the sandbox's."""
        self._known = {root}
        self._begun = False

    def follow(self) -> int:
        """Until it ends; its exit code, minus a signal's number."""
        os.waitpid(self._root, 0)
        _ptrace(_SETOPTIONS, self._root, _OPTIONS)
        _ptrace(_CONT, self._root)
        while True:
            try:
                pid, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return 125
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                self._known.discard(pid)
                if pid == self._root:
                    return os.waitstatus_to_exitcode(status)
                continue
            number = os.WSTOPSIG(status)
            if status >> 16 == _HELD:
                self._held(pid)
            fresh = number == signal.SIGSTOP and pid not in self._known
            self._known.add(pid)
            passed = 0 if status >> 16 or fresh or number == signal.SIGTRAP else number
            try:
                _ptrace(_CONT, pid, passed)
            except OSError:
                continue  # it was killed meanwhile

    def _held(self, pid: int) -> None:
        if not self._begun:  # the judge's program itself; until it runs, its memory is the fork server's
            self._begun = True
            return
        try:
            registers = _Registers(pid)
            path = self._absolute(pid, _text(pid, registers.path))
            words = [_text(pid, each) for each in _pointers(pid, registers.words)]
            if not _runs(path) or rules.stays(path, words, self._own, self._places):
                return
            registers.start(self._runner, path)
        except (OSError, ValueError):
            _Registers(pid).refuse()

    def _absolute(self, pid: int, path: str) -> str:
        if path.startswith("/"):
            return os.path.realpath(os.path.dirname(path)) + "/" + os.path.basename(path)  # noqa: PTH119, PTH120
        folder = os.readlink(f"{pid}/cwd", dir_fd=self._proc)
        return os.path.normpath(f"{folder}/{path}")


class _Registers:
    """The registers of a process that is held at an execve."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._wide = 27 if platform.machine() == "x86_64" else 34
        self._all = (ctypes.c_uint64 * self._wide)()
        self._set(_GETREGSET)
        execve, execveat = _NUMBERS[platform.machine()]
        if platform.machine() == "x86_64":
            called, order, self._stack = self._all[15], (14, 13, 12), 19
        else:
            called, order, self._stack = self._all[8], (0, 1, 2), 31
        self._at = called == execveat
        assert self._at or called == execve
        self._order = order

    @property
    def path(self) -> int:
        """Where the path is."""
        return self._all[self._order[1 if self._at else 0]]

    @property
    def words(self) -> int:
        """Where the arguments are."""
        return self._all[self._order[2 if self._at else 1]]

    def start(self, runner: list[str], path: str) -> None:
        """Have another program started, with the words of this one after its own. Raises OSError."""
        given = _pointers(self._pid, self.words)
        texts = [*(word.encode() + b"\0" for word in runner), os.fsencode(path) + b"\0"]
        size = 8 * (len(texts) + len(given) + 1)
        base = (self._all[self._stack] - 1024 - size - sum(map(len, texts))) & ~15
        place, pointers = base + size, []
        for text in texts:
            pointers.append(place)
            place += len(text)
        _write(self._pid, base, struct.pack(f"={size // 8}Q", *pointers, *given, 0) + b"".join(texts))
        self._give(pointers[0], base)

    def refuse(self) -> None:
        """Have the call fail."""
        self._give(0, 0)

    def _give(self, path: int, words: int) -> None:
        if self._at:
            self._all[self._order[0]] = (1 << 64) - 100  # of no folder in particular
        self._all[self._order[1 if self._at else 0]] = path
        self._all[self._order[2 if self._at else 1]] = words
        self._set(_SETREGSET)

    def _set(self, request: int) -> None:
        given = struct.pack("=QQ", ctypes.addressof(self._all), ctypes.sizeof(self._all))
        _ptrace(request, self._pid, ctypes.cast(ctypes.create_string_buffer(given), ctypes.c_void_p).value or 0, 1)


def _ptrace(request: int, pid: int, data: int = 0, address: int = 0) -> None:
    if _libc.ptrace(request, pid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")


def _runs(path: str) -> bool:
    """Whether there is such a program: a path that is only tried must fail as it would."""
    try:
        return bool(os.stat(path).st_mode & 0o111) and not os.path.isdir(path)  # noqa: PTH112, PTH116
    except OSError:
        return False


def _read(pid: int, address: int, size: int) -> bytes:
    buffer = ctypes.create_string_buffer(size)
    here = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), size)
    there = (ctypes.c_uint64 * 2)(address, size)
    got = _libc.process_vm_readv(
        pid, ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1), ctypes.c_ulong(0)
    )
    if got != size:
        raise OSError(14, "its memory cannot be read")
    return buffer.raw


def _write(pid: int, address: int, data: bytes) -> None:
    buffer = ctypes.create_string_buffer(data, len(data))
    here = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), len(data))
    there = (ctypes.c_uint64 * 2)(address, len(data))
    done = _libc.process_vm_writev(
        pid, ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1), ctypes.c_ulong(0)
    )
    if done != len(data):
        raise OSError(14, "its memory cannot be written")


def _text(pid: int, address: int) -> str:
    found = b""
    while len(found) < _MOST_BYTES and address:
        part = _read(pid, address, 256 - address % 256)  # within a page, for the next may not be there
        found += part
        address += len(part)
        if b"\0" in part:
            break
    return os.fsdecode(found.partition(b"\0")[0])


def _pointers(pid: int, address: int) -> list[int]:
    found: list[int] = []
    while address:
        (pointer,) = struct.unpack("=Q", _read(pid, address, 8))
        if not pointer:
            break
        found.append(pointer)
        if len(found) > _MOST_WORDS:
            raise ValueError("too many words")
        address += 8
    return found
