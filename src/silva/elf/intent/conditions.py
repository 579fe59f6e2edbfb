"""Filters as people say them, read into conditions: on trajectories of a lake, and on rows of anything.

"failed runs of babyai last week with more than 10 turns" ─▶ status = 'failed' … and started >= … and turns > 10
"rows longer than 200 words that mention 'password'"       ─▶ words > 200 and text ilike '%password%'
"""

from __future__ import annotations

import calendar
import re
import time
from datetime import UTC, datetime, timedelta

from silva.elf.intent.reading import NUMBER, Words, number

_MORE = r"(?:more than|greater than|larger than|higher than|bigger than|above|over|exceeding|>)"
_LESS = r"(?:less than|fewer than|lower than|smaller than|below|under|<)"
_LEAST = r"(?:at least|no less than|not less than|minimum(?: of)?|min|>=|≥|from)"
_MOST = r"(?:at most|no more than|not more than|up to|maximum(?: of)?|max|<=|≤)"
_EQUAL = r"(?:of exactly|exactly|equal to|equals|==|=|of|is|being)"
_SIGNS = ((_LEAST, ">="), (_MOST, "<="), (_MORE, ">"), (_LESS, "<"), (_EQUAL, "="))
_ANY = "|".join(sign for sign, _ in _SIGNS)
_NOUN = (
    r"(?:runs?|trajector(?:y|ies)|attempts?|episodes?|rollouts?|tasks?|ones|traces?|rows?|samples?|"
    r"conversations?|examples?)"
)
_COLUMNS = {
    "score": "score",
    "scores": "score",
    "scored": "score",
    "safety": "safety",
    "reward": "reward",
    "rewards": "reward",
    "turns": "turns",
    "turn": "turns",
    "steps": "turns",
    "cost": "usd",
    "costs": "usd",
    "seed": "seed",
}
_LENGTHS = {
    "characters": "chars",
    "chars": "chars",
    "letters": "chars",
    "character": "chars",
    "words": "words",
    "word": "words",
}
_DAYS = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1.0, "week": 7.0, "fortnight": 14.0, "month": 30.0, "year": 365.0}


Said = tuple[tuple[int, int], str]
"""Where a condition was said, and the condition."""

_DROPS = (
    r"\b(?:drop|remove|discard|delete|exclude|excluding|reject|skip|ignore|omit|without|except(?: for)?|leave out|"
    r"leaving out|take out|throw (?:away|out)|filter out|get rid of|weed out)\b"
)
_DONE = r"\b(?:keep|take|select|choose|pick|score|audit|export|save|write|sort|then|count|list|show|only|deduplicate)\b"
_OBJECT = (
    rf"^(?:\s*(?:out|all|any|every|each|of|the|those|these|which|that|were|are|too|very|short|long|and|or|{_NOUN}|"
    r"anything|everything|entries|entry|items?|records?|lines?|texts?|repl(?:y|ies)|answers?|"
    r"failed|failing|successful|unsuccessful|solved|truncated|crashed|unsafe)\b)*(?=\s|$)"
)


def joined(words: Words, said: list[Said]) -> list[str]:
    """Conditions as they are meant together: of what is to be dropped none may hold; "or", and "and those", between two
    say that either is enough.

    "drop rows longer than 120 words or labelled spam" ─▶ (words > 120 or label = 'spam') is not true
    """
    groups: list[tuple[int, list[str], bool]] = []
    before = -1
    for (start, stop), condition in sorted(said):
        between = words.said[before:start] if before >= 0 else None
        link = between is not None and re.fullmatch(
            r"[\s,]*(and|or|nor)?(?:\s+(those|ones|that|which|are|have|rows))*\s*", between
        )
        either = bool(link and (link[1] in ("or", "nor") or link[2] in ("those", "ones")))
        if groups and link and (either or not groups[-1][2]):
            groups[-1] = (groups[-1][0], [*groups[-1][1], condition], either)
        else:
            groups.append((start, [condition], False))
        before = stop
    found: list[str] = []
    for start, conditions, either in groups:
        together = (" or " if either else " and ").join(conditions)
        whole = f"({together})" if len(conditions) > 1 and either else together
        found.append(f"({together}) is not true" if _dropped(words.said[:start]) else whole)
    return found


def _dropped(before: str) -> bool:
    """Whether what is said next is said of rows or runs that are to go."""
    drops = [each.end() for each in re.finditer(_DROPS, before, re.IGNORECASE)]
    if not drops:
        return False
    rest = before[drops[-1] :]
    if re.search(_DONE, rest, re.IGNORECASE) or re.search(r"[,;]\s*$", rest):
        return False
    return (
        re.match(_OBJECT + r"(?:\s+(?:of|from|in|with|whose|where|having)\b.*)?\s*$", rest, re.IGNORECASE | re.DOTALL)
        is not None
    )


