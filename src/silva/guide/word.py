"""One thing a person says to a running agent: words, or an order.

    say      words for the agent, delivered before its next turn
    pause    wait before the next turn; resume goes on
    stop     end the trajectory after the turn under way
    forbid   from here on, no action in which `pattern` is found; allow takes that back
    good     the turn `turn` (0: the last) was right; bad: it was wrong
    back     leave off after the turn under way and go on from turn `turn` (0: the last), taking `action` there, or with
             `text` for the agent, or neither
    approve  the action that waits is taken; reject: it is not, and the agent is told `why`; edit: `action` is taken
             instead of it, or, where none waits, instead of turn `turn`'s, as with back

`to` is a trajectory's id, a task's id for all attempts at it, or "*" for all of the run. `node` names the action that
an approve, reject or edit is about; without it, it is whichever waits when the word is heard.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from typing import Literal, TypeAlias

import msgspec

from silva.errors import UsageError
from silva.guide.action import action_of
from silva.tree import Message, Record

MOST_CHARS = 64_000
"""Characters one word may hold."""

EVERYONE = "*"

Kind: TypeAlias = Literal[
    "say", "pause", "resume", "stop", "forbid", "allow", "good", "bad", "back", "edit", "approve", "reject"
]
KINDS: tuple[str, ...] = Kind.__args__  # pyright: ignore[reportAttributeAccessIssue]

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,80}")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,80}")
_NEEDS = {"say": "text", "forbid": "pattern", "allow": "pattern", "edit": "action"}
_ABOUT_ONE = ("back", "edit")


class Word(Record, frozen=True, kw_only=True):
    """A word. `by` is who says it, `at` when (Unix seconds), `why` a reason that is kept with the record; the agent is
    shown it where an action is refused. `action` is the text of an action (`silva.guide.action`). The id is drawn by
    whoever says it, so that saying it again by mistake is seen."""

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
    action: str = ""
    node: str = ""

    def reaches(self, trajectory_id: str, task_id: str, formerly: Collection[str] = ()) -> bool:
        """Whether it is meant for that trajectory, whose place had earlier attempts."""
        return self.to in (EVERYONE, trajectory_id, task_id) or self.to in formerly

    @property
    def taken(self) -> Message | None:
        """The action to take; None of a word that gives none."""
        return action_of(self.action, self.id[:24]) if self.action else None


def word(run_id: str, kind: str, by: str, at: float, *, to: str = EVERYONE, id: str = "", **more: str | int) -> Word:
    """A checked word.

    Args:
        run_id: the run it is said to.
        kind: see the module.
        by: who says it.
        at: Unix seconds.
        to: a trajectory's id, a task's, or "*".
        id: drawn where it is left out.
        more: `text`, `why`, `turn`, `pattern`, `action`, `node`, as the kind needs.

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
    if made.action:
        action_of(made.action, made.id)
    return made


def _fault(made: Word) -> str:
    if not _NAME.fullmatch(made.by):
        return "say who you are: a name of 1 to 80 characters, without line breaks"
    if not _ID.fullmatch(made.id):
        return "a word's id has 1 to 80 letters, digits, '.', '_', ':' and '-'"
    long = max(len(made.text), len(made.why), len(made.pattern), len(made.action))
    if long > MOST_CHARS:
        return f"a word may hold {MOST_CHARS:,} characters, this one has {long:,}: put long texts into a file"
    needs = _NEEDS.get(made.kind)
    if needs and not getattr(made, needs).strip():
        return f"a word of kind {made.kind} needs {needs}"
    if made.action and made.kind not in _ABOUT_ONE:
        return f"a word of kind {made.kind} takes no action: back and edit do"
    if made.kind == "back" and made.action and made.text:
        return "going back takes an action or words for the agent, not both"
    if made.kind in _ABOUT_ONE and made.to == EVERYONE and not made.node:
        return f"a word of kind {made.kind} is for one trajectory or task: say which (to)"
    if made.turn < 0:
        return f"turn {made.turn}: turns are counted from 1"
    if made.pattern:
        try:
            re.compile(made.pattern)
        except re.error as error:
            return f"pattern {made.pattern[:60]!r} is no regular expression: {error}"
    return ""
