"""A tool's result flowed into an argument of a risky call.

The words of an argument that nobody trusted has said, and that a result did say, came from the result: by a token that
is no word of the language (an address, an account, a code), or by a long stretch. That is normal where the task asks
for it (answer that mail), and the first thing to look at where it does not; so it is evidence, with a low weight for
content and a high one for the place where something goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.checkers.action_words import NO_ACTION, Act, acting, acts, kinds_of_call
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.rows import Row
from silva.redteam.defences.sinks import OUTWARD, places

STRETCH = 24
"""Characters of an argument that a result must hold in one piece."""
_STEP = 8
_RISKY = frozenset({*OUTWARD, "delete"})
_WORD = re.compile(r"[\w@./:+-]{6,}")
_MARKED = re.compile(r"[\d@./:_]")
_LONGEST = 4000


class _Flow(NamedTuple):
    number: int
    value: str
    weight: float
    result: str


@checker
class Taint(RowChecker):
    """Arguments of calls that send, pay, delete or give rights, whose words come from a result alone."""

    name = "taint_evidence"
    risk = "tainted_action"
    family = Family.RULES
    summary = "an argument of a risky call holds what only a tool's result had said"
    version = "1"

    def check(self, row: Row) -> Iterable[Finding] | NotChecked:
        """See `RowChecker`."""
        if not acting(row.nodes):
            return NotChecked(why=NO_ACTION)
        found: list[Finding] = []
        for act in acts(row.nodes):
            for number, value, weight, result in _flows(act):
                raw = act.node.message.tool_calls[number].arguments
                start = raw.find(value)
                told = (
                    f"turn {act.turn}: {value[:60]!r} of {act.node.message.tool_calls[number].name} came from {result}"
                )
                span = (start, start + len(value)) if start >= 0 else (0, 0)
                found.append(self.finding(row, act.node, f"call {number}", *span, score=weight, evidence=told))
        return found


def _flows(act: Act) -> Iterator[_Flow]:
    for number, call in enumerate(act.node.message.tool_calls):
        if not kinds_of_call(call) & _RISKY:
            continue
        try:
            arguments = call.parsed()
        except ValueError:
            continue
        sinks = set(places(arguments))
        best: _Flow | None = None
        for value in _strings(arguments):
            flow = _flow(act, number, value, 0.9 if value in sinks else 0.6)
            if flow is not None and (best is None or flow.weight > best.weight):
                best = flow
        if best is not None:
            yield best


def _flow(act: Act, number: int, value: str, weight: float) -> _Flow | None:
    for node in reversed(act.results):
        text = node.message.text
        name = node.message.name or "a result"
        tokens = [word.strip(".:") for word in _WORD.findall(value[:_LONGEST]) if _MARKED.search(word)]
        for token in tokens:
            if len(token) >= 6 and token in text and token not in act.trusted:
                return _Flow(number, token, weight, name)
        for place in range(0, max(0, min(len(value), _LONGEST) - STRETCH + 1), _STEP):
            piece = value[place : place + STRETCH]
            if piece in text and piece not in act.trusted:
                return _Flow(number, piece, weight, name)
    return None


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < 6 and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each, depth + 1)
