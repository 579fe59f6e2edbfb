"""Pictures: text by OCR, and what stands in *drawn scenes*: plain shapes of the palette's colours on a light ground.

    pixels ─▶ nearest colour of the palette ─▶ connected regions ─▶ outline ─▶ {shape, colour, box}

There is no model of photographs here: `locate`, `count` and `describe_region` see what is drawn flat, and nothing else.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

from silva.envs.gyms.files.palette import PALETTE, SHAPES, png
from silva.envs.gyms.files.tools.instrument import Bench, View
from silva.errors import UsageError

MOST_PIXELS = 16_000_000
_WIDEST = 1024
_LEAST = 120  # pixels of a region that is a thing; letters and their edges are smaller
_FAR = 70.0  # a pixel further than this from every colour of the palette is of none


def image_info(bench: Bench, path: str) -> dict[str, Any]:
    """The format of a picture, its width and height in pixels."""
    made = opened(bench.folder.read(path), path)
    return {"format": made.info.get("silva_format", made.format or "PNG"), "width": made.width, "height": made.height}


def ocr(bench: Bench, path: str, box: list[int] = []) -> list[dict[str, Any]]:  # noqa: B006 - never changed
    """Read the text in a picture (or in a box [left, top, right, bottom] of it), line by line from the top: text, box
    and how sure it is. Spaces within a word group may be missing."""
    import numpy

    made = opened(bench.folder.read(path), path).convert("RGB")
    left, top = 0, 0
    if box:
        left, top, *_ = area = _inside(box, made.width, made.height)
        made = made.crop(area)
    found, _ = _reader()(numpy.asarray(made)[:, :, ::-1])
    parts: list[dict[str, Any]] = []
    for corners, text, sure in found or []:
        across, down = [float(x) + left for x, _ in corners], [float(y) + top for _, y in corners]
        edges = [int(min(across)), int(min(down)), int(max(across)), int(max(down))]
        parts.append({"text": str(text), "box": edges, "sure": round(float(sure), 2)})
    return _lines(parts)


def _lines(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts that stand side by side, as one line each."""
    lines: list[list[dict[str, Any]]] = []
    for part in sorted(parts, key=lambda each: each["box"][1] + each["box"][3]):
        middle = (part["box"][1] + part["box"][3]) / 2
        if lines and lines[-1][0]["box"][1] <= middle <= lines[-1][0]["box"][3]:
            lines[-1].append(part)
        else:
            lines.append([part])
    joined: list[dict[str, Any]] = []
    for line in lines:
        line.sort(key=lambda each: each["box"][0])
        edges = [*zip(*(each["box"] for each in line), strict=True)]
        box = [min(edges[0]), min(edges[1]), max(edges[2]), max(edges[3])]
        text = "  ".join(each["text"] for each in line)
        joined.append({"text": text, "box": box, "sure": min(each["sure"] for each in line)})
    return joined


def locate(bench: Bench, path: str, what: str = "") -> list[dict[str, Any]]:
    """Find the things in a drawn scene, from left to right: shape, colour, box [left, top, right, bottom] and area in
    pixels. `what` keeps those of a shape, a colour or both, such as "red circle"; empty: all."""
    return [each for each in things(bench.folder.read(path)) if _fits(each, what)]


def count(bench: Bench, path: str, what: str = "") -> int:
    """How many things of a shape, a colour or both ("blue square", "circle", "red") are in a drawn scene."""
    return len(locate(bench, path, what))


def describe_region(bench: Bench, path: str, box: list[int]) -> str:
    """Say in words what lies within a box [left, top, right, bottom] of a drawn scene, and the ground's colour."""
    content = bench.folder.read(path)
    made = opened(content, path)
    left, top, right, bottom = _inside(box, made.width, made.height)
    seen = [
        each
        for each in things(content)
        if left <= (each["box"][0] + each["box"][2]) / 2 <= right
        and top <= (each["box"][1] + each["box"][3]) / 2 <= bottom
    ]
    words = [f"a {each['colour']} {each['shape']}" for each in seen]
    what = ", ".join(words) if words else "nothing"
    return f"{what} on {dominant_colour(bench, path, [left, top, right, bottom])['colour']}"


