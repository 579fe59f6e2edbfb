"""LangGraph: the states of a thread (`values.messages`), one or its whole history. Read only.

    states, oldest first ─▶ each one's messages go on from the walk they begin with ─▶ a fork of a thread is a branch

Messages are LangChain's, as `model_dump`, `dumpd` or the platform's API write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.blocks import Reading, Said
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.dialogue import objects
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import ROOT, Branches, Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json
from silva.tree.node import Usage
from silva.tree.run import Run

KEPT = "langgraph"


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a state of a thread."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    values: Any = row.get("values", row.get("channel_values"))
    if isinstance(values, dict) and "messages" in values:
        return True
    messages = objects(row.get("messages"))
    told = ("human", "ai", "system", "tool", "constructor")
    return bool(messages) and all("role" not in each and each.get("type") in told for each in messages)


def read(
    lines: Iterable[str | bytes], name: str = "thread.json", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each thread.

    Args:
        lines: the file's lines; states of one thread may come in any order.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    threads: dict[str, list[Row]] = {}
    for row in rows(lines, name):
        config = row.row("config").row("configurable") if isinstance(row.value.get("config"), dict) else row
        threads.setdefault(config.text("thread_id"), []).append(row)
    for thread, states in threads.items():
        branches = Branches()
        reading = Reading(load, branches.blobs)
        for state in sorted(states, key=lambda each: each.moment("created_at") or each.moment("ts")):
            _follow(branches, reading, state)
        if branches.twigs:
            kept = {"thread": thread, "states": len(states)}
            ending = Ending(agent="langgraph", attributes={KEPT: kept})
            yield branches.grow(Origin(run=Run(id=run)), lambda _leaf, e=ending: e, name, states[0].line, thread)


def _follow(branches: Branches, reading: Reading, state: Row) -> None:
    values = next((state.row(key) for key in ("values", "channel_values") if key in state), state)
    place = ROOT
    for message in values.rows("messages"):
        for said, usage, model in _said(reading, message):
            known = branches.same(place, said.message)
            if known is None:
                turn = Turn(
                    message=said.message,
                    usage=usage,
                    model=model,
                    started=state.moment("created_at"),
                    attributes={KEPT: said.kept} if said.kept else {},
                )
                known = branches.add(place, turn)
            place = known


def _said(reading: Reading, row: Row) -> Iterator[tuple[Said, Usage, str]]:
    kind = row.text("type")
    if "kwargs" in row:  # LangChain's own serialisation names the class
        names = row.items("id")
        row, kind = (
            row.row("kwargs"),
            str(names[-1]).removesuffix("Chunk").removesuffix("Message").lower() if names else "",
        )
    elif "data" in row:
        row = row.row("data")
    told = row.row("usage_metadata")
    usage = Usage(
        prompt_tokens=told.whole("input_tokens"),
        completion_tokens=told.whole("output_tokens"),
        cached_tokens=told.row("input_token_details").whole("cache_read"),
    )
    model = row.row("response_metadata").text("model_name")
    value = row.rest(
        "type", "id", "usage_metadata", "response_metadata", "additional_kwargs", "invalid_tool_calls", "example"
    )
    value = {key: item for key, item in value.items() if item not in ([], {}, "", False)}
    content: Any = value.get("content")
    if isinstance(content, list) and value.get("tool_calls"):
        value["content"] = [each for each in objects(content) if each.get("type") not in ("tool_use", "tool_call")]
    value["role"] = row.text("role") or kind or "assistant"
    for said in reading.chat(Row(value, row.name, row.line, row.field)):
        yield said, usage, model
