"""The mounts a sandbox is made of, put together in a forked child before bubblewrap, or CRIU, moves them into place."""

from __future__ import annotations

import os
from typing import Any

from . import own, syscalls

STAGING = "/sys"
"""Where they are put together. It exists everywhere, in no sandbox."""


def stage(message: dict[str, Any]) -> None:
    """Leave the machine's mounts for a copy of one's own, and mount there what a sandbox is to have. Raises OSError."""
    private_mounts(privileged=message["user"] is not None)
    # What is mounted there is of no use inside, and bubblewrap reads the list of all mounts again and again.
    syscalls.detach(STAGING)
    syscalls.mount("staging", STAGING, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "size=1m,mode=755")
    for place in message["overlays"]:
        _overlay(place)
    for name, source in message.get("folders", ()):
        _bind(source, f"{STAGING}/{name}")
    given = -1
    for number, source in enumerate(message["binds"]):
        if number in message.get("read", ()) and message["user"] is not None:
            given = mapped(f"0 {message['user']} 1\n") if given < 0 else given
        _bind(source, f"{STAGING}/b{number}", given if number in message.get("read", ()) else -1)


def private_mounts(*, privileged: bool) -> None:
    """A copy of all mounts that no other process sees change; as an ordinary user in a namespace of users. Raises
    OSError."""
    uid, gid = os.getuid(), os.getgid()
    if privileged:
        syscalls.unshare(syscalls.CLONE_NEWNS)
    else:
        syscalls.dumpable(True)  # else the entries of /proc written next belong to root
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            own.write(f"/proc/self/{name}", text)
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)


def _overlay(place: dict[str, Any]) -> None:
    # Volatile: nothing is flushed to disk when it is unmounted. Upper and work are new for every mount, as that needs.
    target = f"{STAGING}/{place['name']}"
    os.mkdir(target)  # noqa: PTH102 - as above
    os.chdir(place["folder"])  # layers are named from here: what the kernel takes is one page long
    lower = ":".join(_escaped(each) for each in place["lower"])
    data = f"lowerdir={lower},userxattr"
    if "upper" in place:  # else it is only read
        data += f",upperdir={place['upper']},workdir={place['work']},volatile"
    syscalls.mount("overlay", target, "overlay", syscalls.MS_NOSUID | syscalls.MS_NODEV, data)


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def _bind(source: str, target: str, users: int = -1) -> None:
    """`users`: what is root's is somebody else's there, who may read it then as root could. Where that cannot be had it
    is as readable as it is for others."""
    if os.path.isdir(source):  # noqa: PTH112 - as above
        os.mkdir(target)  # noqa: PTH102
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    if users >= 0:
        try:
            syscalls.mount_mapped(source, target, users)
            return
        except OSError:
            pass
    syscalls.mount(source, target, "", syscalls.MS_BIND | syscalls.MS_REC)


def users(outside: int, inside: int) -> int:
    """A namespace of users of its own, open as a descriptor: `inside` is `outside`, and its root is the nobody before
    that. Only root can map two. Raises OSError."""
    return mapped(f"0 {outside - 1} 1\n{inside} {outside} 1\n", outside)


def mapped(words: str, user: int | None = None) -> int:
    """A namespace of users, open as a descriptor, with a map in the kernel's words; it is `user`'s. Raises OSError."""
    made, making = os.pipe()
    waiting, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if user is not None:
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            os.write(making, b"made")
            os.close(go)
            os.read(waiting, 1)
        finally:
            os._exit(0)
    os.close(making)
    os.close(waiting)
    try:
        if not os.read(made, 4):
            raise OSError(1, "no namespace of users can be made")
        for name in ("uid_map", "gid_map"):
            own.write(f"/proc/{child}/{name}", words)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    finally:
        os.close(made)
        os.close(go)
        os.waitpid(child, 0)
