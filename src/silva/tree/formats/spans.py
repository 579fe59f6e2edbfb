"""Spans: what OpenTelemetry exports as JSON (OTLP), of any instrumentation.

resourceSpans ─▶ scopeSpans ─▶ spans      ┐
resourceLogs ─▶ scopeLogs ─▶ logRecords   ┴─▶ Span … (attributes as plain values, log records as events of theirs)
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.values import Row
from silva.tree.message import Json

GENAI, OPENINFERENCE, LANGFUSE = "gen_ai.", "openinference.", "langfuse.observation."
_CONTAINERS = {
    "resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "instrumentationLibrarySpans", "spans", "events",
    "resourceLogs", "scopeLogs", "logRecords",
}  # fmt: skip
_DEEPEST = 12


class Event:
    """Something that happened within a span: its name, Unix seconds, and its attributes."""

    __slots__ = ("attributes", "name", "time")

    def __init__(self, name: str, time: float, attributes: Row) -> None:
        self.name, self.time, self.attributes = name, time, attributes


class Span:
    """One span. `started` and `ended` are Unix seconds; ids are texts as the file has them."""

    __slots__ = ("attributes", "ended", "error", "events", "id", "name", "parent", "scope", "started", "trace")

    def __init__(
        self,
        *,
        id: str,
        trace: str,
        parent: str,
        name: str,
        started: float,
        ended: float,
        attributes: Row,
        events: list[Event],
        error: str = "",
        scope: str = "",
    ) -> None:
        self.id, self.trace, self.parent, self.name = id, trace, parent, name
        self.started, self.ended, self.attributes, self.events = started, ended, attributes, events
        self.error, self.scope = error, scope


def broken(spans: list[Span], calls: Collection[str], tools: Collection[str]) -> tuple[str, Span | None]:
    """The error of a trace as a whole, and the last of its model calls where that one failed.

    A span inside may fail and the trace go on; the outermost speaks for the whole. Where a conversation has several
    traces, its last one does. `calls` and `tools` are the ids of model calls and of tool runs.
    """
    known = {span.id for span in spans}
    inner = {*calls, *tools}
    outer = [span for span in spans if span.id not in inner and (not span.parent or span.parent not in known)]
    made = [span for span in spans if span.id in calls]
    whole = max(outer, key=lambda span: span.started, default=None)
    last = max(made, key=lambda span: span.started, default=None)
    return whole.error if whole is not None else "", last if last is not None and last.error else None


def is_otlp(value: Any) -> bool:
    """Whether a value is an OTLP document of spans or log records."""
    keys = set(cast(Json, value)) if isinstance(value, dict) else set[str]()
    return bool({"resourceSpans", "resource_spans", "resourceLogs"} & keys)


def convention(sample: bytes, value: Any) -> str:
    """Whose conventions a file of OTLP documents keeps, by its attributes' keys: GENAI, OPENINFERENCE, LANGFUSE or ""
    (none of them).

    Args:
        sample: the file's bytes: where its first document says nothing of it, the next ones are asked.
        value: its first document.
    """
    documents = itertools.chain([value], map(_document_of, sample.lstrip().split(b"\n")[1:]))
    for document in documents:
        keys = set(_keys(document, 0))
        for known in (OPENINFERENCE, GENAI, LANGFUSE):
            if any(key.startswith(known) for key in keys):
                return known
    return ""


def _document_of(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _keys(value: Any, depth: int) -> Iterator[str]:
    """The keys of all attributes, and the names of log records, which the older GenAI conventions tell messages by."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _keys(item, depth + 1)
    elif isinstance(value, dict):
        for name, inner in cast(Json, value).items():
            if name == "attributes":
                yield from _named(inner)
            elif name == "eventName" and isinstance(inner, str):
                yield inner
            elif name in _CONTAINERS:
                yield from _keys(inner, depth + 1)


def _named(attributes: Any) -> Iterator[str]:
    if isinstance(attributes, dict):
        yield from cast(Json, attributes)
    for pair in cast(list[Any], attributes) if isinstance(attributes, list) else ():
        key: Any = cast(Json, pair).get("key") if isinstance(pair, dict) else None
        if isinstance(key, str):
            yield key


def spans(found: Iterable[Row]) -> list[Span]:
    """All spans of a file's documents, in order, each once; log records join the span they name.

    Raises:
        FormatError: with line and field.
    """
    known: list[Span] = []
    by_id: dict[str, Span] = {}
    taken: set[tuple[str, str]] = set()
    loose: list[tuple[str, Event]] = []
    logged: set[str] = set()
    for row in found:
        for span in _document(row):
            # A file that was exported twice, or put together of others, repeats spans under their ids.
            if span.id and (span.trace, span.id) in taken:
                continue
            taken.add((span.trace, span.id))
            known.append(span)
            by_id[span.id] = span
        records = [(json.dumps(record.value, sort_keys=True), record) for record in _records(row)]
        loose += [_log(record) for text, record in records if text not in logged]
        logged |= {text for text, _ in records}
    for span_id, event in loose:
        if span_id in by_id:
            by_id[span_id].events.append(event)
    return known


