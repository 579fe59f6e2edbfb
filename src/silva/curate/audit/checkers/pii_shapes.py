"""Personal data by shape: what identifies or reaches a person, with the check digits that real ones have.

    text ─▶ pattern ─▶ check digits, context, placeholders ─▶ Identifier, span, strength

A name is no finding by itself: names are everywhere. It is one where it stands beside an identifier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Identifier(NamedTuple):
    """Personal data in a text; `strong`: it identifies or reaches one person."""

    name: str
    start: int
    stop: int
    strength: float


class _Shape(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    holds: Callable[[str], bool]
    context: re.Pattern[str] | None
    strength: float
    hints: tuple[str, ...]


_RUN = re.compile(r"\d[\d \-]{7,}\d")
_LONG_NUMBERS = frozenset({"payment card", "Chinese identity number", "social security number", "Aadhaar number"})
"""Shapes that a text without a run of nine digits, spaces and hyphens cannot hold."""
_HINTS = {
    "e-mail address": "@",
    "passport number": "passport",
    "driving licence": "driv",
    "medical record number": "mrn|medical|patient|insurance|nhs",
    "bank account": "account|acct|routing|sort code|bank",
    "tax number": "tax|tin|steuer|vat|sin",
    "date of birth": "dob|d.o.b|birth|born",
    "IP address": " ip",
}
"""What a text holds that holds such a shape, in small letters: looked for first, being cheap."""
_BEFORE = 60
"""Characters before a number in which its context is looked for."""


def identifiers_in(text: str) -> Iterator[Identifier]:
    """The personal data of a text, in its order, names beside an identifier behind it."""
    found: list[Identifier] = []
    digits = any(letter.isdigit() for letter in text)
    run, lower = _RUN.search(text) is not None, text.lower()
    for shape in SHAPES:
        if not digits and shape.name != "e-mail address":
            continue
        if shape.name in _LONG_NUMBERS and not run:
            continue
        if shape.hints and not any(hint in lower for hint in shape.hints):
            continue
        for match in shape.pattern.finditer(text):
            start, stop = match.span(1 if shape.pattern.groups else 0)
            if any(start < each.stop and each.start < stop for each in found) or not shape.holds(text[start:stop]):
                continue
            if shape.context is not None and not shape.context.search(text[max(0, start - _BEFORE) : start]):
                continue
            found.append(Identifier(shape.name, start, stop, shape.strength))
    found += list(_names(text, found))
    yield from sorted(found, key=lambda each: each.start)


def luhn(digits: str) -> bool:
    """Whether digits pass Luhn's check."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        if place % 2:
            value = value * 2 - 9 if value > 4 else value * 2
        total += value
    return total % 10 == 0


def _bare(text: str) -> str:
    return re.sub(r"\D", "", text)


def _card(text: str) -> bool:
    digits = _bare(text)
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 4:
        return False
    known = re.match(r"4|5[1-5]|2[2-7]|3[47]|3[0689]|35|6(?:011|4[4-9]|5)|62", digits)
    return bool(known) and luhn(digits)


def _iban(text: str) -> bool:
    bare = re.sub(r"[\s\-]", "", text).upper()
    if not 15 <= len(bare) <= 34 or not bare[2:4].isdigit():
        return False
    moved = bare[4:] + bare[:4]
    number = "".join(str(int(letter, 36)) for letter in moved)
    return int(number) % 97 == 1


def _ssn(text: str) -> bool:
    digits = _bare(text)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    if area in ("000", "666") or area >= "900" or group == "00" or serial == "0000":
        return False
    return digits not in ("078051120", "219099999", "123456789", "111111111")


_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def _chinese(text: str) -> bool:
    total = sum(int(digit) * weight for digit, weight in zip(text[:17], _WEIGHTS, strict=True))
    return "10X98765432"[total % 11] == text[17].upper()


