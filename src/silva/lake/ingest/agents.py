"""For OpenAI Agents: an exporter that sends whole model calls, and waits instead of dropping.

    from agents.tracing import add_trace_processor
    from agents.tracing.processors import BatchTraceProcessor
    add_trace_processor(BatchTraceProcessor(Exporter(Client("http://127.0.0.1:4318"))))

Of a call of the Responses API their own exporter sends only the response's id; its words are in the span, and go along
here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from silva.lake.ingest.client import Client


class Exporter:
    """A `TracingExporter` of `agents.tracing`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def export(self, items: Sequence[Any]) -> None:
        """Send traces and spans; returns once they are acknowledged.

        Raises:
            NotKeptError: the server refuses them for good.
        """
        data = [exported for item in items if (exported := _exported(item))]
        if data:
            self._client.send("/v1/traces/ingest", json.dumps({"data": data}, default=str).encode())


def _exported(item: Any) -> dict[str, Any] | None:
    found = item.export()
    told: Any = getattr(item, "span_data", None)
    if not found or getattr(told, "type", "") != "response":
        return found
    response = getattr(told, "response", None)
    data = {**found["span_data"], "input": told.input}
    if response is not None:
        data |= {
            "output": [each.model_dump(exclude_none=True) for each in response.output],
            "instructions": response.instructions,
            "model": response.model,
        }
        if response.usage is not None:
            data["usage"] = response.usage.model_dump(exclude_none=True)
    return {**found, "span_data": data}
