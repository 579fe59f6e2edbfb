"""Phoenix: spans of the OpenInference conventions, as Arize Phoenix exports them. Read only.

    OTLP JSON, span rows (REST, JSONL) or a data frame's JSON ─▶ one shape ─▶ nested attributes ─▶ Call … ─▶ fold

Attributes come flat (`llm.input_messages.0.message.role`), half flat or nested; all are made nested first. LLM spans
are the calls, TOOL spans the answers where they name a call's id; other kinds are counted on the trajectory.
Annotations and whatever else stands on an LLM span are kept under `attributes["phoenix"]` of the reply.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from silva.tree.formats.blocks import Reading, Said
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.calls import Answer, Call, ended, fold
from silva.tree.formats.chat import read_tool
from silva.tree.formats.draft import Origin
from silva.tree.formats.images import Loader
from silva.tree.formats.spans import OPENINFERENCE, Span, broken, convention, is_otlp, spans
from silva.tree.formats.twigs import Branches, Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json, Message, TextPart, Tool
from silva.tree.node import Usage
from silva.tree.run import Run

KEPT = "phoenix"
_MARKS = ("attributes.llm", "attributes.openinference")
_DEEPEST = 64


def recognise(sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a span with OpenInference's attributes, or a data frame of them."""
    if is_otlp(value):
        return convention(sample, value) == OPENINFERENCE
    row = cast(Json, value) if isinstance(value, dict) else {}
    framed = bool({"context.trace_id", "context.span_id"} & set(row))
    inner: Any = row.get("attributes")
    told = {*row, *(f"attributes.{key}" for key in (cast(Json, inner) if isinstance(inner, dict) else {}))}
    return (framed or "context" in row) and any(key == "span_kind" or key.startswith(_MARKS) for key in told)


