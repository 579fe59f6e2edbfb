"""The loop of the fork server: one message in, one child out; and a last act when the owner is gone."""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from . import children, own, syscalls, victims

LARGEST = (1 << 18) - (1 << 10)
"""Bytes of a message; the owner sends none that is longer. (To deputies it goes on with a word more.)"""
SENDING = 1 << 20
"""The room asked for in sockets: what the kernel gives of itself is less than the largest message."""
_WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a message that makes no sense may bring about. It costs itself, never the loop: every sandbox hangs on that."""


class Server:
    """One owner's fork server.

    A child is known by the owner's number for it. `held` keeps a pidfd of process 1 of each sandbox, so that a
    number the kernel gives away a second time is never entered. What a child says while it enters comes by a pipe of
    its own, so that a slow one holds up no other.
    """

    def __init__(self, owner: socket.socket) -> None:
        self._owner = owner
        self._numbers: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        self._unclaimed: dict[int, tuple[int, Any]] = {}
        self._passing: set[int] = set()
        self._reports: dict[int, tuple[int, bytearray]] = {}
        self._deputies: dict[int, socket.socket] = {}
        self._held: dict[int, int] = {}
        self._filter = b""
        self._filter_fd = -1
        self._folder = ""
        self._groups: list[str] = []
        self._labels = False
        self._poll = select.poll()
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # Ctrl-C in the owner's terminal is the owner's to answer

    def run(self) -> None:
        """Serve until the owner closes its end, then clean up."""
        self._poll.register(self._owner, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        while True:
            ready = dict(self._poll.poll())
            for fd in ready:
                if fd in self._reports:
                    self._reported(fd)
            if self._woken in ready:
                self._drain()
                self._reap()
            if self._owner.fileno() in ready and not self._receive():
                break
        self._end()

    def _receive(self) -> bool:
        try:
            data, fds, flags, _ = socket.recv_fds(self._owner, LARGEST, 32)
        except InterruptedError:
            return True
        except ConnectionError:
            return False
        if not data:
            return False
        number: Any = 0
        try:
            message = own.message(data)
            number = message.get("number", 0)
            if not isinstance(number, int):
                raise TypeError("a child is known by a whole number")
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise ValueError("it is longer than messages may be")
            self._act(message, fds)
        except _WRONG as error:
            self._tell({"event": "failed", "number": number, "why": f"the request cannot be carried out: {error!r}"})
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _act(self, message: dict[str, Any], fds: list[int]) -> None:
        action = message["do"]
        if action == "settings":
            self._settings(message)
        elif action == "signal":
            self._signal(message["number"], message["signal"])
        elif action == "halt":
            self._halt(message["sandbox"], message["first"])
        elif action == "deputy":
            self._deputise(message)
        elif action == "adopt":
            self._adopt(message["number"], message["pid"])
        elif action == "dismiss":
            deputy = self._deputies.pop(message["deputy"], None)
            if deputy is not None:
                deputy.close()  # it sees that, and ends
        else:
            self._launch(message, fds)

    def _settings(self, message: dict[str, Any]) -> None:
        if self._filter_fd >= 0:
            raise ValueError("the settings are made once")
        self._filter = bytes.fromhex(message["filter"])
        self._folder, self._groups = message["folder"], message["groups"]
        self._labels = message["labels"]
        self._filter_fd = os.memfd_create("filter")
        os.write(self._filter_fd, self._filter)

    def _adopt(self, number: int, pid: int) -> None:
        """Take as a child of that number what CRIU has made one of this process: a restored sandbox's process 1. Raises
        OSError where it is no child of this process's."""
        with open(f"/proc/{int(pid)}/stat", "rb") as stat:  # noqa: PTH123 - pathlib is not loaded here
            if int(stat.read().rpartition(b") ")[2].split()[1]) != os.getpid():
                raise ProcessLookupError(3, "it is no child of the fork server")
        self._numbers[pid] = number
        self._pids[number] = pid
        self._tell({"event": "started", "number": number, "pid": pid})
        if pid in self._unclaimed:
            self._ended(pid, *self._unclaimed.pop(pid))

    def _signal(self, number: int, which: int) -> None:
        pid = self._pids.get(number)
        if pid is not None:  # not reaped yet, so the number is still its own
            os.kill(pid, which)

    def _halt(self, sandbox: int, first: int) -> None:
        """Kill process 1. Its parent ends after it, and so after everything in the sandbox."""
        try:
            signal.pidfd_send_signal(self._hold(sandbox, first), signal.SIGKILL)
        except OSError:
            self._signal(sandbox, signal.SIGKILL)

    def _launch(self, message: dict[str, Any], fds: list[int]) -> None:
        number, sandbox = message["number"], message.get("sandbox", 0)
        pidfd = -1
        if sandbox:
            try:
                pidfd = self._hold(sandbox, message["first"])
            except OSError:
                self._tell({"event": "failed", "number": number, "why": "the sandbox has ended"})
                return
        reading, writing = os.pipe2(os.O_CLOEXEC)
        deputy = self._deputies.get(message.get("deputy", 0))
        try:
            if deputy is not None:
                message["entering"] = pidfd >= 0
                passed = [*fds, *([pidfd] if pidfd >= 0 else []), writing]
                socket.send_fds(deputy, [own.encoded(message)], passed, socket.MSG_DONTWAIT)
            elif os.fork() == 0:
                try:
                    children.fresh()
                    children.begin(message, fds, pidfd, writing, self._filter, self._filter_fd)
                finally:
                    os._exit(125)  # nothing that goes wrong in it may make it a second fork server
        except (BlockingIOError, ConnectionError):
            os.close(reading)
            self._tell({"event": "failed", "number": number, "why": "the sandbox does not answer, or has ended"})
            return
        except _WRONG:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._reports[reading] = number, bytearray()
        self._poll.register(reading, select.POLLIN)

    def _reported(self, fd: int) -> None:
        """What a child says on its way in: A and its id, B and that of its child inside, or ! and what went wrong."""
        number, said = self._reports[fd]
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            return
        said += data
        if data:
            return
        self._poll.unregister(fd)
        os.close(fd)
        del self._reports[fd]
        lines = said.decode(errors="replace").splitlines()
        pids = [int(line[1:]) for line in lines if line[:1] in ("A", "B")]
        wrong = [line[1:] for line in lines if line[:1] == "!"]
        for passing in pids if wrong else pids[:-1]:
            if self._unclaimed.pop(passing, None) is None:
                self._passing.add(passing)
        if wrong or not pids:
            why = wrong[0] if wrong else "the sandbox has ended"
            self._tell({"event": "failed", "number": number, "why": why})
            return
        self._numbers[pids[-1]] = number
        self._pids[number] = pids[-1]
        self._tell({"event": "started", "number": number, "pid": pids[-1]})
        if pids[-1] in self._unclaimed:
            self._ended(pids[-1], *self._unclaimed.pop(pids[-1]))

    def _deputise(self, message: dict[str, Any]) -> None:
        """Fork a copy of this program that sits in a sandbox's control groups, so that what it forks is in them too.

        To join a group takes the kernel some 20 ms; a deputy does it once, before anybody waits for it.
        """
        number = message["number"]
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENDING)
        pid = os.fork()
        if pid == 0:
            try:
                owner = self._owner.fileno()
                os.dup2(other.fileno(), 3)
                os.dup2(self._filter_fd, 4)
                reply = os.dup(owner)
                os.dup2(reply, 5)
                os.closerange(6, 1 << 16)
                children.deputy(message, self._filter)
            finally:
                os._exit(125)
        other.close()
        self._deputies[number] = mine
        self._numbers[pid] = number
        self._pids[number] = pid

    def _hold(self, sandbox: int, first: int) -> int:
        if sandbox not in self._held:
            if sandbox not in self._pids:
                raise ProcessLookupError
            pidfd = os.pidfd_open(first)
            with open(f"/proc/{first}/stat", "rb") as stat:  # noqa: PTH123 - pathlib is not loaded here
                parent = int(stat.read().rpartition(b") ")[2].split()[1])
            if self._pids[sandbox] not in (parent, first):  # of a restored one, process 1 is the child itself
                os.close(pidfd)
                raise ProcessLookupError
            self._held[sandbox] = pidfd
        return self._held[sandbox]

    def _drain(self) -> None:
        try:
            while os.read(self._woken, 4096):
                pass
        except BlockingIOError:
            return

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._passing:
                self._passing.discard(pid)
            elif pid in self._numbers:
                self._ended(pid, status, usage)
            else:
                self._unclaimed[pid] = status, usage  # its report is still on the way

    def _ended(self, pid: int, status: int, usage: Any) -> None:
        number = self._numbers.pop(pid)
        self._pids.pop(number, None)
        held = self._held.pop(number, None)
        if held is not None:
            os.close(held)
        deputy = self._deputies.pop(number, None)
        if deputy is not None:
            deputy.close()
        cpu = usage.ru_utime + usage.ru_stime
        code = os.waitstatus_to_exitcode(status)
        self._tell({"event": "ended", "number": number, "code": code, "cpu": cpu, "peak": usage.ru_maxrss << 10})

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._owner.send(json.dumps(message).encode())
        except ConnectionError:
            return  # the owner is gone; the loop sees it next

    def _end(self) -> None:
        victims.thaw(self._groups)  # the owner may have gone in the middle of a checkpoint
        for pid in list(self._numbers):
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 10
        while self._numbers and time.monotonic() < until:
            self._reap()
            time.sleep(0.002)
        # Without isolation, some may have left their parents: control groups and labels still know them.
        for _ in range(100):
            left = [pid for pid in victims.grouped(self._groups) if pid != os.getpid()]
            left += victims.labelled(self._folder) if self._labels else []
            for pid in left:
                victims.kill(pid)
            if not left:
                break
            time.sleep(0.005)
        for group in self._groups:
            _remove_group(group)
        if self._folder:
            become_rm(self._folder)