def encoded(value: Any) -> Json:
    """A plain value as OTLP writes it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [encoded(item) for item in cast(list[Any], value)]}}
    return {"stringValue": str(value)}


def pairs(values: Json) -> list[Json]:
    """Attributes as OTLP lists them."""
    return [{"key": key, "value": encoded(value)} for key, value in values.items()]


def _document(row: Row) -> Iterator[Span]:
    for resource in _rows(row, "resourceSpans", "resource_spans"):
        for scope in _rows(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            name = scope.row("scope").text("name")
            for span in scope.rows("spans"):
                yield _span(span, name)


def _span(row: Row, scope: str) -> Span:
    status = row.row("status")
    code: Any = status.value.get("code")
    failed = code in (2, "STATUS_CODE_ERROR")
    attributes = _attributes(row)
    events = [
        Event(event.text("name"), _nanoseconds(event, "timeUnixNano", "time_unix_nano"), _attributes(event))
        for event in row.rows("events")
    ]
    return Span(
        id=_id(row, "spanId", "span_id"),
        trace=_id(row, "traceId", "trace_id"),
        parent=_id(row, "parentSpanId", "parent_span_id"),
        name=row.text("name"),
        started=_nanoseconds(row, "startTimeUnixNano", "start_time_unix_nano"),
        ended=_nanoseconds(row, "endTimeUnixNano", "end_time_unix_nano"),
        attributes=attributes,
        events=events,
        error=(status.text("message") or _raised(attributes, events)) if failed else "",
        scope=scope,
    )


def _raised(attributes: Row, events: list[Event]) -> str:
    """What a span that failed says of it elsewhere than in its status."""
    said = [event.attributes.value.get("exception.message") for event in reversed(events)]
    said.append(attributes.value.get("error.type"))
    return next((text for text in said if isinstance(text, str) and text), "error")


def _records(row: Row) -> Iterator[Row]:
    for resource in row.rows("resourceLogs"):
        for scope in resource.rows("scopeLogs"):
            yield from scope.rows("logRecords")


def _log(record: Row) -> tuple[str, Event]:
    """The id of the span that a log record belongs to, and the event it is."""
    attributes = _attributes(record)
    body = _value(record.row("body")) if "body" in record else None
    name = record.text("eventName") or str(attributes.value.get("event.name") or "")
    merged = {**attributes.value, **(cast(Json, body) if isinstance(body, dict) else {})}
    event = Event(name, _nanoseconds(record, "timeUnixNano"), attributes.inside("", merged))
    return _id(record, "spanId"), event


def _attributes(row: Row) -> Row:
    given: Any = row.value.get("attributes")
    if isinstance(given, dict):  # some exporters write them as an object
        return row.row("attributes")
    values: Json = {}
    for pair in row.rows("attributes"):
        values[pair.text("key")] = _value(pair.row("value"))
    return row.inside("attributes", values)


def _value(row: Row) -> Any:
    """The plain value of an AnyValue."""
    for key, value in row.value.items():
        match key:
            case "stringValue" | "string_value":
                return row.text(key)
            case "intValue" | "int_value":
                return int(row.number(key) or 0)
            case "doubleValue" | "double_value":
                return value if value in ("NaN", "Infinity", "-Infinity") else row.number(key)
            case "boolValue" | "bool_value":
                return row.flag(key)
            case "arrayValue" | "array_value":
                return [_value(item) for item in row.row(key).rows("values")]
            case "kvlistValue" | "kvlist_value":
                return {pair.text("key"): _value(pair.row("value")) for pair in row.row(key).rows("values")}
            case "bytesValue" | "bytes_value":
                return row.text(key)
            case _:
                raise row.error(key, "unknown kind of value")
    return None


def _rows(row: Row, *keys: str) -> list[Row]:
    return next((row.rows(key) for key in keys if key in row), list[Row]())


def _nanoseconds(row: Row, *keys: str) -> float:
    return next((row.number(key) or 0.0 for key in keys if key in row), 0.0) / 1e9


def _id(row: Row, *keys: str) -> str:
    """An id in hexadecimal; protobuf's own JSON writes it in base64."""
    said = next((row.text(key) for key in keys if key in row), "")
    if len(said) in (12, 24):
        try:
            return base64.b64decode(said, validate=True).hex()
        except binascii.Error:
            return said
    return said.lower()
