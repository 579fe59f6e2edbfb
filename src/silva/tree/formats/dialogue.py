"""A dialogue: what one agent's own log tells of its conversation, message by message, and the walk it grows into.

    a log's steps ─▶ Utterance … (a chat message, who wrote it, cost, time) ─▶ Reading ─▶ one straight walk ─▶ Bundle

Readers of agents' logs bring their steps into the form of a chat message; parts, calls and answers are read as
everywhere. A message that says nothing at all is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from silva.tree.formats.blocks import Reading
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import ROOT, Branches, Ending
from silva.tree.formats.values import Row
from silva.tree.message import Json
from silva.tree.node import NO_USAGE, Author, Usage
from silva.tree.run import Run


class Utterance(NamedTuple):
    """One message of a log: as a chat message has it, with what else the log says of it."""

    message: Json
    usage: Usage = NO_USAGE
    started: float = 0.0
    model: str = ""
    author: Author | None = None
    kept: Json | None = None


def grow_dialogue(
    said: Iterable[Utterance], ending: Ending, row: Row, key: str, run: str, load: Loader | None, salt: str = ""
) -> Bundle:
    """The records of a dialogue.

    Args:
        said: its messages, in order.
        ending: how it ended.
        row: the object it stands in, for errors.
        key: the format's name, under which attributes are kept.
        run: the run to read into.
        load: gives the bytes of images by their path.
        salt: the log's own id.

    Raises:
        FormatError: with the line and the field.
    """
    branches = Branches()
    reading = Reading(load, branches.blobs)
    last = ROOT
    for place, each in enumerate(said):
        own = Row(each.message, row.name, row.line, row.path(f"[{place}]"))
        for number, heard in enumerate(reading.chat(own)):
            message = heard.message
            if not message.parts and not message.tool_calls and message.tool_call_id is None and not heard.kept:
                continue
            kept = {**(each.kept or {}), **heard.kept} if number == 0 else heard.kept
            turn = Turn(
                message=message,
                model=each.model if message.role == "assistant" else "",
                usage=each.usage if number == 0 else NO_USAGE,
                started=each.started,
                attributes={key: kept} if kept else {},
            )
            last = branches.add(last, turn, author=each.author if message.role != "tool" else None)
    return branches.grow(Origin(run=Run(id=run)), lambda _leaf: ending, row.name, row.line, salt)


def called(own: str, name: str, arguments: Any) -> Json:
    """A call as a chat message has it."""
    return {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}


def objects(value: Any) -> list[Json]:
    """The objects of a list; none of what is none."""
    items = cast(list[Any], value) if isinstance(value, list) else []
    return [cast(Json, item) for item in items if isinstance(item, dict)]
