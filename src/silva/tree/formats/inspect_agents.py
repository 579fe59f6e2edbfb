"""Sub-agents in a log of Inspect: model calls that are not on the sample's own conversation.

    spans (tool ▸ agent) ─▶ model events in them ─▶ what each was sent, folded under what it shares ─▶ Vertex …

A sub-agent (`as_tool`, `handoff`, a tool that asks a model) sees a conversation of its own: its walk is a branch from
the message that it shares last with the sample's, or a root; its first turn names the agent and the call it came from.
What a scorer asked of a model is no turn of the agent's and stays among the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from silva.tree.formats.graph import Vertex
from silva.tree.formats.rows import as_list, as_object
from silva.tree.message import Json, Tool
from silva.tree.node import Author

Read = Callable[[Json, str], Vertex]
"""A message as a vertex; the text is the field it stands in."""


def with_agents(
    main: Sequence[Vertex], ids: Sequence[str], events: Sequence[Json], pool: Sequence[Any], key: str, read: Read
) -> tuple[Vertex, ...]:
    """The sample's conversation and those of its sub-agents.

    Args:
        main: the conversation, each vertex the parent of the next.
        ids: the messages' own ids, in its order.
        events: the sample's events.
        pool: the messages that model events refer to by their range.
        key: where attributes of a vertex are kept.
        read: reads one message.
    """
    vertices = list(main)
    places: dict[tuple[int | None, str], int] = {
        (vertex.parent, own): place for place, (vertex, own) in enumerate(zip(main, ids, strict=True)) if own
    }
    known = set(ids)
    for number, (event, agent, caller) in enumerate(_asked(events)):
        output = as_object(event.get("output"))
        said = [as_object(as_object(choice).get("message")) for choice in as_list(output.get("choices"))[:1]]
        if not said or event.get("error") or str(said[0].get("id") or "") in known:
            continue
        parent: int | None = None
        tools = tools_of(event)
        for place, message in enumerate([*_sent(event, pool), *said]):
            own = str(message.get("id") or f"{number}.{place}")
            at = places.get((parent, own))
            if at is None:
                vertex = read(message, f"events.input[{place}]")
                fresh = parent is None or parent < len(main)
                if fresh:
                    about: Json = {**as_object(vertex.turn.attributes.get(key)), "agent": agent, "caller": caller}
                    attributes = {**vertex.turn.attributes, key: about}
                    turn = msgspec.structs.replace(vertex.turn, tools=tools or None, attributes=attributes)
                    vertex = msgspec.structs.replace(vertex, turn=turn)
                at = places[parent, own] = len(vertices)
                author = Author.POLICY if message is said[0] else vertex.author
                vertices.append(msgspec.structs.replace(vertex, parent=parent, author=author))
            parent = at
    return tuple(vertices)


def tools_of(event: Json) -> tuple[Tool, ...]:
    """The tools that a model event offered."""
    return tuple(
        Tool(
            name=str(entry.get("name") or ""),
            description=str(entry.get("description") or ""),
            parameters=as_object(entry.get("parameters")),
        )
        for entry in (as_object(item) for item in as_list(event.get("tools")))
    )


def _asked(events: Sequence[Json]) -> Iterator[tuple[Json, str, str]]:
    """The model events inside tools, each with the agent's name and the id of the call."""
    spans: dict[str, tuple[str, str, str]] = {}
    callers: dict[str, str] = {}
    latest: dict[str, str] = {}
    for event in events:
        kind, own = event.get("event"), str(event.get("id") or "")
        if kind == "span_begin":
            spans[own] = (str(event.get("parent_id") or ""), str(event.get("type") or ""), str(event.get("name") or ""))
        elif kind == "tool":
            callers[str(event.get("agent_span_id") or "")] = own
            latest[str(event.get("function") or "")] = own
            for inner in as_list(event.get("events")):  # as logs before spans have it
                if as_object(inner).get("event") == "model":
                    yield as_object(inner), str(event.get("function") or ""), own
        elif kind == "model":
            inside = _inside(spans, str(event.get("span_id") or ""))
            if inside is not None:
                span, name = inside
                yield event, name, callers.get(span) or latest.get(name, "")


def _inside(spans: dict[str, tuple[str, str, str]], span: str) -> tuple[str, str] | None:
    """The outermost agent (else the tool itself) under the tool that a span lies in; None where it lies in none."""
    found, seen = None, set[str]()
    while span in spans and span not in seen:
        seen.add(span)
        parent, kind, name = spans[span]
        if kind == "tool":
            return found or (span, name)
        if kind == "agent":
            found = (span, name)
        span = parent
    return None


def _sent(event: Json, pool: Sequence[Any]) -> Iterator[Json]:
    for given in as_list(event.get("input_refs")):
        span = as_list(given)
        begin, end = span if len(span) == 2 else (0, 0)
        if isinstance(begin, int) and isinstance(end, int):
            yield from (as_object(message) for message in pool[begin:end])
    yield from (as_object(message) for message in as_list(event.get("input")))
