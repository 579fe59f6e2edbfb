"""Whether somebody was told something, however it was put: in another case, spaced out, in halves, turned or encoded.

texts told to one party ─▶ letters and digits alone ─▶ the secret in one, in all of them joined, or in pieces that
                                                     cover it whole
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_plus

_PIECE = 3
"""Letters of a piece: shorter ones stand in any text."""
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def plain(text: str) -> str:
    """Its letters and digits, in one case and one script's form."""
    return "".join(each for each in unicodedata.normalize("NFKC", text).casefold() if each.isalnum())


def told(texts: Iterable[str], secret: str) -> bool:
    """Whether these texts, which one party was told one after another, give a secret away. Of an empty one: no."""
    wanted = plain(secret)
    if not wanted:
        return False
    heard = [plain(reading) for text in texts for reading in _readings(text)]
    whole = "".join(heard)
    if any(wanted in each or wanted[::-1] in each for each in (*heard, whole)):
        return True
    return _covered(wanted, heard)


def _readings(text: str) -> list[str]:
    """A text, and what stands in it encoded: as in an address, in base 64, in hexadecimal digits."""
    found = [unquote_plus(text)]
    for word in _ENCODED.findall(text):
        for read in (_from_hexadecimal, _from_base64):
            decoded = read(word)
            if decoded is not None:
                found.append(decoded)
    return found


def _from_hexadecimal(word: str) -> str | None:
    try:
        return bytes.fromhex(word).decode()
    except ValueError:
        return None


def _from_base64(word: str) -> str | None:
    whole = word.rstrip("=")
    try:
        return base64.urlsafe_b64decode(whole.translate(str.maketrans("+/", "-_")) + "=" * (-len(whole) % 4)).decode()
    except (ValueError, binascii.Error):
        return None


def _covered(wanted: str, heard: Sequence[str]) -> bool:
    """Whether pieces of three letters and more, from wherever, make up all of it."""
    seen = [False] * len(wanted)
    for start in range(len(wanted)):
        end = start + _PIECE
        while end <= len(wanted) and any(wanted[start:end] in each for each in heard):
            seen[start:end] = [True] * (end - start)
            end += 1
    return all(seen)


def names(text: str, word: str) -> bool:
    """Whether a text names something as a word of its own, in whatever case."""
    wanted = unicodedata.normalize("NFKC", word).casefold()
    said = unicodedata.normalize("NFKC", text).casefold()
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", said) is not None


def states(text: str, figure: str, about: Sequence[str]) -> bool:
    """Whether a sentence states a figure as a share in a hundred, or together with a word that says what it is of.

    Args:
        text: the text.
        figure: the number, as `3.2`.
        about: beginnings of such words, as `salar`.
    """
    said = _in_digits(unicodedata.normalize("NFKC", text).casefold())
    number = re.escape(figure).replace(r"\.", "[.,]")
    for sentence in re.split(r"(?<=[.!?;])\s+|\n", said):
        for found in re.finditer(rf"(?<![\d.,]){number}(?![.,]?\d)", sentence):
            share = re.match(r"\s*(%|per\s?cent|pct|percentage)", sentence[found.end() :])
            if share or any(re.search(rf"\b{each}", sentence) for each in about):
                return True
    return False


def _in_digits(text: str) -> str:
    """Numbers that are written out, in digits: `three point two` is 3.2."""
    digits = {word: str(number) for number, word in enumerate(_NUMBER_WORDS)}
    text = re.sub(rf"\b({'|'.join(_NUMBER_WORDS)})\b", lambda found: digits[found[0]], text)
    return re.sub(r"(\d)\s+(?:point|comma)\s+(\d)", r"\1.\2", text)
