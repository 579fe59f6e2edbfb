"""OTLP bodies, as protobuf or JSON: each span becomes an arrival that can be read by itself.

    body ─▶ resource · scope · span … ─▶ one document a span (its resource and scope with it), bytes as they came

Fields that this Silva does not know travel on: protobuf keeps them, and JSON is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from silva.errors import MissingError
from silva.lake.ingest.limits import Limits, Refused, depth_of
from silva.lake.ingest.taken import Taken

CONVERSATIONS = ("gen_ai.conversation.id", "session.id")
"""Attributes that name a conversation, which may have several traces."""
_ROOTS = (b"\0" * 8, b"")
_json = msgspec.json.Encoder()


@cache
def _request(logs: bool) -> Any:
    """Protobuf's class of a request of spans, or of log records."""
    try:
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError as error:
        raise MissingError("OTLP as protobuf needs: pip install 'silva[ingest]' (JSON works without)") from error
    return ExportLogsServiceRequest if logs else ExportTraceServiceRequest


def take_protobuf(body: bytes, taken: Taken, limits: Limits, logs: bool = False) -> None:
    """Take the spans (or log records) of a protobuf body.

    Raises:
        Refused: it is none, or has more of them than may be sent at once.
        MissingError: protobuf's classes are not installed.
    """
    kind = _request(logs)
    from google.protobuf.message import DecodeError

    try:
        request = kind.FromString(body)
    except DecodeError as error:
        raise Refused(400, f"the body is no OTLP protobuf ({error}); send it as the content type says") from error
    seen = 0
    for resource in request.resource_logs if logs else request.resource_spans:
        head = _field(1, resource.resource.SerializeToString())
        service = next((pair.value.string_value for pair in resource.resource.attributes if _names(pair)), "")
        for scope in resource.scope_logs if logs else resource.scope_spans:
            named = _field(1, scope.scope.SerializeToString())
            records = scope.log_records if logs else scope.spans
            seen += len(records)
            if seen > limits.spans:
                raise Refused(413, f"the request brings more than {limits.spans} spans; send them in smaller batches")
            for record in records:
                raw = record.SerializeToString()
                trace, span = record.trace_id.hex(), record.span_id.hex()
                if why := _wrong(trace, span, len(raw), len(record.attributes), limits, logs):
                    taken.refuse(why)
                    continue
                conversation = ""
                if b"gen_ai.conversation.id" in raw or b"session.id" in raw:
                    conversation = next((p.value.string_value for p in record.attributes if p.key in CONVERSATIONS), "")
                # A document of the one span: field 1 of the whole is its resource's spans, field 2 of that its scope's.
                data = _field(1, head + _field(2, named + _field(2, raw)))
                taken.add(
                    "log" if logs else "span",
                    "otlp-logs" if logs else "otlp",
                    trace,
                    span,
                    data,
                    service=service,
                    conversation=conversation[:200],
                    root=not logs and record.parent_span_id in _ROOTS,
                    started=(record.time_unix_nano if logs else record.start_time_unix_nano) / 1e9,
                )


