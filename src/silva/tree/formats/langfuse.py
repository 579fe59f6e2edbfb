"""Langfuse: traces with their observations, or observations alone, as its API, SDK and exports write them. Read only.

    observations of a trace ─▶ GENERATION: a model call, folded into the walk its input begins with ─▶ one tree a trace

Scores of the trace stand in the metrics; spans and events are counted.
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
from silva.tree.formats.dialogue import objects
from silva.tree.formats.draft import Origin
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import Branches, Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json, Message, TextPart
from silva.tree.node import Usage
from silva.tree.run import Run

KEPT = "langfuse"
_TYPES = ("GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EMBEDDING", "EVALUATOR", "GUARDRAIL")


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a trace with observations, or an observation."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    if isinstance(row.get("observations"), list):
        return True
    return row.get("type") in _TYPES and bool({"traceId", "trace_id"} & set(row))


def read(
    lines: Iterable[str | bytes], name: str = "traces.json", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each trace.

    Args:
        lines: the file's lines.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    traces: dict[str, tuple[Row, list[Row]]] = {}
    for row in rows(lines, name):
        if "observations" in row:
            traces[row.text("id")] = (row, [each for each in row.rows("observations")])
        else:
            trace = _text(row, "traceId", "trace_id")
            if not trace:
                raise row.error("traceId", "required field is missing, and it is no trace with observations either")
            traces.setdefault(trace, (row.inside("", {"id": trace}), []))[1].append(row)
    for trace, (about, observations) in traces.items():
        yield _trace(trace, about, observations, run, load)


def _trace(trace: str, about: Row, observations: list[Row], run: str, load: Loader | None) -> Bundle:
    branches = Branches()
    reading = Reading(load, branches.blobs)
    calls: list[Call] = []
    answers: list[Answer] = []
    others: Counter[str] = Counter()
    last: Call | None = None
    broke = ""
    for row in sorted(observations, key=lambda each: _moment(each, "startTime", "start_time")):
        kind = row.text("type")
        call = _call(reading, row) if kind == "GENERATION" else None
        answer = _answer(row) if kind == "TOOL" else None
        if call is not None:
            calls.append(call)
            last = call
            broke = (_text(row, "statusMessage", "status_message") or "error") if row.text("level") == "ERROR" else ""
        elif answer is not None:
            answers.append(answer)
        else:
            others[kind] += 1
    others["TOOL"] += fold(branches, KEPT, calls, answers)
    kept: Json = {"trace": about.rest("observations", "input", "output")}
    counted = {kind: count for kind, count in others.items() if count}
    if counted:
        kept["other_observations"] = counted
    metrics = {
        str(score["name"]): float(score["value"])
        for score in objects(about.value.get("scores"))
        if isinstance(score.get("value"), int | float) and score.get("name")
    }
    tell = ended(branches, "", last, broke)

    def ending(leaf: int) -> Ending:
        outcome = tell(leaf)
        outcome = msgspec.structs.replace(outcome, metrics={**outcome.metrics, **metrics})
        return Ending(agent=_text(about, "name"), outcome=outcome, attributes={KEPT: kept})

    return branches.grow(Origin(run=Run(id=run)), ending, about.name, about.line, trace)


def _call(reading: Reading, row: Row) -> Call | None:
    sent = _said(reading, row, "input", "user")
    said = _said(reading, row, "output", "assistant")
    if not sent and not said:
        return None
    usage = row.row("usageDetails") if "usageDetails" in row else row.row("usage")
    begun, done = _moment(row, "startTime", "start_time"), _moment(row, "endTime", "end_time")
    cost = row.number("calculatedTotalCost") or row.number("totalCost") or row.row("costDetails").number("total")
    kept = row.rest("input", "output", "usage", "usageDetails", "startTime", "endTime", "start_time", "end_time")
    return Call(
        sent=tuple(sent),
        said=tuple(said),
        model=row.text("model") or row.text("providedModelName"),
        usage=Usage(
            prompt_tokens=usage.whole("input") or usage.whole("promptTokens") or row.whole("promptTokens"),
            completion_tokens=usage.whole("output") or usage.whole("completionTokens") or row.whole("completionTokens"),
            cached_tokens=usage.whole("input_cached_tokens") or usage.whole("cache_read_input_tokens"),
            usd=cost or 0.0,
            model_seconds=max(0.0, done - begun) if done else 0.0,
        ),
        started=begun,
        attributes=kept,
    )


def _said(reading: Reading, row: Row, key: str, role: str) -> list[Said]:
    value: Any = (
        row.unpacked(key) if str(row.value.get(key) or "").lstrip().startswith(("[", "{")) else row.value.get(key)
    )
    if isinstance(value, dict):
        inner = cast(Json, value)
        choices = objects(inner.get("choices"))
        value = inner.get("messages") or ([each.get("message") for each in choices] if choices else [inner])
    if isinstance(value, str):
        return [Said(Message(role="user" if role == "user" else "assistant", parts=(TextPart(text=value),)), {})]
    found: list[Said] = []
    for place, each in enumerate(objects(value)):
        message = {"role": role, **each} if {"role", "content", "tool_calls", "parts"} & set(each) else None
        if message is None:
            message = {"role": role, "content": json.dumps(each, ensure_ascii=False)}
        found += reading.chat(Row(message, row.name, row.line, row.path(f"{key}[{place}]")))
    return found


def _answer(row: Row) -> Answer | None:
    about = row.row("metadata") if isinstance(row.value.get("metadata"), dict) else row.inside("metadata", {})
    own = _text(about, "tool_call_id", "toolCallId", "call_id")
    if not own:
        return None
    value: Any = row.value.get("output")
    words = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    message = Message(role="tool", parts=(TextPart(text=words),) if words else (), tool_call_id=own)
    begun, done = _moment(row, "startTime", "start_time"), _moment(row, "endTime", "end_time")
    return Answer(said=Said(message, {}), started=begun, seconds=max(0.0, done - begun) if done else 0.0)


def _text(row: Row, *keys: str) -> str:
    return next((row.value[key] for key in keys if isinstance(row.value.get(key), str)), "")


def _moment(row: Row, *keys: str) -> float:
    return next((row.moment(key) for key in keys if key in row), 0.0)
