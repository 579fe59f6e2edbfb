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
    r"\b(command not found|no such file or directory|permission denied|is not recognized|segmentation fault)\b",
    r"\b(exit(ed)?( with)?( code| status)?|return(ed)? code|status)\W{1,3}-?[1-9]\d{0,2}\b(?! [A-Za-z])",
    r"\b(does not exist|doesn't exist|not found|is not (valid|available|allowed|a (known|valid)|one of))\b",
    r"\b(no (tool|function|action|command)( is)? (called|named)|cannot be (read|parsed|taken|done)|syntax error)\b",
    r"\b(nothing happen(s|ed)|no known action matches|i don't understand|you can't (see|do|go|take|reach))\b",
)
"""How environments and programs say that something failed; each is looked for in the first and last lines."""

_EDGE = 6
"""Lines at each end of an observation that are read: what lies between is content, and content may speak of errors."""


class ErrorObservation:
    """The observation of the turn begins or ends with an error. What a view shows is content and is not read."""

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
            views = any(self._kinds.of(call.name) == "view" for call in turn.calls)
            read = lines[:1] if views else [*lines[:_EDGE], *lines[max(_EDGE, len(lines) - _EDGE) :]]
            for line in read:
                if any(pattern.search(line) for pattern in self._said):
                    return " ".join(line.split())[:120]
        return ""


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
