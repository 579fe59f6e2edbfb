"""Text as a person must see it before they approve it: nothing in it turns, hides or erases what stands beside it."""

from __future__ import annotations

import unicodedata

_KEPT = "\n\t"


def visible(text: str) -> str:
    """The text with every character that has no look of its own written as `<U+202E>`.

    These are control characters (but for line ends and tabs), bidirectional marks and overrides, joiners and blanks of
    no width, tags, variation selectors, private and unassigned ones, lone surrogates, and line ends that only some
    programs see.
    """
    return "".join(map(_shown, text)) if not text.isascii() or not text.isprintable() else text


def _shown(one: str) -> str:
    if one in _KEPT or (one.isascii() and one.isprintable()):
        return one
    hidden = unicodedata.category(one) in ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")
    blank = (
        hidden
        or "\ufe00" <= one <= "\ufe0f"
        or "\U000e0100" <= one <= "\U000e01ef"
        or one in "\u034f\u115f\u1160\u3164"
    )
    return f"<U+{ord(one):04X}>" if blank else one
