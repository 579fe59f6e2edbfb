"""Error observation: what came back says that the action failed (APOLLO's example of a symbolic rule)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from silva.curate.mask.kinds import Kinds
from silva.curate.mask.rule import Finding
from silva.curate.turn import Turn, Walk

SAID = (
    r"^\W*(\w+[.:] ?)*(\w*(Error|Exception)|error|fatal|failed|failure|invalid|illegal|refused|denied|unknown)\b"
    r"(?! (rate|bars?|message|log|code 0))",
    r"^Traceback \(most recent call last\)",
    r"\b(command not found|no such file or directory|permission denied|is not recognized)\b",
    r"\b(segmentation fault|unbound variable)\b",
    r"\b(exit(ed)?( with)?( code| status)?|return(ed)? code|status)\W{1,3}-?(?!130\b)[1-9]\d{0,2}\b(?! [A-Za-z])",
    r"\b(does not exist|doesn't exist|not found|is not (valid|available|allowed|a (known|valid)|one of))\b",
    r"\b(no (tool|function|action|command)( is)? (called|named)|cannot be (read|parsed|taken|done)|syntax error)\b",
    r"\b(nothing happen(s|ed)|no known action matches|i don't understand)\b",
    r"\b(that's not a verb|you can't (see|do|go|take|reach))\b",
)
"""How environments and programs say that something failed; each is looked for in the first and last lines."""

_ENDED = re.compile(r"\b(?:exit|return)(?:ed)?(?: with)?(?: code| status)?\W{1,3}(-?\d+)\W*$", re.IGNORECASE)
_EDGE = 6
"""Lines at each end of an observation that are read: what lies between is content, and content may speak of errors."""


class ErrorObservation:
    """The observation of the turn begins or ends with an error. What a view shows is content and is not read; nor is
    what a command prints that only looks, where its exit code says that it could. Nothing found, or a difference found,
    is an answer. A command ended from outside (130, `KeyboardInterrupt`) has not failed."""

    name = "error-observation"
    summary = "what came back says that the action failed"

    def __init__(self, kinds: Kinds, more: Sequence[str] = ()) -> None:
        self._kinds = kinds
        self._said = [re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in (*SAID, *more)]

    def find(self, walk: Walk) -> Iterable[Finding]:
        """See `Rule`."""
        for turn in walk.turns:
            said = self._error(turn)
            if said:
                yield Finding(turn, f"it failed: {said}")

    def _error(self, turn: Turn) -> str:
        for node in turn.answers:
            text = node.message.text.strip()
            if not text:
                continue
            told = _object_error(text)
            if told is not None:
                if told:
                    return told
                continue
            lines = text.splitlines()
            if self._answered(turn, lines[-1]) or _interrupted(lines):
                continue
            views = any(self._kinds.of(call.name) == "view" for call in turn.calls)
            read = lines[:1] if views else [*lines[:_EDGE], *lines[max(_EDGE, len(lines) - _EDGE) :]]
            for line in read:
                if any(pattern.search(line) for pattern in self._said):
                    return " ".join(line.split())[:120]
        return ""

    def _answered(self, turn: Turn, last: str) -> bool:
        """Whether the exit code in the last line says that a command which looks or compares has done so."""
        ended = _ENDED.search(last)
        if ended is None or not turn.calls:
            return False
        code = int(ended[1])
        looked = code == 0 and all(self._kinds.asks(call) for call in turn.calls)
        return looked or (code in (0, 1) and all(self._kinds.compares(call) for call in turn.calls))


def _interrupted(lines: Sequence[str]) -> bool:
    """Whether a Python program ended because somebody interrupted it: its traceback is no failure."""
    return any(line.strip() == "KeyboardInterrupt" for line in lines[-_EDGE:])


def _object_error(text: str) -> str | None:
    """Of a JSON object: its error, or "" for none; None for any other text."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for name in ("error", "errors", "exception"):
        if value.get(name):
            return f"{name}: {value[name]}"[:120]
    if value.get("success") is False or value.get("ok") is False:
        return "success: false"
    return ""
