"""Words that are read piece by piece: what has been read is blanked, so that no two readers take the same words."""

from __future__ import annotations

import re

_NUMBERS = {
    "a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, 
    "ten": 10,
    "eleven": 11, "twelve": 12, "a dozen": 12, "dozen": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40,
    "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "a hundred": 100, "hundred": 100,
    "one hundred": 100, "two hundred": 200, "five hundred": 500, "a thousand": 1000, "one thousand": 1000,
    "thousand": 1000, "two thousand": 2000, "ten thousand": 10_000, "half": 0.5, "twice": 2,
    "twice as": 2, "double": 2, "triple": 3,
}  # fmt: skip
NUMBER = (
    r"(?:\d[\d,_]*(?:\.\d+)?\s?(?:k|m)?(?![\w.])|\d+(?:\.\d+)?|"
    + "|".join(sorted((re.escape(each) for each in _NUMBERS if each not in ("a", "half")), key=len, reverse=True))
    + ")"
)
"""A number as people write it: 200, 10,000, 5k, 0.5, twenty, a hundred."""


class Words:
    """An intent that is being read.

    Args:
        text: as it was said.
    """

    def __init__(self, text: str) -> None:
        self.said = text
        self.left = text
        self.at = (0, 0)
        """Where `take` found what it last took."""

    def take(self, pattern: str, *, flags: int = re.IGNORECASE) -> re.Match[str] | None:
        """The first match in what is left; it is blanked."""
        found = re.search(pattern, self.left, flags)
        if found is not None:
            self.at = found.span()
            self.blank(*found.span())
        return found

    def all(self, pattern: str) -> list[re.Match[str]]:
        """All matches in what is left; they are blanked."""
        found = list(re.finditer(pattern, self.left, re.IGNORECASE))
        for each in found:
            self.blank(*each.span())
        return found

    def blank(self, start: int, stop: int) -> None:
        """Take a stretch as read."""
        self.left = self.left[:start] + " " * (stop - start) + self.left[stop:]


def number(text: str) -> float:
    """What a number says. Raises ValueError."""
    plain = text.strip().lower()
    if plain in _NUMBERS:
        return float(_NUMBERS[plain])
    plain = plain.replace(",", "").replace("_", "").replace(" ", "")
    for letter, times in (("k", 1_000), ("m", 1_000_000)):
        if plain.endswith(letter):
            return float(plain[:-1]) * times
    return float(plain)


def whole(text: str) -> int:
    """A number that counts things. Raises ValueError."""
    return int(number(text))
