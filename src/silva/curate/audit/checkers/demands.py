"""What a prompt demands that can be verified without understanding it: lengths, words, form, letter case, ends.

    prompt ─▶ patterns ─▶ Demand (what was asked, where) ─ holds(reply) ─▶ met or not

Only demands that are put plainly are read ("in exactly 3 bullet points"); what is hedged ("about 200 words") is let
be, and so is a prompt that merely quotes one. A demand that contradicts another tells nothing, so both drop out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Demand(NamedTuple):
    """A demand: its kind, the words that put it, where they stand, and whether a reply meets it."""

    kind: str
    words: str
    start: int
    stop: int
    holds: Callable[[str], bool]


_NUMBERS = {
    word: number
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
} | {"fifteen": 15, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100, "a single": 1}
_NUMBER = r"(\d{1,4}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + r")"
_EXACT = r"(?:exactly|precisely|only)"
_LEAST = r"(?:at least|no (?:less|fewer) than|a minimum of|minimum of|not (?:less|fewer) than|(?<!no )more than)"
_MOST = (
    r"(?:at most|no more than|a maximum of|maximum of|not more than|less than|fewer than|under|up to|within"
    r"|not exceed(?:ing)?|(?:do not|don't) exceed|limit(?:ed)? (?:\w+ ){0,4}to)"
)
_BOUND = rf"\b(?:(?P<least>{_LEAST})|(?P<most>{_MOST})|(?P<exact>{_EXACT})) {_NUMBER}"
_QUOTE = r"[\"“'‘`«]([^\"”'’`»\n]{1,60})[\"”'’`»]"


def words(text: str) -> int:
    """How many words a text has."""
    return len(re.findall(r"[\w'’-]*\w[\w'’-]*", text))


def sentences(text: str) -> int:
    """How many sentences a text has, as its ends of sentences tell."""
    return max(1, len(re.findall(r"[.!?](?:[\"'”’)]*)(?=\s|$)", text.strip()))) if text.strip() else 0


def paragraphs(text: str) -> int:
    """How many paragraphs a text has: parts between empty lines or lines of marks."""
    return len([part for part in re.split(r"\n\s*\n|\n\s*(?:\*{3,}|-{3,})\s*\n", text.strip()) if part.strip(" *-\n")])


def bullets(text: str) -> int:
    """How many points of a list a text has, numbered ones too."""
    return len(re.findall(r"(?m)^[ \t]*(?:[-*•–+]|\d{1,3}[.)])[ \t]+\S", text))


def _lines(text: str) -> int:
    return len([line for line in text.splitlines() if line.strip()])


_COUNTED: tuple[tuple[str, str, Callable[[str], int]], ...] = (
    ("words", r"words?\b(?! (?:each|per|in (?:each|every)|for (?:each|every)))", words),
    ("sentences", r"sentences?\b(?! (?:each|per|for each))", sentences),
    ("paragraphs", r"paragraphs?\b(?! (?:each|per))", paragraphs),
    ("bullet points", r"(?:bullet(?:ed)? ?(?:points?|items?)?|list items|numbered (?:points|items|steps))\b", bullets),
    ("lines", r"lines?\b(?! (?:each|per|of (?:code|text)))", _lines),
    ("characters", r"(?:characters|letters)\b(?! each)", len),
    (
        "highlighted parts",
        r"(?:highlighted|bold(?:ed)?|italici[sz]ed) (?:sections?|parts?|phrases?|words?|texts?)\b",
        lambda text: len(re.findall(r"\*{1,2}[^*\n]+\*{1,2}|_[^_\n]+_", text)),
    ),
    ("placeholders", r"placeholders?\b", lambda text: len(re.findall(r"\[[^\]\n]+\]", text))),
    (
        "capital words",
        r"(?:words? in (?:all )?capital(?: letter)?s|(?:all[- ])?capital(?:ized|ised)? words?)\b",
        lambda text: len(re.findall(r"\b[A-Z]{2,}\b", text)),
    ),
)
_COUNTS = tuple((name, re.compile(rf"{_BOUND} (?:\w+ ){{0,2}}?{unit}", re.I), count) for name, unit, count in _COUNTED)
_HEDGED = re.compile(
    r"\b(?:about|around|approximately|roughly|ideally|preferably|try to|if possible|e\.g\.|such as|or so"
    r")\b[^.\n,]{0,15}$",
    re.I,
)


def demands(prompt: str) -> list[Demand]:
    """The verifiable demands of a prompt."""
    found = [each for each in _all(prompt) if not _HEDGED.search(prompt[max(0, each.start - 40) : each.start])]
    kinds: dict[str, list[Demand]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
    # Two exact counts of one thing contradict each other, or speak of different parts.
    return [each for each in found if len([one for one in kinds[each.kind] if one.kind.startswith("exactly")]) < 2]


def _all(prompt: str) -> Iterator[Demand]:
    lower = prompt.lower()
    for name, pattern, count in _COUNTS:
        if not _hinted(name, lower):
            continue
        for match in pattern.finditer(prompt):
            number = _number(match[4])
            if match["least"]:
                more = match["least"].lower().endswith("more than")
                yield _demand(f"at least {name}", match, _at_least(count, number + more))
            elif match["most"]:
                fewer = match["most"].lower() in ("less than", "fewer than", "under")
                yield _demand(f"at most {name}", match, _at_most(count, number - fewer))
            else:
                yield _demand(f"exactly {name}", match, _exactly(count, number))
    for kind, pattern, of in _FORMS:
        if not _hinted(kind, lower):
            continue
        for match in pattern.finditer(prompt):
            yield _demand(kind, match, of(match))


_HINTS = {
    "words": "word",
    "sentences": "sentence",
    "paragraphs": "paragraph",
    "bullet points": "bullet|item|numbered",
    "lines": "line",
    "characters": "character|letters",
    "highlighted parts": "highlight|bold|itali",
    "placeholders": "placeholder",
    "capital words": "capital",
    "JSON": "json",
    "small letters": "lower|small letters|no capital",
    "capital letters": "capital|upper|caps",
    "no commas": "comma",
    "quoted whole": "double quot",
    "a title": "title",
    "a postscript": "post",
    "ends with": "end|finish|conclude",
    "begins with": "begin|start|open",
    "holds a word": "keyword|word|phrase|term",
    "lacks a word": "keyword|word|phrase|term",
    "a word so often": "times",
    "one word": "word",
    "yes or no": "yes",
    "one number": "number|integer|digit",
    "parted by marks": "***|---",
    "no letter": "letter",
    "a table": "table",
}
"""What a prompt holds that puts a demand of a kind, in small letters: looked for first, being cheap."""


def _hinted(kind: str, lower: str) -> bool:
    return any(hint in lower for hint in _HINTS[kind].split("|"))


def _demand(kind: str, match: re.Match[str], holds: Callable[[str], bool]) -> Demand:
    return Demand(kind, " ".join(match.group().split())[:120], match.start(), match.end(), holds)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


def _at_least(count: Callable[[str], int], number: int) -> Callable[[str], bool]:
    return lambda reply: count(reply) >= number


def _at_most(count: Callable[[str], int], number: int) -> Callable[[str], bool]:
    return lambda reply: count(reply) <= number


def _exactly(count: Callable[[str], int], number: int) -> Callable[[str], bool]:
    return lambda reply: count(reply) == number


def _holds_word(word: str) -> Callable[[str], bool]:
    pattern = re.compile(rf"(?<!\w){re.escape(word.strip())}(?!\w)", re.I)
    return lambda reply: pattern.search(reply) is not None


def _json(reply: str) -> bool:
    text = re.sub(r"^\s*```(?:json)?\s*|\s*```\s*$", "", reply.strip(), flags=re.I)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _letters(reply: str) -> str:
    return "".join(letter for letter in reply if letter.isalpha())


def _plain(text: str) -> str:
    return text.strip().strip("\"'“”‘’*_`. \n").casefold()


def _ends(phrase: str) -> Callable[[str], bool]:
    return lambda reply: _plain(reply).endswith(_plain(phrase))


def _begins(phrase: str) -> Callable[[str], bool]:
    return lambda reply: _plain(reply).startswith(_plain(phrase))


def _times(word: str, number: int, least: bool) -> Callable[[str], bool]:
    pattern = re.compile(rf"(?<!\w){re.escape(word.strip())}(?!\w)", re.I)
    if least:
        return lambda reply: len(pattern.findall(reply)) >= number
    return lambda reply: len(pattern.findall(reply)) == number


_REPLY = (
    r"(?:your |the |whole |entire |full |final )*(?:response|answer|reply|output|text|letter|message|essay"
    r"|story|poem|email|summary)"
)


def _form(kind: str, pattern: str, of: Callable[[re.Match[str]], Callable[[str], bool]]):
    return kind, re.compile(pattern, re.I), of


_FORMS = (
    _form(
        "JSON",
        rf"\b(?:{_REPLY}|output|respond|answer|reply|return|wrap|format)\b[^.\n]{{0,30}}?\b(?:in|as|with"
        rf")(?: an?| valid| the| only)* JSON\b(?! (?:schema|file|lines))",
        lambda _: _json,
    ),
    _form(
        "small letters",
        r"\b(?:in|use|using)(?: (?:all|only|entirely))? (?:lower ?case|lowercase letters|small letters"
        r")\b(?! for)|\bno capital letters\b",
        lambda _: lambda reply: not any(each.isupper() for each in _letters(reply)),
    ),
    _form(
        "capital letters",
        r"\b(?:in|use|using) (?:(?:all|only|entirely) )?(?:capital letters|upper ?case|all[- ]caps)\b(?! for)",
        lambda _: lambda reply: not any(each.islower() for each in _letters(reply)),
    ),
    _form(
        "no commas",
        r"\b(?:do not|don't|without|avoid|refrain from|never)\b[^.\n]{0,25}?\b(?:us(?:e|ing)|includ(?:e|ing)"
        r"|contain(?:ing)?)?(?: any| the use of(?: any)?)? ?commas\b",
        lambda _: lambda reply: "," not in reply,
    ),
    _form(
        "quoted whole",
        rf"\bwrap (?:{_REPLY})\b[^.\n]{{0,20}}?\b(?:in|with) double quot",
        lambda _: lambda reply: reply.strip()[:1] in '"“' and reply.strip()[-1:] in '"”' and len(reply.strip()) > 1,
    ),
    _form(
        "a title",
        r"\b(?:contain|include|have|with|give it|add) a title\b[^.\n]{0,20}?\b(?:wrapped|enclosed"
        r")\b[^.\n]{0,20}?(?:double angular brackets|<<)",
        lambda _: lambda reply: re.search(r"<<[^>\n]+>>", reply) is not None,
    ),
    _form(
        "a postscript",
        r"\b(?:add|include|end with|with) a post ?script\b",
        lambda _: lambda reply: re.search(r"P\.?\s?(?:P\.?\s?)?S\b", reply) is not None,
    ),
    _form(
        "ends with",
        rf"\b(?:end|finish|conclude)(?:s|ing)?(?: (?:{_REPLY}))? with (?:the )?(?:exact )?(?:phrase|words?"
        rf"|sentence|question|line)?:? ?{_QUOTE}",
        lambda match: _ends(match[1]),
    ),
    _form(
        "begins with",
        rf"\b(?:begin|start|open)(?:s|ing)?(?: (?:{_REPLY}))? with (?:the )?(?:exact )?(?:phrase|words?"
        rf"|sentence|line)?:? ?{_QUOTE}",
        lambda match: _begins(match[1]),
    ),
    _form(
        "holds a word",
        rf"(?<!never )(?<!not )(?<!n't )\b(?:include|use|mention|contain)s? (?:the )?(?:keyword|word|phrase|term"
        rf")s?:? {_QUOTE}(?! (?:exactly"
        rf"|at least|\d|\w+ times))",
        lambda match: _holds_word(match[1]),
    ),
    _form(
        "lacks a word",
        rf"\b(?:do not|don't|never|avoid|without)(?: \w+)? (?:includ|us|mention|contain|say)(?:e|ing"
        rf")?s? (?:the )?(?:keyword|word|phrase|term)s?:? {_QUOTE}",
        lambda match: lambda reply: not _holds_word(match[1])(reply),
    ),
    _form(
        "a word so often",
        rf"(?:word|keyword|phrase|term) {_QUOTE} (?:should |must )?(?:appear |be used |occur |show up "
        rf")?(exactly|at least) {_NUMBER} times",
        lambda match: _times(match[1], _number(match[3]), match[2].lower() == "at least"),
    ),
    _form(
        "one word",
        r"\b(?:answer|respond|reply)\b[^.\n]{0,30}?\b(?:with|in|using)(?: only| just| exactly)? (?:a single|one"
        r") word\b",
        lambda _: lambda reply: words(reply) <= 1,
    ),
    _form(
        "yes or no",
        r"\b(?:answer|respond|reply)\b[^.\n]{0,20}?\b(?:with )?(?:only|just|simply"
        r")\b[^.\n]{0,10}?[\"'“]?yes[\"'”]? or [\"'“]?no\b",
        lambda _: lambda reply: _plain(reply) in ("yes", "no"),
    ),
    _form(
        "one number",
        r"\b(?:answer|respond|reply|output|return|give)\b[^.\n]{0,20}?\b(?:only|just)\b[^.\n]{0,10}?\b(?:a|the"
        r"|one) (?:single )?(?:number|integer|digit)\b",
        lambda _: lambda reply: re.fullmatch(r"[-+$€£]?\d[\d.,]*\s?%?\.?", reply.strip()) is not None,
    ),
    _form(
        "parted by marks",
        r"\b(?:separate|divide|split)[^.\n]{0,40}?\b(?:with|by|using)\b[^.\n]{0,40}?(\*{3,6}|-{3,6})",
        lambda match: lambda reply: match[1] in reply,
    ),
    _form(
        "no letter",
        rf"\b(?:do not|don't|without|avoid)\b[^.\n]{{0,20}}?\bletter {_QUOTE}",
        lambda match: lambda reply: match[1].casefold() not in reply.casefold(),
    ),
    _form(
        "a table",
        rf"\b(?:respond|answer|reply|present|format|{_REPLY})\b[^.\n]{{0,30}}?\b(?:in|as) a (?:markdown )?table\b",
        lambda _: lambda reply: re.search(r"(?m)^\s*\|.*\|\s*$|<table", reply) is not None,
    ),
)
