"""Names in an intent: runs, environments and files that are there, also mistyped; and names told by their shape."""

from __future__ import annotations

import re
from pathlib import Path

from silva.elf.intent.frame import Frame
from silva.elf.intent.known import Known
from silva.elf.intent.reading import Words
from silva.elf.intent.words import PHRASES, STOP, concept, near


def of_names(words: Words, frame: Frame, known: Known) -> None:
    """Runs, environments and files that are there, by their name."""
    for name in sorted(known.runs, key=len, reverse=True):
        if words.take(
            rf"(?:\b(?:the )?(?:runs?|plan)\s+)?(?<![\w./\-])[\"'`]?{re.escape(name)}[\"'`]?(?![\w/\-])(?:'"
            rf"s)?(?:\s+run\b)?"
        ):
            frame.runs.append(name)
    for name in sorted(known.plans, key=len, reverse=True):
        if name not in frame.runs and words.take(rf"(?<![\w./\-])[\"'`]?{re.escape(name)}[\"'`]?(?![\w/\-])"):
            frame.runs.append(name)
    for name in sorted(known.envs, key=len, reverse=True):
        if words.take(
            rf"(?:\b(?:in|of|from|on|for)\s+)?(?:\b(?:the )?(?:environments?|envs?|"
            rf"gym)\s+)?(?<![\w./\-])[\"'`]?{re.escape(name)}[\"'`]?(?![\w/\-])(?:'s)?(?:\s+(?:environment|"
            rf"env|gym)\b)?"
        ):
            frame.envs.append(name)
    stems = {Path(path).stem: path for path in known.files}
    for name in sorted(stems, key=len, reverse=True):
        if (
            len(name) > 2
            and concept(name.lower()) is None
            and words.take(
                rf"(?:\bthe )?(?<![\w./\-])[\"'`]?{re.escape(name)}[\"'`]?(?![\w/\-])(?:'s)?(?:\s+(?:data|"
                rf"dataset|data set|file|set|corpus)\b)?"
            )
        ):
            frame.files.append(stems[name])
    # A name that is one typing error away from one that is there.
    for match in re.finditer(r"(?<![\w./\-])[A-Za-z][\w.\-]{3,}(?![\w/\-])", words.left):
        if concept(match.group().lower()) is not None:
            continue
        for pool, into in ((known.runs, frame.runs), (known.envs, frame.envs)):
            close = [name for name in pool if len(name) >= 5 and near(match.group().lower(), name.lower())]
            if len(close) == 1 and close[0] not in into:
                into.append(close[0])
                frame.notes.append(f"{match.group()} was read as {close[0]}")
                words.blank(*match.span())
                break
    frame.runs.sort(key=lambda name: frame.said.find(name))


def of_shape(words: Words, frame: Frame) -> None:
    """Names that are nothing here, told by their shape or by the words before them."""
    for match in words.all(
        r"\b(?:runs?|plan)\s+(?:called |named )?[\"'`]?((?!of\b|in\b|from\b|with\b|that\b|and\b|by\b|"
        r"was\b|is\b|are\b|as\b|to\b|on\b|for\b|has\b|have\b|the\b|did\b|went\b|do\b|there\b|last\b|"
        r"since\b|where\b|whose\b|which\b|table\b|who\b|or\b)[A-Za-z][\w.\-]*)[\"'`]?"
    ):
        if concept(match[1].lower()) is None and match[1].lower() not in STOP:
            frame.runs.append(match[1])
            more = words.take(
                rf"(?<={re.escape(match[1])})\s+(?:and|with|against|to|vs\.?|versus)\s+(?:run "
                rf")?[\"'`]?([A-Za-z][\w.\-]*\d[\w.\-]*|[A-Za-z]\w*[_\-.][\w.\-]*)"
            )
            if more:
                frame.runs.append(more[1])
        else:
            words.left = words.left[: match.start()] + match.group() + words.left[match.end() :]
    for match in words.all(
        r"\b(?:environments?|envs?|gym)\s+(?:called |named )?[\"'`]?((?!of\b|in\b|from\b|with\b|and\b|"
        r"are\b|is\b|by\b|there\b|does\b|has\b|do\b|the\b)[a-z][\w.\-]*)[\"'`]?"
    ):
        if concept(match[1].lower()) is None:
            frame.envs.append(match[1])
    for match in words.all(
        r"(?<![\w./\-])(?:the )?([A-Za-z]+[\w]*[_\d][\w.\-]*|"
        r"[A-Za-z][\w]*-[\w\-]*\d[\w\-]*)(?![\w/\-])(?:\s+(?:data|dataset|data set|file|set|corpus|"
        r"trajectory memories|memories))?"
    ):
        frame.unknown.append(match[1])
    of_plural = (
        r"\b(?:runs|trajectories|attempts|episodes|rollouts)\s+(?:of|in|from|on|for)\s+(?:the "
        r")?[\"'`]?([A-Za-z][\w\-]*)[\"'`]?"
    )
    before = r"(?<![\w./\-])([A-Za-z][\w\-]*)\s+(?=(?:runs|trajectories|episodes|attempts|rollouts)\b)"
    for pattern, into in (
        (of_plural, frame.envs),
        (before, frame.envs),
        (r"\b(?:the |my |our )?([A-Za-z]\w*)\s+(?:data|dataset|data set|corpus)\b", frame.unknown),
    ):
        for match in list(re.finditer(pattern, words.left, re.IGNORECASE)):
            word = match[1].lower()
            if concept(word) is None and word not in (STOP | _ORDERS | _PHRASED):
                words.blank(*match.span(1))
                into.append(match[1])


_PHRASED = frozenset(word for phrase in PHRASES for word in phrase.split())
_ORDERS = frozenset(
    [
        "export",
        "import",
        "list",
        "show",
        "mask",
        "judge",
        "count",
        "grow",
        "play",
        "translate",
        "summarise",
        "plot",
        "train",
        "deploy",
    ]
)
