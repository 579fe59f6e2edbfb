"""Images in files: a record names an image by the hash of its bytes, a file by a path, an address or the bytes.

    ImagePart ─▶ `images/<sha256>.png`          path, address or data: URI ─▶ (the caller's loader) ─▶ ImagePart + bytes

Formats do no I/O. The caller who exports gives the blobs to a format that carries pictures inside, and writes the
others to those paths beside the file; the caller who imports passes a loader that gives the bytes of a path.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from silva.tree.message import ImagePart

Loader: TypeAlias = Callable[[str], bytes | None]
"""Gives the bytes of an image a file refers to, or None where there is nothing at that path."""

_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_TYPES = {ending: media for media, ending in _ENDINGS.items()} | {"jpeg": "image/jpeg"}
_OWN = re.compile(r"(?:.*/)?images/(?P<hash>[0-9a-f]{64})\.(?P<ending>\w+)")
_MEDIA = re.compile(r"[\w.+/-]+")
_DATA = re.compile(r"data:(?P<media>[\w.+/-]+);base64,(?P<data>.*)", re.DOTALL)


def reference(image: ImagePart) -> str:
    """The path, beside the exported file, at which the image's bytes belong."""
    return f"images/{image.hash}.{_ENDINGS.get(image.media_type, 'bin')}"


def address(image: ImagePart, blobs: Mapping[str, bytes]) -> str:
    """The image itself as a data: URI where its bytes are at hand, else the path at which they belong."""
    data = blobs.get(image.hash)
    if data is None or not _MEDIA.fullmatch(image.media_type):
        return reference(image)
    return f"data:{image.media_type};base64,{base64.b64encode(data).decode()}"


def resolve(
    path: str, load: Loader | None, media_type: str | None = None, width: int | None = None, height: int | None = None
) -> tuple[ImagePart, bytes | None]:
    """The image a file refers to, and its bytes where they could be had.

    Raises:
        ValueError: the bytes are not there and the path does not say their hash.
    """
    if found := _DATA.fullmatch(path):
        try:
            data = base64.b64decode(found["data"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"image is not base64 ({error})") from error
        media = found["media"]
    else:
        data = load(path) if load is not None else None
        own = _OWN.fullmatch(path)
        if own is not None and (data is None or hashlib.sha256(data).hexdigest() == own["hash"]):
            media = media_type or _TYPES.get(own["ending"], "image/png")
            return ImagePart(hash=own["hash"], media_type=media, width=width, height=height), data
        if data is None:
            raise ValueError(f"image {path[:80]!r} is not there: put the file beside, or embed it as a data: URI")
        media = _TYPES.get(path.rpartition(".")[2].lower(), "image/png")
    name = hashlib.sha256(data).hexdigest()
    return ImagePart(hash=name, media_type=media_type or media, width=width, height=height), data
