"""An allow-list of sinks: what goes out goes only where the task says, or where a pattern allows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from silva.redteam.defences.defence import Defence, Guarded
from silva.rollout.risks import risks_of
from silva.tree import Message, assistant

OUTWARD = ("send", "pay", "permission")
"""Kinds of risk whose tools are sinks."""

PLACES = re.compile(
    r"^(to|cc|bcc|recipients?|receivers?|address(es)?|e?mails?|url|uri|link|channels?|users?|participants|iban|account|host)$",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\w.+-]+@[\w.-]+\w|https?://\S+|\b[A-Z]{2}\d{2}[A-Z0-9]{8,}\b")


class Sinks(Defence):
    """Refuses calls that send, pay or give rights to somewhere the task does not name.

    Args:
        allowed: regular expressions, each for a whole place, that are allowed besides.
    """

    name = "sinks"
    summary = "what goes out goes only where the task says (options: allowed)"

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = [re.compile(each) for each in allowed]

    async def refuse(self, action: Message, guarded: Guarded) -> str:
        """See `Defence`."""
        task = guarded.task.lower()
        for each in action.tool_calls:
            if not set(OUTWARD) & set(risks_of(assistant("", each))):
                continue
            try:
                arguments: dict[str, Any] = each.parsed()
            except ValueError:
                return f"the arguments of {each.name} cannot be read"
            for place in places(arguments):
                if place.lower() not in task and not any(rule.fullmatch(place) for rule in self._allowed):
                    return f"{each.name}: {place[:80]} is not named by the task"
        return ""


def places(value: Any, named: bool = False) -> Iterator[str]:
    """Where the arguments of a call send something: the values of arguments that name a place, and addresses in any."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, PLACES.match(str(key)) is not None)
    elif isinstance(value, list):
        for each in value:
            yield from places(each, named)
    elif isinstance(value, str):
        yield from [value] if named else _ADDRESS.findall(value)
