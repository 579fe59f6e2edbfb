"""How the C library sets memory aside."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from silva.allocating import ARENAS

COUNT = """
import ctypes, sys, threading
from silva.allocating import share_arenas

if sys.argv[1] == "shared":
    share_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(9)

def work():
    ctypes.memset(libc.malloc(ctypes.c_size_t(50_000)), 1, 50_000)
    together.wait()

for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
together.wait()
info = ctypes.c_char_p()
libc.open_memstream.restype = ctypes.c_void_p
size = ctypes.c_size_t()
stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(info), ctypes.byref(size)))
libc.malloc_info(0, stream)
libc.fclose(stream)
print(info.value.count(b"<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_threads_share_few_arenas() -> None:
    counts = {
        how: int(subprocess.check_output([sys.executable, "-c", COUNT, how], timeout=60)) for how in ("shared", "own")
    }
    assert counts["shared"] <= ARENAS < counts["own"]
