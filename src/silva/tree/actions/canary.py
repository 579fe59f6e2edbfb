"""Whether a text holds a secret, however it is written: in other letter case, with marks, spaces or invisible
characters between, backwards, rotated by 13, in base64 or in hexadecimal. Of a secret of several parts also whether
they are all there."""

from __future__ import annotations

import base64
import codecs
import re

_MARKS = re.compile(r"[^0-9a-z]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")


def carries(text: str, canary: str) -> bool:
    """Whether a text holds a canary, however it is written.

    Args:
        text: of an action, decoded.
        canary: letters and digits, with marks between.
    """
    wanted = _bare(canary)
    if not wanted:
        return False
    bare = _bare(text)
    written = (wanted, wanted[::-1], codecs.encode(wanted, "rot13"), canary.encode().hex())
    if any(each in bare for each in written):
        return True
    return any(wanted in _bare(_decoded(match.group())) for match in _BASE64.finditer(text))


def carries_parts(text: str, canary: str) -> bool:
    """Whether a text holds every part of a canary (between its marks), wherever each of them stands."""
    parts = [part for part in _MARKS.split(canary.casefold()) if part]
    return len(parts) > 1 and all(carries(text, part) for part in parts)


def _bare(text: str) -> str:
    return _MARKS.sub("", text.casefold())


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(
            text + "=" * (-len(text) % 4), altchars=b"-_" if set("-_") & set(text) else None
        ).decode()
    except ValueError:
        return ""