def read(
    lines: Iterable[str | bytes], name: str = "spans.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each session that spans name, and for each other trace.

    Args:
        lines: the file's lines, newlines kept.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    found = [(span, nested(span.attributes)) for span in _spans(lines, name)]
    sessions: dict[str, str] = {}
    for span, told in found:
        session = told.row("session").text("id")
        if session:
            sessions.setdefault(span.trace, session)
    groups: dict[str, list[tuple[Span, Row]]] = {}
    for span, told in found:
        groups.setdefault(sessions.get(span.trace, span.trace), []).append((span, told))
    for group in groups.values():
        yield _Trace(name, load).bundle(group, Origin(run=Run(id=run)))


def nested(row: Row) -> Row:
    """Attributes as objects and lists, however flat they were.

    Raises:
        FormatError: a value and fields of it at one path.
    """
    return row.inside("", _nested(row, row.value, 0))


def _nested(row: Row, value: Json, depth: int) -> Json:
    if depth > _DEEPEST:
        raise row.error("attributes", "is nested too deep")
    found: Json = {}
    for key, item in value.items():
        if item is None:
            continue
        steps = key.split(".")
        if len(steps) > _DEEPEST:
            raise row.error(key, "is nested too deep")
        at = found
        for step in steps[:-1]:
            inner: Any = at.setdefault(step, {})
            if not isinstance(inner, dict):
                raise row.error(key, f"stands beside a value of {step!r}")
            at = cast(Json, inner)
        last, new = steps[-1], _item(row, item, depth)
        known: Any = at.get(last)
        if isinstance(known, dict) and isinstance(new, dict):
            at[last] = {**cast(Json, known), **cast(Json, new)}
        else:
            at[last] = new
    return {key: _listed(item) for key, item in found.items()}


def _item(row: Row, item: Any, depth: int) -> Any:
    if isinstance(item, dict):
        return _nested(row, cast(Json, item), depth + 1)
    if isinstance(item, list):
        return [_item(row, each, depth + 1) for each in cast(list[Any], item)]
    return item


def _listed(item: Any) -> Any:
    """An object whose keys count from 0 is a list."""
    if not isinstance(item, dict):
        return item
    inner: Json = {key: _listed(each) for key, each in cast(Json, item).items()}
    if inner and all(key.isdecimal() and key.isascii() for key in inner):
        return [inner[key] for key in sorted(inner, key=int)]
    return inner


def _spans(lines: Iterable[str | bytes], name: str) -> list[Span]:
    otlp: list[Row] = []
    found: list[Span] = []
    for row in rows(lines, name):
        if is_otlp(row.value):
            otlp.append(row)
        elif isinstance(row.value.get("context.span_id"), dict):
            found += [_span(each) for each in _frame(row)]
        else:
            found.append(_span(row))
    once = {(span.trace, span.id): span for span in reversed(found)}  # the first of a span written twice
    return [*spans(otlp), *reversed(once.values())]


def _frame(row: Row) -> Iterator[Row]:
    """The rows of a data frame that was written column by column."""
    for number in row.row("context.span_id").value:
        columns = {key: cast(Json, column).get(number) for key, column in row.value.items() if isinstance(column, dict)}
        yield Row(columns, row.name, row.line, f"[{number}]")


def _span(row: Row) -> Span:
    context = row.row("context") if "context" in row else row
    trace = context.text("trace_id") or row.text("context.trace_id")
    own = context.text("span_id") or row.text("context.span_id") or row.text("id")
    if not own:
        raise row.error("context.span_id", "required field is missing")
    given = row.row("attributes").value if "attributes" in row else {}
    flat = {key.removeprefix("attributes."): item for key, item in row.value.items() if key.startswith("attributes.")}
    attributes: Json = {**given, **flat}
    kind = row.text("span_kind")
    if kind:
        attributes.setdefault("openinference.span.kind", kind)
    annotations = row.rest(
        "context", "context.trace_id", "context.span_id", "attributes", "span_kind", "name", "id", "parent_id",
        "start_time", "end_time", "status_code", "status_message", "events", *(f"attributes.{key}" for key in flat),
    )  # fmt: skip
    if annotations:
        attributes["_row"] = annotations
    failed = row.text("status_code").upper() == "ERROR"
    return Span(
        id=own,
        trace=trace,
        parent=row.text("parent_id"),
        name=row.text("name"),
        started=row.moment("start_time"),
        ended=row.moment("end_time"),
        attributes=row.inside("attributes", attributes),
        events=[],
        error=(row.text("status_message") or "error") if failed else "",
    )


class _Trace:
    def __init__(self, name: str, load: Loader | None) -> None:
        self._name = name
        self._branches = Branches()
        self._reading = Reading(load, self._branches.blobs)

    def bundle(self, found: list[tuple[Span, Row]], origin: Origin) -> Bundle:
        calls: list[Call] = []
        made: dict[str, Call | None] = {}
        tools: set[str] = set()
        answers: list[Answer] = []
        others: Counter[str] = Counter()
        outer: Json = {}
        for span, told in found:
            kind = told.row("openinference").row("span").text("kind").upper()
            call = self._call(span, told) if kind in ("LLM", "") else None
            answer = self._answer(span, told) if kind == "TOOL" else None
            if call is not None or kind == "LLM":
                made[span.id] = call
            elif kind == "TOOL":
                tools.add(span.id)
            if call is not None:
                calls.append(call)
            elif answer is not None:
                answers.append(answer)
            else:
                others[kind or span.name] += 1
                if not span.parent:
                    outer = told.value
        others["TOOL"] += fold(self._branches, KEPT, calls, answers)
        kept: Json = {"trace": sorted({span.trace for span, _ in found})}
        counted = {kind: count for kind, count in others.items() if count}
        if counted:
            kept["other_spans"] = counted
        if outer:
            kept["outer"] = outer
        whole, last = broken([span for span, _ in found], made, tools)
        tell = ended(self._branches, whole, *((made[last.id], last.error) if last is not None else (None, "")))
        started = min((span.started for span, _ in found if span.started), default=0.0)
        finished, first = max(span.ended for span, _ in found), found[0][0]

        def ending(leaf: int) -> Ending:
            return Ending(outcome=tell(leaf), started=started, finished=finished, attributes={KEPT: kept})

        return self._branches.grow(origin, ending, self._name, first.attributes.line, kept["trace"][0])

    def _call(self, span: Span, told: Row) -> Call | None:
        model = told.row("llm")
        sent = [each for row in model.rows("input_messages") for each in self._message(row)]
        said = [each for row in model.rows("output_messages") for each in self._message(row)]
        if not sent and not said:
            return None
        counts, cost = model.row("token_count"), model.row("cost")
        # `input` and `output` say the same once more, as the provider's JSON.
        kept = told.rest("openinference", "llm", "input", "output")
        rest = model.rest("input_messages", "output_messages", "tools", "token_count", "model_name", "finish_reason")
        kept |= {"llm": rest} if rest else {}
        kept["span"] = span.id
        if span.error:
            kept["error"] = span.error
        reason = model.text("finish_reason")
        return Call(
            sent=tuple(sent),
            said=tuple(said),
            tools=self._tools(model),
            model=model.text("model_name"),
            usage=Usage(
                prompt_tokens=counts.whole("prompt"),
                completion_tokens=counts.whole("completion"),
                cached_tokens=counts.row("prompt_details").whole("cache_read"),
                usd=(cost.number("total") or 0.0) if "total" in cost else 0.0,
                model_seconds=max(0.0, span.ended - span.started),
            ),
            finish_reasons=(reason,) if reason else (),
            started=span.started,
            attributes=kept,
        )

    def _message(self, row: Row) -> list[Said]:
        """One message: `message.role`, `message.content` or `message.contents`, `message.tool_calls`."""
        inner = row.row("message") if "message" in row else row
        value = dict(inner.value)
        if isinstance(value.get("contents"), list):
            value["content"] = [_block(item) for item in cast(list[Any], value.pop("contents"))]
        value.setdefault("role", "assistant")
        return self._reading.chat(Row(value, inner.name, inner.line, inner.field))

    def _answer(self, span: Span, told: Row) -> Answer | None:
        tool = told.row("tool")
        call_id = told.row("tool_call").text("id") or tool.text("id") or tool.row("call").text("id")
        if not call_id:
            return None
        value: Any = told.row("output").value.get("value")
        words = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
        message = Message(
            role="tool",
            parts=(TextPart(text=words),) if words else (),
            tool_call_id=call_id,
            name=tool.text("name") or None,
        )
        kept: Json = {**told.rest("openinference", "output"), "span": span.id}
        if span.error:
            kept["error"] = span.error
        return Answer(
            said=Said(message, {}), started=span.started, seconds=max(0.0, span.ended - span.started), attributes=kept
        )

    def _tools(self, model: Row) -> tuple[Tool, ...] | None:
        if "tools" not in model:
            return None
        found: list[Tool] = []
        for row in model.rows("tools"):
            inner = row.row("tool") if "tool" in row else row
            schema = inner.unpacked("json_schema") if "json_schema" in inner else inner.value
            try:
                found.append(read_tool(schema))
            except msgspec.ValidationError as error:
                raise inner.error("json_schema", f"is no tool definition ({error})") from error
        return tuple(found)


def _block(item: Any) -> Any:
    """A content of OpenInference as a block of the providers' forms."""
    if not isinstance(item, dict):
        return item
    inner: Any = cast(Json, item).get("message_content", item)
    if not isinstance(inner, dict):
        return inner
    block = dict(cast(Json, inner))
    image: Any = block.get("image")
    picture: Any = cast(Json, image).get("image", image) if isinstance(image, dict) else None
    if isinstance(picture, dict):
        return {"type": "image", "url": cast(Json, picture).get("url")}
    return block