def _remove_group(group: str) -> None:
    """Remove a control group and those in it; the kernel may need a moment after the last process has gone."""
    for _ in range(200):
        left = False
        for folder, _folders, _files in os.walk(group, topdown=False):
            try:
                os.rmdir(folder)  # noqa: PTH106 - pathlib is not loaded here
            except OSError:
                left = True
        if not left:
            return
        time.sleep(0.005)


def become_rm(folder: str) -> NoReturn:
    """Remove a folder, however deep, whatever its modes say, and end."""
    quiet = os.open("/dev/null", os.O_WRONLY)
    os.dup2(quiet, 2)
    # Folders alone: an overlay's whiteouts are one file under many names, also names in layers that are kept.
    script = 'find "$0" -type d ! -perm -700 -exec chmod u+rwx {} \\; 2>/dev/null; exec rm -rf --one-file-system "$0"'
    os.execve("/bin/sh", ["sh", "-c", script, folder], {"PATH": os.defpath})


def main(fd: int) -> None:
    """Serve the owner at the other end of `fd`."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16), hard))
    os.setsid()
    gc.disable()  # nothing here makes cycles, and a collection after a fork would copy every page
    gc.freeze()
    # No process of the same user may look into the one that can enter every sandbox.
    syscalls.dumpable(False)
    owner = socket.socket(fileno=fd)
    owner.setblocking(True)
    Server(owner).run()
    sys.exit(0)
