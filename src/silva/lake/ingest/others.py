"""Bodies besides OTLP: OpenAI Agents' trace items, and Langfuse's scores."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.lake.ingest.limits import Limits, Refused
from silva.lake.ingest.otlp import parsed
from silva.lake.ingest.taken import Taken

_encode = msgspec.json.Encoder().encode


def take_agents(body: bytes, taken: Taken, limits: Limits) -> None:
    """Take what OpenAI Agents' exporter posts: `{"data": [{"object": "trace.span", …}, …]}`.

    Raises:
        Refused: it is something else, or too much at once.
    """
    document = parsed(body, limits)
    items = document.get("data") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise Refused(400, 'the body is no list of trace items: {"data": […]}')
    if len(items) > limits.spans:
        raise Refused(413, f"the request brings more than {limits.spans} items; send them in smaller batches")
    for item in items:
        kind = item.get("object") if isinstance(item, dict) else None
        if kind not in ("trace", "trace.span") or not isinstance(item.get("id"), str):
            taken.refuse("an item is neither a trace nor a trace.span with an id")
            continue
        data = _encode(item)
        trace = item["id"] if kind == "trace" else item.get("trace_id")
        if not isinstance(trace, str) or not trace or len(trace) > 64 or len(item["id"]) > 64:
            taken.refuse(f"item {item['id'][:64]} names no trace, or one longer than 64 characters")
        elif len(data) > limits.span:
            taken.refuse(f"item {item['id']} has {len(data)} bytes, more than {limits.span}")
        elif kind == "trace":
            group = item.get("group_id")
            conversation = group[:200] if isinstance(group, str) else ""
            taken.add("trace", "openai-agents", trace, "", data, service="openai-agents", conversation=conversation)
        else:
            root = not item.get("parent_id")
            taken.add("span", "openai-agents", trace, item["id"], data, service="openai-agents", root=root)


def take_scores(body: bytes, taken: Taken, limits: Limits) -> list[dict[str, Any]]:
    """Take Langfuse's scores, one or a list. Returns what it answers to each.

    Raises:
        Refused: they are no scores of traces.
    """
    document = parsed(body, limits)
    scores = document if isinstance(document, list) else [document]
    if len(scores) > limits.spans:
        raise Refused(413, f"the request brings more than {limits.spans} scores; send them in smaller batches")
    told: list[dict[str, Any]] = []
    for score in scores:
        score = score if isinstance(score, dict) else {}
        trace = score.get("traceId")
        if not isinstance(trace, str) or not trace or len(trace) > 64:
            raise Refused(400, "a score names no trace (traceId); scores of sessions and data sets are not kept here")
        name, value = score.get("name"), score.get("value")
        if not isinstance(name, str) or not isinstance(value, int | float | str):
            raise Refused(400, f"a score of trace {trace} has no name or no value")
        own = str(score.get("id") or "")
        taken.add("score", "langfuse-score", trace, own[:64] or name[:64], _encode(score))
        told.append({"id": own or name})
    return told
