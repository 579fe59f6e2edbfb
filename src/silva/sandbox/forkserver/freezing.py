"""What a forked child does for a snapshot of processes: have CRIU write one down, or bring one back.

    dump      own mounts ─▶ CRIU writes the tree of process 1 to a folder; its hook copies the files meanwhile
    restore   own mounts, the sandbox's staged ─▶ CRIU, which leaves process 1 as a child of the fork server
    loopback  a restored sandbox's network is a new one: its loopback is taken up

CRIU runs with the rights of whoever opened the backend, and reads nothing that the sandbox wrote but its memory.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Any, NoReturn

from . import mounts, own, syscalls

_CACHE = "/run/criu.kdat"
"""What CRIU found out of the kernel; to find it out again takes longer than a dump, and it wants it on a tmpfs."""
_FIRST = 20
"""The first descriptor that is handed to CRIU."""
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def dump(message: dict[str, Any], fds: list[int]) -> NoReturn:
    """Run CRIU to its end. `fds`: where it may complain."""
    try:
        os.setsid()
        own.spare(0)
        mounts.private_mounts(privileged=True)
        _remember(message, fds)
        _become(message, fds[:1])
    except OSError as error:
        own.say(fds[0], f"{error.strerror or error}\n")
    os._exit(125)


def restore(message: dict[str, Any], fds: list[int]) -> NoReturn:
    """Stage a sandbox's mounts and become CRIU. `fds`: where it may complain, then what its processes had open."""
    try:
        os.setsid()
        own.spare(0)
        mounts.stage(message)
        root = f"{mounts.STAGING}/root"
        os.mkdir(root)  # noqa: PTH102 - pathlib is not loaded here
        for path in message["places"]:
            os.makedirs(f"{root}{path}", exist_ok=True)  # noqa: PTH103
        for path in message["files"]:
            os.makedirs(os.path.dirname(f"{root}{path}"), exist_ok=True)  # noqa: PTH103, PTH120
            os.close(os.open(f"{root}{path}", os.O_CREAT | os.O_WRONLY, 0o644))
        for path, target in message["links"]:
            os.symlink(target, f"{root}{path}")  # noqa: PTH211
        syscalls.mount(root, root, "", syscalls.MS_BIND)
        syscalls.unshare(syscalls.CLONE_NEWCGROUP)
        _remember(message, fds)
        _become(message, fds)
    except OSError as error:
        own.say(fds[0], f"{error.strerror or error}\n")
    os._exit(125)


def loopback(pidfd: int) -> NoReturn:
    """Take up the loopback of a sandbox."""
    try:
        syscalls.setns(pidfd, syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNET)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            request = struct.pack("16sH14x", b"lo", 0)
            _, flags = struct.unpack("16sH14x", fcntl.ioctl(asking, _SIOCGIFFLAGS, request))
            fcntl.ioctl(asking, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
    except OSError:
        os._exit(1)
    os._exit(0)


def _become(message: dict[str, Any], fds: list[int]) -> NoReturn:
    null = os.open("/dev/null", os.O_RDWR)
    for number, fd in enumerate(fds[1:]):
        os.dup2(fd, 200 + number)
    os.dup2(null, 0)
    os.dup2(fds[0], 199)
    os.dup2(199, 1)
    os.dup2(199, 2)
    for number in range(len(fds) - 1):
        os.dup2(200 + number, _FIRST + number)
    os.closerange(3, _FIRST)
    os.closerange(_FIRST + len(fds) - 1, 1 << 16)
    # Where root lacks CAP_SYS_RESOURCE, the kernel tells the limits of a process only to a user it seems to be.
    user = message["as"]
    os.setgroups([])
    os.setresgid(user, 0, 0)
    os.setresuid(user, 0, 0)
    os.chdir("/")
    os.execve(message["program"], message["arguments"], message["variables"])


def _remember(message: dict[str, Any], fds: list[int]) -> None:
    """Give CRIU what it has found out of the kernel before, or have it find that out."""
    cache = message["cache"]
    syscalls.mount("run", "/run", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "size=1m,mode=755")
    if os.path.exists(cache):  # noqa: PTH110 - pathlib is not loaded here
        _copy(cache, _CACHE)
        return
    child = os.fork()
    if child == 0:
        # As somebody else than root it does not find out all of it.
        _become({**message, "arguments": ["criu", "check"], "as": 0}, fds[:1])
    os.waitpid(child, 0)
    if os.path.exists(_CACHE):  # noqa: PTH110
        new = f"{cache}.{os.getpid()}"
        _copy(_CACHE, new)
        os.rename(new, cache)  # noqa: PTH104


def _copy(source: str, target: str) -> None:
    with open(source, "rb") as reading:  # noqa: PTH123
        data = reading.read()
    fd = os.open(target, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