def _spanish(text: str) -> bool:
    bare = re.sub(r"[\s\-]", "", text).upper()
    number = bare[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == bare[-1]


_TURN = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 5, 7, 6, 2, 8, 3, 0, 9, 4),
    (5, 8, 0, 3, 7, 9, 6, 1, 4, 2),
    (8, 9, 1, 6, 0, 4, 3, 5, 2, 7),
    (9, 4, 5, 3, 1, 2, 6, 8, 7, 0),
    (4, 2, 8, 6, 5, 7, 3, 9, 0, 1),
    (2, 7, 9, 3, 8, 0, 6, 4, 1, 5),
    (7, 0, 4, 6, 9, 1, 3, 2, 5, 8),
)


def _dihedral(a: int, b: int) -> int:
    if a < 5:
        return (a + b) % 5 if b < 5 else (a + b - 5) % 5 + 5
    return (a - b) % 5 + 5 if b < 5 else (a - b + 5) % 5


def _verhoeff(text: str) -> bool:
    check = 0
    for place, digit in enumerate(reversed(_bare(text))):
        check = _dihedral(check, _TURN[place % 8][int(digit)])
    return check == 0


def _french(text: str) -> bool:
    bare = re.sub(r"\s", "", text).upper().replace("2A", "19").replace("2B", "18")
    return bare.isdigit() and len(bare) == 15 and 97 - int(bare[:13]) % 97 == int(bare[13:])


def _phone(text: str) -> bool:
    digits = _bare(text)
    if not 7 <= len(digits) <= 15 or len(set(digits)) < 3 or digits in "0123456789012345":
        return False
    local = digits[-10:]
    return not (len(local) == 10 and local[3:8] == "55501")  # 555-01xx is kept for fiction


_EXAMPLES = re.compile(
    r"@(?:[\w.-]*\.)?(?:example|test|invalid|localhost|domain|yourdomain|mydomain|acme|foo|bar|email)\b|"
    r"^(?:no-?reply|do-?not-?reply|info|support|admin|contact|sales|help|hello|git|user(?:name)?|you|your\.?\w*|name|"
    r"email|someone|somebody|foo|bar|test|example|webmaster|postmaster|abuse|security)@",
    re.IGNORECASE,
)


def _email(text: str) -> bool:
    ending = text.rsplit(".", 1)[-1].lower()
    return not _EXAMPLES.search(text) and ending not in ("png", "jpg", "jpeg", "gif", "svg", "js", "css", "py", "local")


def _always(_: str) -> bool:
    return True


def _shape(
    name: str, pattern: str, holds: Callable[[str], bool] = _always, context: str = "", strength: float = 0.9
) -> _Shape:
    hints = tuple(_HINTS[name].split("|")) if name in _HINTS else ()
    bound = re.compile(context, re.IGNORECASE) if context else None
    return _Shape(name, re.compile(pattern), holds, bound, strength, hints)


_NOT_IN = r"(?<![\w.\-/#$=])"
_STREET = (
    r"(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Square|Sq|Terrace|Ter|Way|"
    r"Parkway|Pkwy|Circle|Cir|Highway|Hwy|Trail|Crescent|Close)"
)

