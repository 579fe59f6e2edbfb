"""Ill-timed end: asking for a score, or ending, when there is nothing new to score (APOLLO, appendix E)."""

from __future__ import annotations

from collections.abc import Iterable

from silva.curate.mask.kinds import Kinds
from silva.curate.mask.rule import Finding
from silva.curate.turn import Turn, Walk


class IllTimedEnd:
    """Evaluating before anything was done; evaluating again although nothing changed since; finishing as the very first
    action; finishing without ever evaluating where there is a tool for it; acting on after finishing. Words that end
    the walk are an end as well, where there is a tool for ending. An end after which the task's own check says that all
    is done came at the right time, however it was known."""

    name = "ill-timed-end"
    summary = "it asks for a score, or ends, at the wrong time"

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    def find(self, walk: Walk) -> Iterable[Finding]:
        """See `Rule`."""
        changed, evaluated, finished = False, 0, 0
        for turn in walk.turns:
            if finished:
                yield Finding(turn, f"the task was finished in turn {finished}")
                continue
            can_evaluate = any(self._kinds.of(tool.name) == "evaluate" for tool in turn.tools)
            if _ends_in_words(turn, self._kinds):
                if walk.proven:
                    continue
                if turn.number == 1:
                    yield Finding(turn, "it ends in words before doing anything")
                elif can_evaluate and not evaluated:
                    yield Finding(turn, "it ends in words without evaluating once")
                continue
            for call in turn.calls:
                kind = self._kinds.of(call.name)
                if kind == "evaluate":
                    if not changed:
                        since = f"since turn {evaluated}" if evaluated else "yet"
                        yield Finding(turn, f"it evaluates although nothing was changed {since}")
                        break
                    evaluated, changed = turn.number, False
                elif kind == "finish":
                    if turn.number == 1 and not changed and not walk.proven:
                        yield Finding(turn, "it finishes before doing anything")
                        break
                    if can_evaluate and not evaluated and not walk.proven:
                        yield Finding(turn, "it finishes without evaluating once")
                        break
                    finished = turn.number
                elif self._kinds.changes(call):
                    changed = True


def _ends_in_words(turn: Turn, kinds: Kinds) -> bool:
    """An empty reply, or one that was cut off, was not meant as an end."""
    return (
        turn.is_last
        and not turn.action.message.tool_calls
        and bool(turn.action.message.text.strip())
        and turn.action.finish_reason != "length"
        and any(kinds.of(tool.name) == "finish" for tool in turn.tools)
    )
