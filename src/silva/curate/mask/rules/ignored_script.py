"""Ignored script: the task provides a script for the work, and the agent writes its own (APOLLO, appendix E)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from silva.curate.mask.kinds import Kinds, command_of
from silva.curate.mask.rule import Finding
from silva.curate.turn import Turn, Walk

_PROVIDED = re.compile(
    r"\b(?:use|using|run|running|call|invoke|with|by|through|provided?|script|helper|tool)\b[^.\n]{0,60}?"
    r"(?P<path>[\w./-]*[\w-]+\.(?:sh|py|pl|js|rb))\b",
    re.IGNORECASE,
)
_SCRIPT = re.compile(r"[\w./-]+\.(?:sh|py|pl|js|rb)\b")


class IgnoredScript:
    """The task tells of a script to use; a turn writes or runs another script before the provided one was ever run.
    Where the provided script is what is to be mended, writing it is no neglect."""

    name = "ignored-script"
    summary = "a script that the task provides is passed over for one of the agent's own"

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    def find(self, walk: Walk) -> Iterable[Finding]:
        """See `Rule`."""
        provided = {PurePosixPath(found["path"]).name for found in _PROVIDED.finditer(walk.task)}
        if not provided:
            return
        own: set[str] = set()
        for turn in walk.turns:
            if self._run(turn) & provided:
                return
            made = {PurePosixPath(path).name for call in turn.calls for path in self._kinds.written(call)}
            made = {name for name in made if _SCRIPT.fullmatch(name)} - provided
            changed = {PurePosixPath(path).name for call in turn.calls for path in self._kinds.edited(call)}
            own |= made
            made |= changed & own
            used = {name for name in own if any(name in command_of(call) for call in turn.calls)}
            if made or used:
                other = sorted(made or used)[0]
                yield Finding(turn, f"{other} in place of {sorted(provided)[0]}, which the task provides")

    def _run(self, turn: Turn) -> set[str]:
        """The scripts the turn's calls name otherwise than to look at them: to run, or to mend."""
        calls = [call for call in turn.calls if self._kinds.of(call.name) != "view" and not self._kinds.asks(call)]
        text = "\n".join(str(value) for call in calls for value in (call.arguments or {}).values())
        return {PurePosixPath(found).name for found in _SCRIPT.findall(text)}
