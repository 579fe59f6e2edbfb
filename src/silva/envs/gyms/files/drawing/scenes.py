"""Pictures drawn by code: scenes of plain shapes, and signs, menus or receipts with text on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from silva.envs.gyms.files.palette import PALETTE, SHAPES, png
from silva.errors import UsageError


def scene(spec: Mapping[str, Any]) -> bytes:
    """Shapes on a ground of one colour. A thing's `at` is its middle, `size` half of its width in pixels."""
    from PIL import Image, ImageDraw

    width, height = spec["size"]
    made = Image.new("RGB", (int(width), int(height)), _colour(spec.get("ground", "white")))
    pen = ImageDraw.Draw(made)
    for each in spec["things"]:
        x, y = each["at"]
        _draw(pen, str(each["shape"]), float(x), float(y), float(each["size"]), _colour(each["colour"]))
    return png(made)


def sign(spec: Mapping[str, Any]) -> bytes:
    """Lines of text, each of one part or of two (left and right), in letters that OCR reads well."""
    from PIL import Image, ImageDraw

    lines = [[line] if isinstance(line, str) else list(line) for line in spec["lines"]]
    made = Image.new("RGB", (820, 60 + 70 * len(lines)), _colour(spec.get("ground", "white")))
    pen = ImageDraw.Draw(made)
    for number, parts in enumerate(lines):
        for part, x in zip(parts, (40, 540), strict=False):
            pen.text((x, 30 + 70 * number), str(part), fill=PALETTE["black"], font=_font())
    return png(made)


def _font() -> Any:
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", 34)


def _draw(pen: Any, shape: str, x: float, y: float, size: float, colour: tuple[int, int, int]) -> None:
    if shape == "circle":
        pen.ellipse((x - size, y - size, x + size, y + size), fill=colour)
    elif shape == "square":
        pen.rectangle((x - size, y - size, x + size, y + size), fill=colour)
    elif shape == "rectangle":
        pen.rectangle((x - size, y - size / 2, x + size, y + size / 2), fill=colour)
    elif shape == "triangle":
        pen.polygon([(x, y - size), (x - size, y + size), (x + size, y + size)], fill=colour)
    elif shape == "cross":
        pen.rectangle((x - size, y - size / 3, x + size, y + size / 3), fill=colour)
        pen.rectangle((x - size / 3, y - size, x + size / 3, y + size), fill=colour)
    elif shape == "star":
        points = [(size if corner % 2 == 0 else size * 0.42, math.pi * (corner / 5 - 0.5)) for corner in range(10)]
        pen.polygon([(x + far * math.cos(turn), y + far * math.sin(turn)) for far, turn in points], fill=colour)
    else:
        raise UsageError(f"a shape {shape[:20]!r}; there are {', '.join(SHAPES)}")


def _colour(name: Any) -> tuple[int, int, int]:
    if name not in PALETTE:
        raise UsageError(f"a colour {str(name)[:20]!r}; there are {', '.join(PALETTE)}")
    return PALETTE[name]
