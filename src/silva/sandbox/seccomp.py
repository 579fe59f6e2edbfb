"""The seccomp filter of a sandbox: which of the kernel's calls its programs do not get.

    names ─▶ numbers of this processor ─▶ BPF instructions ─▶ bubblewrap (process 1) and fork server (all others)

It lets through what it does not name, as container engines' filters do in spirit: programs keep working, and what only
serves to leave a sandbox, or reaches parts of the kernel with a history of holes, answers EPERM. `clone3` answers
ENOSYS, because a filter cannot read its flags; the C library then takes `clone`, whose flags it can. Calls made for
another processor's table (32-bit, x32) kill the process.

Checked against Linux's `syscall_64.tbl` and `asm-generic/unistd.h`.
"""

from __future__ import annotations

import errno
import platform
import struct

from silva.errors import MissingError

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4
_NAMESPACES = 0x7E020000
"""Every CLONE_NEW* flag."""
_FAMILIES = (1, 2, 10, 16)
"""Sockets that may be made: unix, IPv4, IPv6, netlink. Not vsock, which no network namespace holds back."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

# name: number on x86_64, number on aarch64 (-1: has none)
_REFUSED: dict[str, tuple[int, int]] = {
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # keys, programs in the kernel, its tracing and its modules
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    # the machine
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "acct": (163, 89),
    "vhangup": (153, 58),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "modify_ldt": (154, -1),
    "_sysctl": (156, -1),
    "uselib": (134, -1),
    "ustat": (136, -1),
    "sysfs": (139, -1),
}
_CLONE, _CLONE3, _SOCKET, _IOCTL = (56, 220), (435, 435), (41, 198), (16, 29)
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


def refused() -> tuple[str, ...]:
    """The names of calls that are refused whatever their arguments."""
    return tuple(_REFUSED)


def filter_program(machine: str = "") -> bytes:
    """The filter as BPF instructions of 8 bytes each.

    Args:
        machine: the processor, as `platform.machine` names it; this one's when left out.

    Raises:
        MissingError: no filter is known for this processor.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise MissingError(f"no seccomp filter is known for {machine} processors; known: {', '.join(_ARCHITECTURES)}")
    architecture, column = _ARCHITECTURES[machine]
    program = [
        _load(_ARCHITECTURE),
        _jump(_JEQ, architecture, 1, 0),
        _give(_KILL),
        _load(_NUMBER),
    ]
    if machine == "x86_64":  # x32: the same processor's third table
        program += [_jump(_JGE, 0x40000000, 0, 1), _give(_KILL)]
    program += [_jump(_JEQ, _CLONE3[column], 0, 1), _give(_ERRNO | errno.ENOSYS)]
    program += _with_argument(_CLONE[column], 0, [_jump(_JSET, _NAMESPACES, 0, 1), _give(_ERRNO | errno.EPERM)])
    families = [_jump(_JEQ, family, len(_FAMILIES) - place, 0) for place, family in enumerate(_FAMILIES)]
    program += _with_argument(_SOCKET[column], 0, [*families, _give(_ERRNO | errno.EAFNOSUPPORT)])
    keys = [_jump(_JEQ, _TIOCSTI, 1, 0), _jump(_JEQ, _TIOCLINUX, 0, 1), _give(_ERRNO | errno.EPERM)]
    program += _with_argument(_IOCTL[column], 1, keys)
    for numbers in _REFUSED.values():
        if numbers[column] >= 0:
            program += [_jump(_JEQ, numbers[column], 0, 1), _give(_ERRNO | errno.EPERM)]
    return b"".join([*program, _give(_ALLOW)])


def _with_argument(number: int, argument: int, body: list[bytes]) -> list[bytes]:
    """What is asked of the low half of one argument of one call; a body that does not answer falls through to allow."""
    inner = [_load(16 + 8 * argument), *body, _give(_ALLOW)]
    return [_jump(_JEQ, number, 0, len(inner)), *inner]


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", _LD, 0, 0, offset)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _give(value: int) -> bytes:
    return struct.pack("=HBBI", _RET, 0, 0, value)
