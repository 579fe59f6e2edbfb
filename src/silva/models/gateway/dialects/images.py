"""Pictures sent inline: base64 to (ImagePart, bytes), checked.

data:image/png;base64,iVBOR…   ─▶ of_url    ─┐
                                              ├▶ ImagePart(hash, media type) + its bytes in `images`
{media_type, data} of a source ─▶ of_base64 ─┘
"""

from __future__ import annotations

import binascii
import hashlib

from silva.models.gateway.dialects.dialect import Malformed
from silva.tree import ImagePart

Images = dict[str, tuple[str, bytes]]
"""Content hash to (media type, bytes)."""

LARGEST = 20 << 20
"""Bytes one picture may have."""

TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_SAME = {"image/jpg": "image/jpeg"}


def of_url(url: str, field: str, images: Images) -> ImagePart:
    """The picture of a `data:` URL; its bytes are added to `images`.

    Raises:
        Malformed: another kind of URL, or one that does not hold a picture.
    """
    if not url.startswith("data:"):
        raise Malformed("the gateway fetches nothing: send the picture as a data: URL (data:image/png;base64,…)", field)
    head, comma, data = url[5:].partition(",")
    media_type, *parameters = head.split(";", 8)
    if not comma or not parameters or parameters[-1] != "base64":
        raise Malformed("a data: URL must be written data:image/png;base64,…", field)
    return of_base64(media_type, data, field, images)


def of_base64(media_type: str, data: str, field: str, images: Images) -> ImagePart:
    """The picture that `data` holds; its bytes are added to `images`.

    Raises:
        Malformed: a media type that is not known, not base64, empty, or too large.
    """
    media_type = media_type.strip().lower()
    media_type = _SAME.get(media_type, media_type)
    if media_type not in TYPES:
        raise Malformed(f"media type {media_type[:40]!r} is not supported (known: {', '.join(TYPES)})", field)
    if len(data) > LARGEST // 3 * 4 + 4:
        raise Malformed(f"the picture is larger than {LARGEST >> 20} MB", field)
    try:
        found = binascii.a2b_base64(data, strict_mode=True)
    except ValueError as fault:  # binascii.Error, or characters beyond ASCII
        raise Malformed(f"the picture is not base64 ({fault})", field) from fault
    if not found:
        raise Malformed("the picture is empty", field)
    name = hashlib.sha256(found).hexdigest()
    images[name] = (media_type, found)
    return ImagePart(hash=name, media_type=media_type)
