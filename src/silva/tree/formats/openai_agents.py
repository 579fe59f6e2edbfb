"""OpenAI Agents: the items its tracing exporter posts, one a line or as `{"data": […]}`. Read only.

    trace · generation, response: a model call · function: a tool run ─▶ folded into walks ─▶ one tree a trace

A function span does not name the call it answers; it is matched by the tool's name and arguments. A response span has
its messages only where the exporter sent them (`silva.lake.ingest.agents` does); OpenAI's own sends the response's id.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.blocks import Reading, Said
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.calls import Answer, Call, ended, fold
from silva.tree.formats.draft import Origin
from silva.tree.formats.images import Loader
from silva.tree.formats.responses import is_items, messages
from silva.tree.formats.twigs import Branches, Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json, Message, TextPart
from silva.tree.node import Usage
from silva.tree.run import Run

KEPT = "openai-agents"


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a trace item, or a request of them."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    data: Any = row.get("data")
    first: Any = cast(list[Any], data)[0] if isinstance(data, list) and data else row
    return isinstance(first, dict) and cast(Json, first).get("object") in ("trace", "trace.span")


def read(
    lines: Iterable[str | bytes], name: str = "trace.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each trace, or for each group that traces name.

    Args:
        lines: the file's lines.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    about: dict[str, Row] = {}
    spans: dict[str, dict[str, Row]] = {}
    for row in rows(lines, name):
        for item in row.rows("data") if "data" in row else [row]:
            kind = item.text("object")
            if kind == "trace":
                about[item.text("id")] = item
            elif kind == "trace.span":
                if not item.text("trace_id"):
                    raise item.error("trace_id", "required field is missing")
                spans.setdefault(item.text("trace_id"), {})[item.text("id")] = item
            else:
                raise item.error("object", "must be trace or trace.span")
    groups: dict[str, list[str]] = {}
    for trace in spans:
        group = about[trace].value.get("group_id") if trace in about else None
        groups.setdefault(group if isinstance(group, str) and group else trace, []).append(trace)
    for traces in groups.values():
        told = next((about[trace] for trace in traces if trace in about), None)
        yield _bundle(traces, told, [span for trace in traces for span in spans[trace].values()], run, load)


def _bundle(traces: list[str], about: Row | None, spans: list[Row], run: str, load: Loader | None) -> Bundle:
    branches = Branches()
    reading = Reading(load, branches.blobs)
    calls: list[Call] = []
    answers: list[Answer] = []
    open_calls: list[tuple[str, str, str]] = []
    others: Counter[str] = Counter()
    last: Call | None = None
    broke = agent = ""
    for span in sorted(spans, key=lambda each: each.moment("started_at")):
        data = span.row("span_data")
        kind = data.text("type")
        call = _call(reading, span, data) if kind in ("generation", "response") else None
        answer = _answer(span, data, open_calls) if kind == "function" else None
        if call is not None:
            calls.append(call)
            open_calls += [
                (m.name, _canonical(m.arguments), m.id) for said in call.said for m in said.message.tool_calls
            ]
            last, broke = call, _error(span)
        elif answer is not None:
            answers.append(answer)
        else:
            others[kind] += 1
            agent = agent or (data.text("name") if kind == "agent" else "")
    others["function"] += fold(branches, KEPT, calls, answers)
    kept: Json = {"trace": traces, **({"about": about.rest("object")} if about is not None else {})}
    if counted := {kind: count for kind, count in others.items() if count}:
        kept["other_spans"] = counted
    tell = ended(branches, "", last, broke)
    started = min((begun for span in spans if (begun := span.moment("started_at"))), default=0.0)
    finished = max((span.moment("ended_at") for span in spans), default=0.0)

    def ending(leaf: int) -> Ending:
        return Ending(agent=agent, outcome=tell(leaf), started=started, finished=finished, attributes={KEPT: kept})

    return branches.grow(Origin(run=Run(id=run)), ending, spans[0].name, spans[0].line, traces[0])


def _call(reading: Reading, span: Row, data: Row) -> Call | None:
    sent = [*_instructions(reading, data), *_said(reading, data, "input", "user")]
    said = _said(reading, data, "output", "assistant")
    if not sent and not said:
        return None
    usage = data.row("usage")
    begun, done = span.moment("started_at"), span.moment("ended_at")
    kept = data.rest("input", "output", "instructions", "usage", "type", "model")
    kept["span"] = span.text("id")
    if error := _error(span):
        kept["error"] = error
    return Call(
        sent=tuple(sent),
        said=tuple(said),
        model=data.text("model"),
        usage=Usage(
            prompt_tokens=usage.whole("input_tokens") or usage.whole("prompt_tokens"),
            completion_tokens=usage.whole("output_tokens") or usage.whole("completion_tokens"),
            model_seconds=max(0.0, done - begun) if done else 0.0,
        ),
        started=begun,
        attributes=kept,
    )


def _instructions(reading: Reading, data: Row) -> list[Said]:
    words = data.value.get("instructions")
    if not isinstance(words, str) or not words:
        return []
    return reading.chat(data.inside("instructions", {"role": "system", "content": words}))


def _said(reading: Reading, data: Row, key: str, role: str) -> list[Said]:
    value: Any = data.value.get(key)
    if isinstance(value, str):
        return reading.chat(data.inside(key, {"role": role, "content": value})) if value else []
    if data.text("type") == "response" and is_items(value):
        return messages(reading, data.rows(key))
    return [
        said
        for each in (data.rows(key) if value is not None else [])
        for said in reading.chat(each.inside("", {"role": role, **each.value}))
    ]


def _answer(span: Row, data: Row, open_calls: list[tuple[str, str, str]]) -> Answer | None:
    """What a function gave, where a call made before asks for it; each call is answered once."""
    name, asked = data.text("name"), _canonical(data.text("input"))
    known = next((call for call in open_calls if call[:2] == (name, asked)), None)
    if known is None:
        return None
    open_calls.remove(known)
    value: Any = data.value.get("output")
    words = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    message = Message(role="tool", parts=(TextPart(text=words),) if words else (), tool_call_id=known[2])
    begun, done = span.moment("started_at"), span.moment("ended_at")
    kept: Json = {"span": span.text("id"), **({"error": error} if (error := _error(span)) else {})}
    return Answer(
        said=Said(message, {}), started=begun, seconds=max(0.0, done - begun) if done else 0.0, attributes=kept
    )


def _error(span: Row) -> str:
    return (span.row("error").text("message") or "error") if span.value.get("error") else ""


def _canonical(text: str) -> str:
    try:
        return json.dumps(json.loads(text or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return text