def take_json(body: bytes, taken: Taken, limits: Limits, logs: bool = False) -> None:
    """Take the spans (or log records) of a JSON body.

    Raises:
        Refused: it is none, or has more of them than may be sent at once.
    """
    document = parsed(body, limits)
    outer, inner, many = (
        ("resourceLogs", "scopeLogs", "logRecords") if logs else ("resourceSpans", "scopeSpans", "spans")
    )
    if not isinstance(document, dict) or not isinstance(document.get(outer), list):
        raise Refused(400, f"the body is no OTLP JSON: {outer} must be a list")
    seen = 0
    for resource in _objects(document[outer], outer):
        about = resource.get("resource")
        service = _attribute(about, ("service.name",)) if isinstance(about, dict) else ""
        for scope in _objects(resource.get(inner, []), inner):
            for record in _objects(scope.get(many, []), many):
                seen += 1
                if seen > limits.spans:
                    raise Refused(413, f"the request brings more than {limits.spans} spans; send smaller batches")
                one = {outer: [{**resource, inner: [{**scope, many: [record]}]}]}
                data = _json.encode(one)
                trace, span = _id(record.get("traceId")), _id(record.get("spanId"))
                given = record.get("attributes")
                count = len(given) if isinstance(given, list) else 0
                if why := _wrong(trace, span, len(data), count, limits, logs):
                    taken.refuse(why)
                    continue
                taken.add(
                    "log" if logs else "span",
                    "otlp-json",
                    trace,
                    span,
                    data,
                    service=service,
                    conversation=_attribute(record, CONVERSATIONS)[:200],
                    root=not logs and not _id(record.get("parentSpanId")).strip("0"),
                    started=_seconds(record.get("timeUnixNano" if logs else "startTimeUnixNano")),
                )


def parsed(body: bytes, limits: Limits) -> Any:
    """The JSON of a body.

    Raises:
        Refused: it is none, or is nested too deep.
    """
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON ({error})") from error
    # Around a span's values there are a dozen levels of OTLP's own.
    if depth_of(document, limits.depth + 12) > limits.depth + 12:
        raise Refused(400, f"the body is nested deeper than {limits.depth} levels")
    return document


def document(form: str, data: bytes) -> Any:
    """The JSON document of an arrival.

    Raises:
        MissingError: it came as protobuf, whose classes are not installed here.
    """
    if form not in ("otlp", "otlp-logs"):
        return msgspec.json.decode(data)
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(_request(form == "otlp-logs").FromString(data))


def scrubbed(form: str, data: bytes, clean: Callable[[str], str]) -> bytes:
    """An arrival's protobuf with every text in it cleaned."""
    message = _request(form == "otlp-logs").FromString(data)
    _clean(message, clean)
    return message.SerializeToString()


def _clean(message: Any, clean: Callable[[str], str]) -> None:
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for each in value if field.is_repeated else (value,):
                _clean(each, clean)
        elif field.type == field.TYPE_STRING:
            if field.is_repeated:
                value[:] = [clean(each) for each in value]
            elif (better := clean(value)) is not value:
                setattr(message, field.name, better)


def _wrong(trace: str, span: str, size: int, attributes: int, limits: Limits, logs: bool) -> str:
    """Why an item is not taken; "" where it is."""
    if not trace.strip("0"):
        return "a log record names no trace" if logs else "a span has no trace id"
    if not logs and not span.strip("0"):
        return f"a span of trace {trace[:32]} has no id"
    if len(trace) > 64 or len(span) > 64:
        return "a trace or span id is longer than 64 characters"
    if size > limits.span:
        return f"span {span} has {size} bytes, more than {limits.span}"
    if attributes > limits.attributes:
        return f"span {span} has {attributes} attributes, more than {limits.attributes}"
    return ""


def _names(pair: Any) -> bool:
    return pair.key == "service.name"


def _field(number: int, data: bytes) -> bytes:
    """A field of protobuf that holds bytes."""
    size, head = len(data), bytearray([number << 3 | 2])
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def _objects(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Refused(400, f"the body is no OTLP JSON: {where} must be a list of objects")
    return value


def _attribute(record: dict[str, Any], names: tuple[str, ...]) -> str:
    for pair in record.get("attributes") or ():
        if isinstance(pair, dict) and pair.get("key") in names and isinstance(pair.get("value"), dict):
            found = pair["value"].get("stringValue")
            if isinstance(found, str):
                return found
    return ""


def _id(value: Any) -> str:
    return value.lower() if isinstance(value, str) and value.isascii() else ""


def _seconds(value: Any) -> float:
    try:
        return int(value) / 1e9
    except (TypeError, ValueError, OverflowError):
        return 0.0
