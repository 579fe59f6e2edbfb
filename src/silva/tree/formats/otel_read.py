"""From spans of the GenAI semantic conventions to records.

    spans ─▶ by conversation, else by trace ─▶ model calls and tool runs ─▶ fold ─▶ Bundle

What else stands on a span (temperature, server, error …) is kept under `attributes["otel"]` of the reply it belongs to;
spans that are neither are counted on the trajectory, and the outermost agent span's attributes are kept there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.blocks import Reading, Said
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.calls import Answer, Call, ended, fold
from silva.tree.formats.draft import Origin
from silva.tree.formats.images import Loader
from silva.tree.formats.spans import GENAI, Span, broken
from silva.tree.formats.twigs import Branches, Ending
from silva.tree.formats.values import Row, kind
from silva.tree.message import Json, Message, TextPart, Tool
from silva.tree.node import Usage

EXTENSION, KEPT, PREFIX = "silva", "otel", GENAI
_CALLS = ("chat", "text_completion", "generate_content", "completion")
_MESSAGES = ("gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages")
_TOOL = ("gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.name")
_READ = (
    *_MESSAGES,
    *_TOOL,
    EXTENSION,
    "gen_ai.operation.name",
    "gen_ai.tool.type",
    "gen_ai.tool.definitions",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.completion_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.response.finish_reasons",
    "prompt_token_ids",
    "response_token_ids",
)
_FLAT = re.compile(r"gen_ai\.(?P<side>prompt|completion)\.(?P<place>\d+)\.(?P<field>.+)")
_FLAT_CALL = re.compile(r"tool_calls\.(?P<place>\d+)\.(?P<field>id|name|arguments)")


def traces(spans: list[Span], origin: Origin, name: str, load: Loader | None) -> Iterator[Bundle]:
    """One bundle for each conversation that a span names, and for each other trace.

    Raises:
        FormatError: with line and field.
    """
    groups: dict[str, list[Span]] = {}
    talks: dict[str, str] = {}
    named: dict[tuple[str, str], str] = {}
    above = {(span.trace, span.id): span.parent for span in spans}
    for span in spans:
        talk = span.attributes.text("gen_ai.conversation.id")
        if talk:
            talks.setdefault(span.trace, talk)
            named[span.trace, span.id] = talk
    for span in spans:
        # Its own conversation, that of the nearest span around it, or the first one of its trace.
        own, seen = span.id, set[str]()
        while own and own not in seen and (span.trace, own) not in named:
            seen.add(own)
            own = above.get((span.trace, own), "")
        group = named.get((span.trace, own)) or talks.get(span.trace, span.trace)
        groups.setdefault(group, []).append(span)
    for found in groups.values():
        yield _Trace(name, load).bundle(found, origin)


class _Trace:
    def __init__(self, name: str, load: Loader | None) -> None:
        self._name = name
        self._branches = Branches()
        self._reading = Reading(load, self._branches.blobs)

    def bundle(self, spans: list[Span], origin: Origin) -> Bundle:
        calls: list[Call] = []
        made: dict[str, Call | None] = {}
        tools: set[str] = set()
        answers: list[Answer] = []
        others: Counter[str] = Counter()
        agents: list[Span] = []
        outer: list[Said] = []
        for span in spans:
            operation = span.attributes.text("gen_ai.operation.name")
            call = self._call(span) if operation in (*_CALLS, "") else None
            if call is not None or operation in _CALLS:
                made[span.id] = call
            elif operation == "execute_tool":
                tools.add(span.id)
            if call is not None:
                calls.append(call)
            elif operation == "execute_tool" and "gen_ai.tool.call.id" in span.attributes:
                answers.append(self._answer(span))
            elif operation == "invoke_agent":
                agents.append(span)
                outer = outer or self._messages(span.attributes, "gen_ai.input.messages")
            else:
                others[operation or span.name] += 1
        if not calls and outer:
            calls.append(Call(sent=tuple(outer), said=()))
        loose = fold(self._branches, KEPT, calls, answers)
        self._branches.follow([said.message for said in outer])
        kept: Json = {"trace": sorted({span.trace for span in spans})}
        if loose:
            others["execute_tool"] += loose
        if others:
            kept["other_spans"] = dict(others)
        if agents:
            kept["agent"] = agents[0].attributes.rest(*_READ)
        started = min((span.started for span in spans if span.started), default=0.0)
        finished = max((span.ended for span in spans), default=0.0)
        whole, last = broken(spans, made, tools)
        tell = ended(self._branches, whole, *((made[last.id], last.error) if last is not None else (None, "")))
        agent = agents[0].attributes.text("gen_ai.agent.name") if agents else ""
        line = spans[0].attributes.line

        def ending(leaf: int) -> Ending:
            return Ending(agent=agent, outcome=tell(leaf), started=started, finished=finished, attributes={KEPT: kept})

        return self._branches.grow(origin, ending, self._name, line, spans[0].trace)

    def _call(self, span: Span) -> Call | None:
        """The model call a span tells of; None where it tells of no message."""
        told = span.attributes
        for event in span.events:
            if any(key in event.attributes for key in _MESSAGES):
                told = told.inside("", {**event.attributes.value, **told.value})
        sent = [*self._instructions(told), *self._messages(told, "gen_ai.input.messages")]
        said = self._messages(told, "gen_ai.output.messages")
        if not sent and not said:
            sent, said = self._events(span)
        if not sent and not said:
            sent, said = self._flat(told)
        if not sent and not said:
            return None
        kept = told.rest(*_READ)
        for key in [key for key in kept if _FLAT.fullmatch(key)]:
            kept.pop(key)
        kept["span"] = span.id
        if span.error:
            kept["error"] = span.error
        reasons = [item for item in told.items("gen_ai.response.finish_reasons") if isinstance(item, str)]
        return Call(
            sent=tuple(sent),
            said=tuple(said),
            tools=self._tools(told),
            model=told.text("gen_ai.response.model") or told.text("gen_ai.request.model"),
            usage=Usage(
                prompt_tokens=told.whole("gen_ai.usage.input_tokens") or told.whole("gen_ai.usage.prompt_tokens"),
                completion_tokens=told.whole("gen_ai.usage.output_tokens")
                or told.whole("gen_ai.usage.completion_tokens"),
                cached_tokens=told.whole("gen_ai.usage.cache_read.input_tokens"),
                model_seconds=max(0.0, span.ended - span.started),
            ),
            finish_reasons=tuple(reasons),
            started=span.started,
            prompt_ids=_ids(told, "prompt_token_ids"),
            sampled_ids=_ids(told, "response_token_ids"),
            attributes=kept,
        )

    def _answer(self, span: Span) -> Answer:
        told = span.attributes
        result: Any = told.value.get("gen_ai.tool.call.result")
        words = result if isinstance(result, str) else "" if result is None else json.dumps(result, ensure_ascii=False)
        parts = (TextPart(text=words),) if words else ()
        message = Message(role="tool", parts=parts, tool_call_id=told.text("gen_ai.tool.call.id"))
        kept = told.rest(*_READ)
        kept["span"] = span.id
        if span.error:
            kept["error"] = span.error
        seconds = max(0.0, span.ended - span.started)
        return Answer(said=Said(message, {}), started=span.started, seconds=seconds, attributes=kept)

    def _instructions(self, told: Row) -> list[Said]:
        value = told.unpacked("gen_ai.system_instructions") if "gen_ai.system_instructions" in told else None
        if value is None:
            return []
        row = told.inside("gen_ai.system_instructions", {"parts": value})
        return self._reading.said("system", row, "parts")

    def _messages(self, told: Row, key: str) -> list[Said]:
        value = told.unpacked(key) if key in told else None
        if value is None:
            return []
        if not isinstance(value, list):
            raise told.error(key, f"must be a list of messages, this is {kind(value)}")
        found: list[Said] = []
        for row in told.inside("", {key: value}).rows(key):
            content = "parts" if "parts" in row else "content"
            for said in self._reading.chat(row, content):
                said.kept.pop("finish_reason", None)
                found.append(said)
        return found

    def _events(self, span: Span) -> tuple[list[Said], list[Said]]:
        """The older form: an event for each message."""
        sent: list[Said] = []
        said: list[Said] = []
        for event in span.events:
            side, _, rest = event.name.removeprefix(PREFIX).partition(".")
            if event.name == "gen_ai.choice":
                inner = event.attributes
                message = inner.inside("message", inner.unpacked("message")) if "message" in inner else inner
                said += self._spoken(message, "assistant")
            elif event.name.startswith(PREFIX) and rest == "message":
                sent += self._spoken(event.attributes, side)
        return sent, said

    def _spoken(self, row: Row, role: str) -> list[Said]:
        value: Json = {key: row.value[key] for key in ("content", "name") if key in row}
        if "tool_calls" in row:
            value["tool_calls"] = row.unpacked("tool_calls")
        value["role"] = row.text("role") or role
        if value["role"] == "tool":
            value["tool_call_id"] = row.text("id") or None
        return self._reading.chat(row.inside("", value))

    def _flat(self, told: Row) -> tuple[list[Said], list[Said]]:
        """Another older form: `gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.0.name`."""
        sides: dict[str, dict[int, Json]] = {"prompt": {}, "completion": {}}
        for key, value in told.value.items():
            if found := _FLAT.fullmatch(key):
                message = sides[found["side"]].setdefault(int(found["place"]), {})
                if call := _FLAT_CALL.fullmatch(found["field"]):
                    calls = cast(dict[int, Json], message.setdefault("tool_calls", {}))
                    calls.setdefault(int(call["place"]), {})[call["field"]] = value
                else:
                    message[found["field"]] = value
        return self._ordered(told, sides["prompt"], "user"), self._ordered(told, sides["completion"], "assistant")

    def _ordered(self, told: Row, messages: dict[int, Json], role: str) -> list[Said]:
        found: list[Said] = []
        for place, message in sorted(messages.items()):
            calls = cast(dict[int, Json], message.pop("tool_calls", {}))
            value: Json = {"role": role, **message, "tool_calls": [calls[at] for at in sorted(calls)]}
            found += self._reading.chat(told.inside(f"gen_ai[{place}]", value))
        return found

    def _tools(self, told: Row) -> tuple[Tool, ...] | None:
        key = "gen_ai.tool.definitions"
        value = told.unpacked(key) if key in told else None
        if not isinstance(value, list):
            return None
        found: list[Tool] = []
        for row in told.inside("", {key: value}).rows(key):
            inner = row.row("function") if isinstance(row.value.get("function"), dict) else row
            parameters: Any = inner.value.get("parameters")
            schema = cast(Json, parameters) if isinstance(parameters, dict) else {}
            found.append(Tool(name=inner.text("name"), description=inner.text("description"), parameters=schema))
        return tuple(found)


def _ids(told: Row, key: str) -> tuple[int, ...] | None:
    value: Any = told.unpacked(key) if isinstance(told.value.get(key), str) else told.value.get(key)
    if not isinstance(value, list):
        return None
    items: Iterable[Any] = cast(list[Any], value)
    ids = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
    return ids if len(ids) == len(cast(list[Any], value)) else None