SHAPES: tuple[_Shape, ...] = (
    _shape(
        "e-mail address",
        r"(?<![\w.+%/:@-])[A-Za-z0-9][\w.+%-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}\b",
        _email,
    ),
    _shape("IBAN", r"\b[A-Z]{2}\d{2}(?:[ \-]?[A-Z0-9]{4}){2,7}(?:[ \-]?[A-Z0-9]{1,4})?\b", _iban, strength=1.0),
    _shape("payment card", r"(?<![\w.\-])\d(?:[ \-]?\d){12,18}(?![\w\-])", _card, strength=1.0),
    _shape(
        "payment card",
        r"(?<![\w.\-])(\d(?:[ \-]?\d){11,18})(?![\w\-])",
        _always,
        r"\b(?:credit|debit|card|visa|mastercard|amex|maestro)\b[^.\n]{0,40}$",
        0.85,
    ),
    _shape(
        "Chinese identity number",
        r"(?<!\d)[1-6]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?![\dA-Za-z])",
        _chinese,
        strength=1.0,
    ),
    _shape("social security number", _NOT_IN + r"\d{3}-\d{2}-\d{4}(?![\w-])", _ssn),
    _shape(
        "social security number",
        _NOT_IN + r"(\d{3}[ -]?\d{2}[ -]?\d{4})(?![\w-])",
        _ssn,
        r"\b(?:ssn|social security)\b[^.\n]{0,40}$",
        0.95,
    ),
    _shape("Spanish identity number", r"\b(?:\d{8}|[XYZ]\d{7})-?[A-HJ-NP-TV-Z]\b", _spanish, strength=0.95),
    _shape(
        "French social number",
        r"(?<!\d)[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}(?!\d)",
        _french,
        strength=1.0,
    ),
    _shape(
        "national insurance number",
        r"\b(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b",
    ),
    _shape("Aadhaar number", r"(?<![\w-])[2-9]\d{3} \d{4} \d{4}(?![\w-])", _verhoeff),
    _shape("Aadhaar number", r"(?<!\d)([2-9]\d{11})(?!\d)", _verhoeff, r"\baadhaar\b"),
    _shape(
        "medical record number",
        r"\b([A-Z]{0,3}-?\d{6,12})\b",
        _always,
        r"\b(?:mrn|medical record|patient id|health insurance|nhs)\b[^.\n]{0,20}$",
    ),
    _shape("passport number", r"\b([A-Z]{1,2}\d{6,8}|\d{9})\b", _always, r"\bpassport\b[^.\n]{0,40}$"),
    _shape(
        "driving licence",
        r"\b([A-Z]{1,3}[\d-]{6,14}|\d{7,9})\b",
        _always,
        r"\bdriv(?:er'?s?|ing)[ -]licen[cs]e\b[^.\n]{0,30}$",
    ),
    _shape(
        "bank account",
        r"\b(\d{7,17})\b",
        _always,
        r"\b(?:account|acct|routing|sort code|bank)\b[^.\n]{0,12}\b(?:number|no|num|is|nr)?\b[.:# ]{0,4}$",
        0.85,
    ),
    _shape(
        "tax number",
        r"\b(\d{2,3}[- /]?\d{2,4}[- /]?\d{3,5})\b",
        _always,
        r"\b(?:tax (?:id|number)|tin|itin|steuer-?id|vat id|sin)\b[^.\n]{0,20}$",
        0.85,
    ),
    _shape(
        "phone number",
        r"(?<![\w.@/=\-])\+\d{1,3}[ .\-]?(?:\(\d{1,4}\)[ .\-]?)?\d{1,4}(?:[ .\-]?\d{2,5}){1,4}(?![\w])",
        _phone,
    ),
    _shape(
        "phone number",
        r"(?<![\w.@/=\-])(?:1[ .\-])?\(?[2-9]\d{2}\)?[ .\-]{1,2}[2-9]\d{2}[ .\-]\d{4}"
        r"(?:\s?(?:x|ext\.?)\s?\d{1,5})?(?![\w\-])",
        _phone,
    ),
    _shape(
        "phone number", r"(?<![\d.])1[3-9]\d{9}(?!\d)", _phone, r"(?:电话|手机|联系|phone|mobile|tel|call)[^.\n]{0,20}$"
    ),
    _shape(
        "phone number",
        r"(?<![\w.@/=])(\(?\d[\d ().\-]{6,16}\d(?:\s?(?:x|ext\.?)\s?\d{1,5})?)(?!\w)",
        _phone,
        r"\b(?:phone|tel(?:ephone)?|mobile|cell|fax|call|text|whatsapp|reach|number is|contact)\b[^.\n]{0,30}$",
        0.85,
    ),
    _shape(
        "date of birth",
        r"\b(\d{1,4}[-/. ]\d{1,2}[-/. ]\d{1,4}|\d{1,2}(?:st|nd|rd|th)?(?: of)? [A-Z][a-z]{2,8},? \d{4}"
        r"|[A-Z][a-z]{2,8} \d{1,2}(?:st|nd|rd|th)?,? \d{4})\b",
        _always,
        r"\b(?:dob|d\.o\.b|date of birth|born(?: on)?|birth ?da(?:y|te))\b[^.\n]{0,20}$",
        0.85,
    ),
    _shape(
        "postal address",
        r"\b\d{1,5}[A-Za-z]?,? (?:[NSEW]\.? )?(?:[A-Z][\w'.-]*,? ){1,4}"
        + _STREET
        + r"\b\.?(?:,? (?:Apt|Apartment|Suite|Ste|Unit|Floor|#)\.? ?\w{1,6})?"
        r"(?:[,\n ]{1,3}[A-Z][\w'. -]{1,30})?(?:[,\n ]{1,3}[A-Z]{2}\.?,? \d{5}(?:-\d{4})?)?",
    ),
    _shape(
        "postal address",
        r"\b\d{1,5} [A-Z][\w'.-]*(?: [\w'.-]+){0,4}[,\n ]{1,3}"
        r"(?:[A-Z][\w'.-]*[ ,\n]{1,3}){1,4}[A-Z]{2}\.?,? \d{5}(?:-\d{4})?\b",
    ),
    _shape("postal address", r"\b(?:P\.?O\.? Box) \d{1,6}\b", strength=0.8),
    _shape(
        "postcode",
        r"\b([A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2})\b",
        _always,
        r"\b(?:address|live|lives|postcode|street|road)\b[^\n]{0,60}$",
        0.8,
    ),
    _shape(
        "IP address",
        r"(?<![\d.v])((?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3})(?![\d.])",
        lambda text: not re.match(r"10\.|127\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|0\.|8\.8\.|1\.1\.1|255\.", text),
        r"\b(?:my|his|her|their|user(?:'s)?|client|customer|personal|home) ip\b[^.\n]{0,30}$",
        0.8,
    ),
)
"""The shapes, the most certain first."""

