"""The tool calls of a streamed reply, put together from their fragments.

fragment (index? id? name? arguments?) ─▶ of which call? ─▶ that call, grown; or the next one

Servers tell calls apart by `index`. Some give every call the same one, some none: then a fragment with a name begins a
call where its id is another's, or where the one before has all its arguments and this one does not claim its id.
"""

from __future__ import annotations

import msgspec

from silva.models.carried import grown
from silva.models.wire import WireCall, WireFunction, to_call
from silva.tree import ToolCall

_decode = msgspec.json.Decoder().decode


class Calls:
    """The calls of one reply so far."""

    def __init__(self) -> None:
        self._begun: list[tuple[int, WireCall]] = []
        self._latest: dict[int, WireCall] = {}

    def add(self, calls: list[WireCall]) -> None:
        """Take in calls that are whole."""
        self._begun += [(0, call) for call in calls]

    def join(self, fragments: list[WireCall]) -> None:
        """Take in what a chunk says of calls."""
        for fragment in fragments:
            index = fragment.index
            if index is None:
                index = self._begun[-1][0] if self._begun else 0
            known = self._latest.get(index)
            if known is None or _begins(fragment, known):
                self._latest[index] = fragment
                self._begun.append((index, fragment))
            else:
                _grow(known, fragment)

    def all(self) -> tuple[ToolCall, ...]:
        """The calls in order.

        Raises:
            WireError: one has no name.
        """
        ordered = sorted(self._begun, key=lambda begun: begun[0])  # stable: those of one index as they came
        return tuple(to_call(call, place) for place, (_, call) in enumerate(ordered))


def _begins(fragment: WireCall, known: WireCall) -> bool:
    """Whether a fragment that claims the place of a call is the next call."""
    function, before = fragment.function, known.function
    if function is None or not function.name or before is None or not before.name:
        return False
    if fragment.id and known.id:
        return fragment.id != known.id
    return isinstance(before.arguments, dict) or (bool(before.arguments) and _whole(before.arguments or ""))


def _whole(arguments: str) -> bool:
    try:
        _decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _grow(known: WireCall, fragment: WireCall) -> None:
    known.id = known.id or fragment.id
    known.type = known.type or fragment.type
    if fragment.extra:
        known.extra = grown(known.extra, fragment.extra)
    more = fragment.function
    if more is None:
        return
    if known.function is None:
        known.function = WireFunction()
    function = known.function
    function.name = function.name or more.name
    if more.extra:
        function.extra = grown(function.extra, more.extra)
    if isinstance(more.arguments, str):
        before = function.arguments
        function.arguments = before + more.arguments if isinstance(before, str) else more.arguments
    elif more.arguments is not None and not function.arguments:
        function.arguments = more.arguments
