"""How glibc sets memory aside. By itself it keeps up to eight arenas for each core, one to a thread or a few, and hands
back little of what was free in any of them: a server whose threads (Lance has some forty) each hold a large result now
and then keeps that room once for every arena."""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
ARENAS = 2


def share_arenas() -> None:
    """Have all threads of this process set memory aside in few arenas, from now on; call it before there are threads.
    Nothing happens where the C library has no such setting (musl, macOS)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