def dominant_colour(bench: Bench, path: str, box: list[int] = []) -> dict[str, Any]:  # noqa: B006 - never changed
    """The colour that most pixels of a picture (or of a box [left, top, right, bottom] of it) have: its nearest name,
    red, green and blue, and its share."""
    import numpy

    made = opened(bench.folder.read(path), path).convert("RGB")
    if box:
        made = made.crop(_inside(box, made.width, made.height))
    pixels = numpy.asarray(made).reshape(-1, 3)
    colours, counts = numpy.unique(pixels, axis=0, return_counts=True)
    best = colours[counts.argmax()]
    names = list(PALETTE)
    near = ((numpy.array([PALETTE[name] for name in names]) - best.astype(float)) ** 2).sum(axis=1).argmin()
    share = float(counts.max()) / len(pixels)
    return {"colour": names[int(near)], "rgb": [int(part) for part in best], "share": round(share, 3)}


def view_image(bench: Bench, path: str, box: list[int] = []) -> str:  # noqa: B006 - never changed
    """Look at a picture yourself (or at a box [left, top, right, bottom] of it): it is shown to you, at most 1,024
    pixels wide or high."""
    made = opened(bench.folder.read(path), path).convert("RGB")
    if box:
        made = made.crop(_inside(box, made.width, made.height))
    whole = f"{made.width} x {made.height}"
    made.thumbnail((_WIDEST, _WIDEST))
    bench.views.append(View(png(made), made.width, made.height))
    return f"{path}, {whole} pixels"


def crop(bench: Bench, path: str, box: list[int], to: str) -> str:
    """Cut a box [left, top, right, bottom] out of a picture into a new PNG file `to`; gives its name."""
    made = opened(bench.folder.read(path), path)
    return bench.folder.write(_png_name(to), png(made.crop(_inside(box, made.width, made.height))))


def draw_box(bench: Bench, path: str, box: list[int], to: str, colour: str = "red", text: str = "") -> str:
    """Draw a frame around a box [left, top, right, bottom] of a picture, and words above it, into a new PNG file `to`;
    gives its name."""
    from PIL import ImageDraw, ImageFont

    if colour not in PALETTE:
        raise UsageError(f"draw_box: colour {colour[:20]!r}; there are {', '.join(PALETTE)}")
    made = opened(bench.folder.read(path), path).convert("RGB")
    area = _inside(box, made.width, made.height)
    pen = ImageDraw.Draw(made)
    pen.rectangle(area, outline=PALETTE[colour], width=3)
    if text:
        pen.text((area[0], max(area[1] - 18, 0)), text[:80], fill=PALETTE[colour], font=ImageFont.load_default(14))
    return bench.folder.write(_png_name(to), png(made))


def opened(content: bytes, path: str = "the picture") -> Any:
    """The picture that some bytes hold.

    Raises:
        UsageError: they hold none, or a giant one.
    """
    from PIL import Image

    try:
        made = Image.open(io.BytesIO(content))
        if made.width * made.height > MOST_PIXELS:
            raise UsageError(f"{path} has {made.width} x {made.height} pixels; at most {MOST_PIXELS:,} are looked at")
        made.load()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be read as a picture: {' '.join(str(error).split())[:120]}") from error
    return made if made.mode in ("RGB", "RGBA", "L") else made.convert("RGB")


def things(content: bytes) -> list[dict[str, Any]]:
    """What stands in a drawn scene, from left to right, then from the top."""
    return [dict(each) for each in _things(content)]


def frames(content: bytes, colour: str) -> list[list[int]]:
    """The boxes of empty frames of a colour: regions that fill little of the box they span."""
    import cv2

    found: list[list[int]] = []
    mask = (_labels(content) == list(PALETTE).index(colour)).astype("uint8")
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    for left, top, width, height, area in stats[1:].tolist():
        if width > 10 and height > 10 and area < 0.75 * width * height and area > width + height:
            found.append([left, top, left + width - 1, top + height - 1])
    return found


