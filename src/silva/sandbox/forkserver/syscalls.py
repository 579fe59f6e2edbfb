"""The kernel's calls that Python 3.11 has no name for: namespaces, mounts, capabilities, seccomp."""

from __future__ import annotations

import ctypes
import os
import platform

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_PARENT = 0x00008000
SIGCHLD = 17
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_MOUNT_ATTR_IDMAP = 0x00100000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.syscall.restype = ctypes.c_long


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Leave namespaces for new ones. Raises OSError."""
    _checked(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    """Join the namespaces of the process behind a pidfd, all at once. Raises OSError."""
    _checked(_libc.setns(fd, flags), "setns")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount. Raises OSError naming the target."""
    done = _libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode() if data else None)
    _checked(done, f"mount of {kind or source} on {target}")


def mount_mapped(source: str, target: str, users: int) -> None:
    """Mount a folder or file a second time, with the owners of its files as a namespace of users maps them, open as
    `users`. Raises OSError: the kernel, or the file system, does not know how."""
    tree = _checked(
        _libc.syscall(
            _SYS_OPEN_TREE, -100, ctypes.c_char_p(os.fsencode(source)), ctypes.c_uint(0x8000 | os.O_CLOEXEC | 1)
        ),
        "open_tree",
    )
    try:
        wanted = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_IDMAP, 0, 0, users)
        size = ctypes.c_size_t(ctypes.sizeof(wanted))
        flags = ctypes.c_uint(0x1000 | 0x8000)  # of the descriptor itself, and what is mounted below
        _checked(
            _libc.syscall(_SYS_MOUNT_SETATTR, tree, ctypes.c_char_p(b""), flags, ctypes.byref(wanted), size),
            "mount_setattr",
        )
        to = ctypes.c_char_p(os.fsencode(target))
        _checked(_libc.syscall(_SYS_MOVE_MOUNT, tree, ctypes.c_char_p(b""), -100, to, ctypes.c_uint(4)), "move_mount")
    finally:
        os.close(tree)


def detach(target: str) -> bool:
    """Unmount, with all below it; whether that could be done."""
    return _libc.umount2(target.encode(), 2) == 0


def fork_sibling() -> int:
    """Fork a child of this process's parent: it is the parent that waits for it. 0 in the child. Raises OSError."""
    number = _SYS_CLONE.get(platform.machine())
    if number is None:
        raise OSError(f"sandboxes of namespaces are not known on {platform.machine()} processors")
    return _checked(_libc.syscall(number, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0), "clone")


def die_with_parent() -> None:
    """Be killed when the parent ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")


def dumpable(yes: bool) -> None:
    """Whether other processes of the same user may look into this one; it also decides who owns its /proc entry."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, int(yes), 0, 0, 0), "prctl")


def drop_capabilities() -> None:
    """Lose every capability. With `no_new_privileges`, no program gets one back: the bounding set is left as it is, for
    to empty it takes forty calls and changes nothing then."""
    _checked(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl")
    empty = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(_Header(0x20080522, 0)), empty), "capset")


def no_new_privileges() -> None:
    """From here on no program gains anything by being set-user-id."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def install_filter(program: bytes) -> None:
    """Install a seccomp filter (BPF instructions of 8 bytes) for this process and its children. Raises OSError."""
    found = _Program(len(program) // 8, program)
    _checked(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(found), 0, 0), "seccomp")
