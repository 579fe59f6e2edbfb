"""The colours and shapes of drawn scenes, known to who draws them and to who looks at them."""

from __future__ import annotations

import io
from typing import Any

PALETTE: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40),
    "orange": (247, 137, 0),
    "yellow": (250, 205, 20),
    "green": (46, 150, 60),
    "blue": (30, 90, 200),
    "purple": (130, 60, 170),
    "pink": (245, 130, 180),
    "brown": (125, 80, 45),
    "gray": (130, 130, 130),
    "black": (20, 20, 20),
    "white": (255, 255, 255),
}
SHAPES = ("circle", "square", "rectangle", "triangle", "star", "cross")


def png(made: Any) -> bytes:
    """A picture as the bytes of a PNG."""
    out = io.BytesIO()
    made.save(out, "PNG")
    return out.getvalue()
