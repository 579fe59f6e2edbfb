"""What an agent is told after its environment went back to a snapshot that does not hold everything.

    restore ─▶ notice ─▶ withheld while stored actions are taken again ─▶ before the first new answer

The environment says what it could not bring back (sessions begin anew, windows are those of the beginning); when that
is told is not its affair. An answer that tells it has the notice among its attributes, so that what the environment
said can be compared without it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.envs.protocol import Observation
from silva.tree import Json, Message, TextPart

TOLD = "notice"
"""The attribute of an answer that holds what stands before it."""


def tell(observation: Observation, notice: str) -> Observation:
    """The observation with a notice before its last message, the one that shows how things stand."""
    if not notice or not observation.messages:
        return observation
    *before, last = observation.messages
    place = next((place for place, part in enumerate(last.parts) if isinstance(part, TextPart)), None)
    parts: list[Any] = list(last.parts)
    if place is None:
        parts.insert(0, TextPart(text=notice))
    else:
        parts[place] = TextPart(text=f"{notice}\n\n{parts[place].text}")
    return msgspec.structs.replace(
        observation,
        messages=(*before, msgspec.structs.replace(last, parts=tuple(parts))),
        attributes={**observation.attributes, TOLD: notice},
    )


def untold(message: Message, attributes: Json) -> Message:
    """A stored message as the environment said it: without the notice that its attributes name."""
    notice = attributes.get(TOLD)
    if not isinstance(notice, str) or not notice:
        return message
    parts: list[Any] = []
    for part in message.parts:
        if notice and isinstance(part, TextPart) and part.text.startswith(notice):
            rest = part.text.removeprefix(notice)
            if rest:
                parts.append(TextPart(text=rest.removeprefix("\n\n")))
            notice = ""
        else:
            parts.append(part)
    return msgspec.structs.replace(message, parts=tuple(parts))