@lru_cache(maxsize=16)
def _things(content: bytes) -> tuple[dict[str, Any], ...]:
    import cv2
    import numpy

    labels = _labels(content)
    edge = numpy.concatenate((labels[0], labels[-1], labels[:, 0], labels[:, -1]))
    ground = int(numpy.bincount(edge[edge >= 0]).argmax()) if (edge >= 0).any() else -1
    found: list[dict[str, Any]] = []
    for index, colour in enumerate(PALETTE):
        if index == ground:
            continue
        mask = (labels == index).astype("uint8")
        count, regions, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        for number in range(1, count):
            left, top, width, height, area = (int(part) for part in stats[number])
            if area < _LEAST or min(width, height) < 10:
                continue
            region = (regions[top : top + height, left : left + width] == number).astype("uint8")
            shape = _shape(region, width, height, area)
            box = [left, top, left + width, top + height]
            found.append({"shape": shape, "colour": colour, "box": box, "area": area})
    return tuple(sorted(found, key=lambda each: (each["box"][0], each["box"][1])))


def _labels(content: bytes) -> Any:
    """For every pixel the palette's nearest colour by its place in it, -1 where none is near."""
    import numpy

    pixels = numpy.asarray(opened(content).convert("RGB")).astype(numpy.int32)
    best = numpy.full(pixels.shape[:2], -1)
    least = numpy.full(pixels.shape[:2], _FAR**2)
    for index, colour in enumerate(PALETTE.values()):
        far = ((pixels - numpy.array(colour)) ** 2).sum(axis=2)
        nearer = far < least
        best[nearer], least[nearer] = index, far[nearer]
    return best


def _shape(region: Any, width: int, height: int, area: int) -> str:
    """What an outline is, by how much of its hull and of its box it fills."""
    import cv2

    outlines, _ = cv2.findContours(region, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline = max(outlines, key=cv2.contourArea)
    hull = cv2.convexHull(outline)
    solid = cv2.contourArea(outline) / max(cv2.contourArea(hull), 1.0)
    corners = len(cv2.approxPolyDP(hull, 0.05 * cv2.arcLength(hull, True), True))
    if solid < 0.85:
        return "star" if area / (width * height) < 0.42 else "cross"
    if corners == 3:
        return "triangle"
    if area > 0.92 * width * height:
        return "square" if 0.9 < width / height < 1.1 else "rectangle"
    return "circle"


def _fits(each: dict[str, Any], what: str) -> bool:
    words = [word.rstrip("s") if word.rstrip("s") in SHAPES else word for word in what.casefold().split()]
    words = ["cross" if word in ("cros", "crosse", "crosses") else word for word in words if word not in ("a", "the")]
    for word in words:
        if word not in PALETTE and word not in SHAPES:
            raise UsageError(f"what {what[:40]!r}: shapes are {', '.join(SHAPES)}; colours are {', '.join(PALETTE)}")
    return all(word in (each["shape"], each["colour"]) for word in words)


def _inside(box: list[int], width: int, height: int) -> tuple[int, int, int, int]:
    if len(box) != 4:
        raise UsageError(f"box {box}: four numbers: left, top, right, bottom")
    left, top, right, bottom = (int(part) for part in box)
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise UsageError(f"box {box}: it must lie within the picture, which is {width} x {height}")
    return left, top, right, bottom


def _png_name(to: str) -> str:
    if not to.lower().endswith(".png"):
        raise UsageError(f"to {to[:40]!r}: the new file is a PNG, such as part.png")
    return to


@lru_cache(maxsize=1)
def _reader() -> Any:
    try:
        from rapidocr_onnxruntime import RapidOCR
    except ImportError as error:
        raise UsageError(f"ocr cannot be had: {error}: run `silva envs install files`") from error
    return RapidOCR()
