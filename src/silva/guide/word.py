"""One thing a person says to a running agent: words, or an order.

    say      words for the agent, delivered before its next turn
    pause    wait before the next turn; resume goes on
    stop     end the trajectory after the turn under way
    forbid   from here on, no action in which `pattern` is found; allow takes that back
    good     the turn `turn` (0: the last) was right; bad: it was wrong

`to` is a trajectory's id, a task's id for all attempts at it, or "*" for all of the run.
"""

from __future__ import annotations

import re
import secrets
from typing import Literal, TypeAlias

import msgspec

from silva.errors import UsageError
from silva.tree import Record

MOST_CHARS = 64_000
"""Characters one word may hold."""

EVERYONE = "*"

Kind: TypeAlias = Literal["say", "pause", "resume", "stop", "forbid", "allow", "good", "bad"]
KINDS: tuple[str, ...] = Kind.__args__  # pyright: ignore[reportAttributeAccessIssue]

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,80}")


class Word(Record, frozen=True, kw_only=True):
    """A word. `by` is who says it, `at` when (Unix seconds), `why` a reason that is kept with the record and not shown
    to the agent. The id is drawn by whoever says it, so that saying it again by mistake is seen."""

    id: str
    run_id: str
    to: str
    kind: Kind
    by: str
    at: float
    text: str = ""
    why: str = ""
    turn: int = 0
    pattern: str = ""

    def reaches(self, trajectory_id: str, task_id: str) -> bool:
        """Whether it is meant for that trajectory."""
        return self.to in (EVERYONE, trajectory_id, task_id)


def word(run_id: str, kind: str, by: str, at: float, *, to: str = EVERYONE, id: str = "", **more: str | int) -> Word:
    """A checked word.

    Args:
        run_id: the run it is said to.
        kind: see the module.
        by: who says it.
        at: Unix seconds.
        to: a trajectory's id, a task's, or "*".
        id: drawn where it is left out.
        more: `text`, `why`, `turn`, `pattern`, as the kind needs.

    Raises:
        UsageError: no such kind, something it needs is missing, or it is too long.
    """
    given = {"id": id or secrets.token_hex(12), "run_id": run_id, "to": to, "kind": kind, "by": by.strip(), "at": at}
    try:
        made = msgspec.convert({**given, **more}, Word)
    except msgspec.ValidationError as error:
        if kind not in KINDS:
            raise UsageError(f"there is no word of kind {kind[:40]!r}: there are {', '.join(KINDS)}") from error
        raise UsageError(f"a word of kind {kind}: {error}") from error
    fault = _fault(made)
    if fault:
        raise UsageError(fault)
    return made


def _fault(made: Word) -> str:
    if not _NAME.fullmatch(made.by):
        return "say who you are: a name of 1 to 80 characters, without line breaks"
    long = max(len(made.text), len(made.why), len(made.pattern))
    if long > MOST_CHARS:
        return f"a word may hold {MOST_CHARS:,} characters, this one has {long:,}: put long texts into a file"
    needs = {"say": "text", "forbid": "pattern", "allow": "pattern"}.get(made.kind)
    if needs and not getattr(made, needs).strip():
        return f"a word of kind {made.kind} needs {needs}"
    if made.turn < 0:
        return f"turn {made.turn}: turns are counted from 1"
    if made.pattern:
        try:
            re.compile(made.pattern)
        except re.error as error:
            return f"pattern {made.pattern[:60]!r} is no regular expression: {error}"
    return ""
