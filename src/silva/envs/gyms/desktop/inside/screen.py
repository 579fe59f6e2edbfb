"""The screen: pictures of it, and waiting until it stands still."""

from __future__ import annotations

import struct
import time
import zlib

import mss
from PIL import Image

try:
    from isal import isal_zlib as deflate  # ten times zlib's speed, and smaller
except ImportError:  # it is compiled, for the Python of the environment, and this is Debian's
    deflate = zlib

_BETWEEN = 0.06
"""Seconds between two looks at whether something changes: each takes the whole screen."""


class Screen:
    """The X screen of this process's DISPLAY."""

    def __init__(self) -> None:
        self._mss = mss.mss(backend="xlib")  # its xcb ones do not know the visuals of Xtigervnc
        self._whole = self._mss.monitors[0]
        self._made: tuple[int, bytearray, tuple[bytes, int, int]] | None = None

    def picture(self, every: int = 1) -> tuple[bytes, int, int]:
        """The screen as PNG, with its width and height; `every`: 2 for half its size both ways, 3 for a third, …"""
        shot = self._mss.grab(self._whole)
        if self._made is None or self._made[0] != every or self._made[1] != shot.raw:
            pixels = Image.frombuffer("RGB", shot.size, bytes(shot.raw), "raw", "BGRX", 0, 1)
            if every > 1:
                pixels = pixels.reduce(every)
            self._made = every, shot.raw, (png(pixels), pixels.width, pixels.height)
        return self._made[2]

    def settle(self, still: float, most: float) -> float:
        """Wait until it has not changed for `still` seconds, `most` seconds at most; returns how long that took."""
        began = changed = time.monotonic()
        before = self._mss.grab(self._whole).raw
        while (now := time.monotonic()) - changed < still and now - began < most:
            time.sleep(_BETWEEN)
            after = self._mss.grab(self._whole).raw
            if after != before:
                before, changed = after, time.monotonic()
        return time.monotonic() - began


def png(pixels: Image.Image) -> bytes:
    """An RGB image as PNG, far quicker than by PIL: rows unfiltered (a screen is flat), the least compression."""
    width, height = pixels.size
    # A row of PNG begins with its filter's number: a zero of padding after each row is the one before the next.
    rows = pixels.tobytes("raw", "RGB", width * 3 + 1)
    packing = deflate.compressobj(1)
    packed = packing.compress(b"\0") + packing.compress(memoryview(rows)[:-1]) + packing.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", packed), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
