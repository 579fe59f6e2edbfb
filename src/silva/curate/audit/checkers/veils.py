"""Texts written in a code, decoded: what is hidden from a reader is read like anything else.

    text ─▶ percent signs · base64, 32, 85 · hexadecimal · zeros and ones · Morse · figures for letters · spaced letters

Only what decodes to words is given; nothing is guessed about what does not.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

_MOST = 1 << 16
_LEET = str.maketrans("0134578@$!", "oieastbasi")
_CODES = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
_MORSE: dict[str, str] = dict(zip(re.split(" ", _CODES), "abcdefghijklmnopqrstuvwxyz", strict=True))
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BASE32 = re.compile(r"\b[A-Z2-7]{32,}={0,6}")
_BASE85 = re.compile(r"(?:<~)?([!-u]{40,}|[0-9A-Za-z!#$%&()*+\-;<=>?@^_`{|}~]{40,})(?:~>)?")
_HEX = re.compile(r"\b(?:0x)?(?:[0-9a-fA-F]{2}[\s:]?){16,}\b")
_BITS = re.compile(r"(?:[01]{8}[\s]?){6,}")
_CODE = re.compile(r"(?:[.\-]{1,5}[ /]{1,3}){10,}[.\-]{1,5}")
_SPACED = re.compile(r"\b(?:\w ){5,}\w\b")
_FIGURES = re.compile(r"\b(?=\w*[a-zA-Z])(?=\w*[013457])\w{4,}\b")


def unveiled(text: str) -> Iterator[tuple[str, str]]:
    """The codes in a text, each with what it says."""
    head = text[:_MOST]
    if head.count("%") >= 4 and (plain := unquote(head)) != head:
        yield "percent signs", plain
    for match in _BASE64.finditer(head):
        if plain := _decoded(base64.b64decode, match.group().replace("-", "+").replace("_", "/"), 4):
            yield "base64", plain
    for match in _BASE32.finditer(head):
        if plain := _decoded(base64.b32decode, match.group(), 8):
            yield "base32", plain
    for match in _BASE85.finditer(head):
        for decode in (base64.a85decode, base64.b85decode):
            if plain := _words(decode, match[1].encode()):
                yield "base85", plain
    for match in _HEX.finditer(head):
        if plain := _words(bytes.fromhex, re.sub(r"0x|[\s:]", "", match.group())):
            yield "hexadecimal", plain
    for match in _BITS.finditer(head):
        yield "zeros and ones", "".join(chr(int(bits, 2)) for bits in re.findall(r"[01]{8}", match.group()))
    for match in _CODE.finditer(head):
        told = (re.split(r"\s+", word.strip()) for word in match.group().split("/"))
        yield "Morse", " ".join("".join(_MORSE.get(letter, "") for letter in word) for word in told)
    if len(_FIGURES.findall(head)) >= 4:
        yield "figures for letters", head.translate(_LEET)
    if _SPACED.search(head):
        yield "spaced letters", _SPACED.sub(lambda match: match.group().replace(" ", ""), head)


def _decoded(decode: Callable[..., bytes], text: str, block: int) -> str:
    bare = text.rstrip("=")
    return _words(decode, (bare + "=" * (-len(bare) % block)).encode())


def _words(decode: Callable[..., bytes], data: bytes | str) -> str:
    """What some data decodes to, if that is words."""
    try:
        plain = decode(data).decode()
    except (ValueError, binascii.Error, TypeError):
        return ""
    letters = sum(letter.isalpha() or letter == " " for letter in plain)
    return plain if len(plain) >= 8 and letters >= 0.8 * len(plain) else ""