_NAME = re.compile(
    r"\b(?:(?:Mr|Mrs|Ms|Dr|Prof)\.? )?[A-Z][a-z'’]{1,15}(?: [A-Z]\.)?(?: (?:van|von|de|der|da|del|bin|al))?"
    r" [A-Z][A-Za-z'’-]{1,20}\b"
)
_NAMED = re.compile(
    r"\b(?:name(?:d| is|:)?|i am|i'm|mr|mrs|ms|dr|dear|contact|from|to|patient|employee|customer)\b", re.I
)
_NOT_A_NAME = re.compile(
    r"\b(?:The|This|That|Please|Contact|Phone|Email|Street|Avenue|Road|United|New|San|Los|Bank|Card|Social|Security|"
    r"Number|Account|Address|Date|Call|Dear|Hello|January|February|March|April|May|June|July|August|September|October|"
    r"November|December|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b"
)
_NEAR = 80
"""Characters between a name and the identifier beside it."""


def _names(text: str, found: list[Identifier]) -> Iterator[Identifier]:
    strong = [each for each in found if each.strength >= 0.85]
    if not strong:
        return
    for match in _NAME.finditer(text):
        start, stop = match.span()
        if any(start < each.stop and each.start < stop for each in found) or _NOT_A_NAME.search(match.group()):
            continue
        beside = any(-_NEAR <= each.start - stop <= _NEAR or -_NEAR <= start - each.stop <= _NEAR for each in strong)
        if beside and _NAMED.search(text[max(0, start - 30) : start]):
            yield Identifier("name beside an identifier", start, stop, 0.85)