def sign_of(text: str) -> str:
    """The sign that a comparison's words mean."""
    return next(sign for pattern, sign in _SIGNS if re.fullmatch(pattern, text.strip(), re.IGNORECASE))


def of_outcome(words: Words, notes: list[str]) -> list[str]:
    """Conditions on how trajectories ended."""
    found: list[Said] = []
    why = re.search(r"\b(why|causes?|reasons?|explain|went wrong|what broke)\b", words.said, re.IGNORECASE)
    if words.take(r"\b(?:unsuccessful|unsolved|not successful|(?:that |which )?did(?: not|n'?t) (?:succeed|work))\b"):
        found.append((words.at, "success = false"))
    if not why and words.take(r"\b(?:that |which |who )?(?:have |had )?(?:crashed|errored|broken|broke)\b"):
        found.append((words.at, "status = 'failed'"))
    failed = r"\b(?:only )?(?:the )?(?:that |which |who )?(?:have |had )?(?:failed|failing|fail)\b(?: only)?"
    if not why and words.take(failed):
        found.append((words.at, "(status = 'failed' or success = false)"))
        notes.append("failed: those that broke, and those that ended without success")
    shares = re.search(r"\b(?:share|fraction|proportion|percentage|percent)\b", words.said, re.IGNORECASE)
    if not shares and words.take(
        r"\b(?:only )?(?:the )?(?:that |which |who )?(?:have |had |were |are )?(?:successful|solved|"
        r"succeed(?:ed)?|passing|"
        r"passed|winning|won)\b(?: (?:it|them|the task|their tasks?))?(?: only)?|\bsuccess(?:es)? only\b|"
        r"\bonly (?:the )?success(?:es)?\b"
    ):
        found.append((words.at, "success = true"))
    if words.take(rf"\b(?:truncated|cut off)\b(?=\s+{_NOUN})|\b(?:that|which) were (?:truncated|cut off)\b"):
        found.append((words.at, "status = 'truncated'"))
    if words.take(rf"\b(?:finished|completed)\b(?=\s+{_NOUN})|\b(?:that|which) (?:have )?(?:finished|completed)\b"):
        found.append((words.at, "status = 'completed'"))
    if words.take(rf"\bunsafe\b(?=\s+{_NOUN})|\b(?:that|which) (?:were|are) unsafe\b"):
        found.append((words.at, "safety < 1"))
    if words.take(r"\b(?:perfect(?:ly)?(?: scored)?|full marks?|with a perfect score)\b(?=\s+" + _NOUN + r"|\s*$)"):
        found.append((words.at, "score >= 1"))
    return joined(words, found)


def of_columns(words: Words) -> list[str]:
    """Conditions on the figures of trajectories: score, turns, safety, reward, cost."""
    names = "|".join(_COLUMNS)
    found: list[Said] = []
    for match in words.all(
        rf"\b(?:with |whose |where |having |and |that have |a |an |the )*({names})\s*(?:is |was |are |of |"
        rf"was |were )?({_ANY})\s*({NUMBER})"
    ):
        found.append((match.span(), f"{_COLUMNS[match[1].lower()]} {sign_of(match[2])} {_plain(match[3])}"))
    for match in words.all(
        rf"\b(?:with |having |that have |that (?:took|needed|lasted)|in |taking |longer |of )*({_ANY}|"
        rf"longer than|shorter than)\s*({NUMBER})\s+(turns?|steps)\b"
    ):
        sign = (
            ">"
            if match[1].lower() == "longer than"
            else "<"
            if match[1].lower() == "shorter than"
            else sign_of(match[1])
        )
        found.append((match.span(), f"turns {sign} {_plain(match[2])}"))
    for match in words.all(rf"\b(?:that )?(?:scor(?:ed|ing|es?)|with a score)\s+({_ANY})\s*({NUMBER})"):
        found.append((match.span(), f"score {sign_of(match[1])} {_plain(match[2])}"))
    for match in words.all(
        r"\b(?:by |with |of |using )?(model|policy|agent)\s+(?:is |= ?|named |called "
        r")?['\"]?([\w./:\-]*[\d./:\-][\w./:\-]*)['\"]?"
    ):
        column = {"policy": "policy_version"}.get(match[1].lower(), match[1].lower())
        found.append((match.span(), f"{column} = '{match[2]}'"))
    return joined(words, found)


