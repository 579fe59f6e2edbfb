"""A second room in a sandbox: the same files and network, other processes, and some folders hidden.

    enter the sandbox ─▶ namespaces of mounts, processes and their talk ─▶ its own /proc, folders covered ─▶ it waits

What runs in it sees nothing of what runs in the sandbox, and cannot reach what is covered; the sandbox sees all of it.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from . import own, syscalls

HOLDER = "exec </dev/null >/dev/null 2>&1; while :; do sleep 2000000000 & wait $!; done"


def hold(message: dict[str, Any], ready: int, program: bytes) -> NoReturn:
    """In a child that has entered the sandbox: make the room and stay the parent of its process 1. `ready`: where it
    says so, or what went wrong."""
    try:
        syscalls.dumpable(False)
        syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWIPC)
        child = os.fork()
        if child == 0:
            _first(message, ready, program)
        os.close(ready)
        syscalls.drop_capabilities()
        os.waitpid(child, 0)
    except OSError as error:
        own.say(ready, f"!{error.strerror or error}")
    os._exit(0)


def _first(message: dict[str, Any], ready: int, program: bytes) -> NoReturn:
    try:
        os.setsid()
        syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
        safe = syscalls.MS_NOSUID | syscalls.MS_NODEV
        syscalls.mount("proc", "/proc", "proc", safe)
        for shown, place in message["shown"]:
            syscalls.mount(shown, place, "", syscalls.MS_BIND | syscalls.MS_REC)
        for place in message["covered"]:
            syscalls.mount("none", place, "tmpfs", safe | syscalls.MS_RDONLY, "size=4k")
        os.chdir("/")
        uid = message["uid"]
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        syscalls.drop_capabilities()
        syscalls.no_new_privileges()
        if program:
            syscalls.install_filter(program)
        os.write(ready, b"ready")
        os.closerange(3, 1 << 16)
        os.execve("/bin/sh", ["sh", "-c", HOLDER], {"PATH": os.defpath})
    except OSError as error:
        own.say(ready, f"!{error.strerror or error}")
    os._exit(125)