def of_rows(words: Words) -> list[str]:
    """Conditions on what rows say: length, label, words they hold."""
    found: list[Said] = []
    for match in words.all(
        rf"\b(?:with |having |that have |of |whose (?:text|reply|answer) (?:has|is) )*(?:({_ANY}|longer "
        rf"than|shorter than))\s*({NUMBER})\s+(characters?|chars|letters|words?)\b"
    ):
        said = match[1].lower()
        sign = ">" if said == "longer than" else "<" if said == "shorter than" else sign_of(said)
        found.append((match.span(), f"{_LENGTHS[match[3].lower()]} {sign} {_plain(match[2])}"))
    for match in words.all(
        r"\b(?:with (?:the )?label|labell?ed(?: as)?|whose label is|where label is|label\s*(?:=|"
        r"is))\s+['\"]?(\w[\w\-]*)['\"]?"
    ):
        found.append((match.span(), f"cast(label as varchar) = '{match[1]}'"))
    for match in words.all(
        r"\b(?:that |which )?(not |don't |do not |doesn't |does not )?(?:contain(?:s|ing)?|mention(?:s|"
        r"ing)?|with the words?|include(?:s)? the words?|say(?:s|ing)?)"
        r"\s+(?:the (?:words?|phrase|text) )?(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`)"
    ):
        text = next(filter(None, match.groups()[1:])).replace("'", "''")
        found.append((match.span(), f"text {'not ' if match[1] else ''}ilike '%{text}%'"))
    if words.take(
        r"\b(?:with (?:an )?empty (?:repl(?:y|ies)|answers?)|without (?:an? )?(?:reply|answer|replies|answers))\b"
    ):
        found.append((words.at, "reply = ''"))
    if words.take(r"\b(?:with (?:a )?non-?empty (?:repl(?:y|ies)|answers?)|that have (?:a )?(?:reply|answer))\b"):
        found.append((words.at, "reply != ''"))
    return joined(words, found)


def of_times(words: Words, now: float) -> list[str]:
    """Conditions on when trajectories began, in Unix seconds, counted from now."""
    found: list[Said] = []
    units = "|".join(_DAYS)
    match = words.take(
        rf"\b(?:in|over|during|within|from|of|for|since)?\s*(?:the )?(?:last|past|previous|"
        rf"latest)\s+({NUMBER}|few|couple of)?\s*({units})s?\b"
    )
    if match:
        said = (match[1] or "1").lower()
        times = 3.0 if said == "few" else 2.0 if said == "couple of" else number(said)
        found.append((words.at, f"started >= {now - times * _DAYS[match[2].lower()] * 86400:.0f}"))
    match = words.take(rf"\b(newer|younger|more recent|older)\s+than\s+({NUMBER}|an?)\s+({units})s?\b")
    if match:
        times = 1.0 if match[2].lower() in ("a", "an") else number(match[2])
        sign = "<" if match[1].lower() == "older" else ">="
        found.append((words.at, f"started {sign} {now - times * _DAYS[match[3].lower()] * 86400:.0f}"))
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if words.take(r"\b(?:from |of |since |on )?today(?:'s)?\b"):
        found.append((words.at, f"started >= {today.timestamp():.0f}"))
    since = words.take(r"\bsince yesterday\b")
    if since or words.take(r"\b(?:from |of |on )?yesterday(?:'s)?\b"):
        found.append((words.at, f"started >= {(today - timedelta(days=1)).timestamp():.0f}"))
        found += [] if since else [(words.at, f"started < {today.timestamp():.0f}")]
    if words.take(r"\b(?:from |of |in |during )?this week(?:'s)?\b"):
        found.append((words.at, f"started >= {(today - timedelta(days=today.weekday())).timestamp():.0f}"))
    if words.take(r"\b(?:from |of |in |during )?this month(?:'s)?\b"):
        found.append((words.at, f"started >= {today.replace(day=1).timestamp():.0f}"))
    names = {name.lower(): number for number, name in enumerate(calendar.day_name)}
    match = words.take(rf"\b(?:since|after)\s+(?:last )?({'|'.join(names)})\b")
    if match:
        back = (today.weekday() - names[match[1].lower()]) % 7 or 7
        found.append((words.at, f"started >= {(today - timedelta(days=back)).timestamp():.0f}"))
    for match in words.all(r"\b(since|after|from|before|until|till|on)\s+(\d{4}-\d{2}-\d{2})\b"):
        day = datetime.fromisoformat(match[2]).replace(tzinfo=UTC)
        word = match[1].lower()
        if word in ("since", "from", "on"):
            found.append((match.span(), f"started >= {day.timestamp():.0f}"))
        if word == "after":
            found.append((match.span(), f"started >= {(day + timedelta(days=1)).timestamp():.0f}"))
        if word in ("before",):
            found.append((match.span(), f"started < {day.timestamp():.0f}"))
        if word in ("until", "till", "on"):
            found.append((match.span(), f"started < {(day + timedelta(days=1)).timestamp():.0f}"))
    return joined(words, found)


def moment() -> float:
    """Now, in Unix seconds; one place, so that a plan says numbers and not words."""
    return time.time()


def _plain(text: str) -> str:
    return f"{number(text):g}"
