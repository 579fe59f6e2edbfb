"""OpenTelemetry spans of the GenAI conventions: one `chat` span for every turn that is asked for.

    turn answered, refused, left ─▶ span (child of the client's own trace where it sends one) ─▶ batch ─▶ OTLP over HTTP

Needs the extra `otel`. Exporting runs in a thread of the SDK's own and drops spans rather than delay a turn: the lake
is the record, spans are for looking on.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

import silva
from silva.errors import MissingError, UsageError
from silva.models.gateway.config import Spans
from silva.models.gateway.dialects.dialect import Asked
from silva.models.gateway.problem import Problem
from silva.models.gateway.session import Session
from silva.models.model import Completion

_encode = msgspec.json.Encoder().encode

LEFT = "client_left"
"""The type of error of a turn whose client did not wait for its end; the others are the kinds of `Problem`."""


def open_spans(settings: Spans) -> TurnSpans | None:
    """What makes spans as configured, or None.

    Raises:
        MissingError: spans are wanted and the SDK is not installed.
        UsageError: the endpoint is no http(s) address.
    """
    if not settings.endpoint:
        return None
    if not settings.endpoint.startswith(("http://", "https://")):
        raise UsageError(f"spans.endpoint {settings.endpoint!r}: write it like http://127.0.0.1:4318")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingError("spans need OpenTelemetry, which is not installed: pip install 'silva[otel]'") from error
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # an absent collector is no news per turn
    exporter = OTLPSpanExporter(endpoint=settings.endpoint.rstrip("/") + "/v1/traces")
    provider = TracerProvider(
        resource=Resource.create({"service.name": "silva-gateway", "service.version": silva.__version__})
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return TurnSpans(provider, settings.content)


class TurnSpans:
    """Makes spans of turns."""

    def __init__(self, provider: Any, content: bool) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("silva.gateway", silva.__version__)
        self._content = content
        self._propagator = TraceContextTextMapPropagator()

    def turn(
        self,
        asked: Asked,
        session: Session,
        outcome: Completion | Problem | None,
        reply: str,
        began: float,
        ended: float,
        traceparent: str,
    ) -> None:
        """A turn ended; without an outcome, because its client left. Times are Unix seconds; `traceparent` is the
        client's header, "" where it sent none."""
        from opentelemetry.trace import SpanKind, StatusCode

        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "silva",
            "gen_ai.request.model": asked.model,
            "gen_ai.conversation.id": session.rollout.trajectory_id,
            "silva.run": session.rollout.run_id,
            "silva.rollout": session.rollout.name,
            **_sampling(asked),
        }
        if isinstance(outcome, Completion):
            attributes |= _answered(outcome, reply)
        else:
            attributes["error.type"] = LEFT if outcome is None else outcome.kind
        if self._content:
            from silva.tree.formats.otel_write import message_value, tool_value

            attributes["gen_ai.input.messages"] = _text([message_value(each) for each in asked.messages])
            if asked.tools:
                attributes["gen_ai.tool.definitions"] = _text([tool_value(each) for each in asked.tools])
            if isinstance(outcome, Completion):
                said = {**message_value(outcome.message), "finish_reason": outcome.finish_reason}
                attributes["gen_ai.output.messages"] = _text([said])
        span = self._tracer.start_span(
            f"chat {asked.model}".strip(),
            context=self._propagator.extract({"traceparent": traceparent}) if traceparent else None,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=int(began * 1e9),
        )
        if not isinstance(outcome, Completion):
            span.set_status(StatusCode.ERROR, "the client left" if outcome is None else str(outcome))
        span.end(end_time=int(ended * 1e9))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def _sampling(asked: Asked) -> dict[str, Any]:
    sampling = asked.sampling
    given = {
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k,
        "gen_ai.request.max_tokens": sampling.max_tokens,
        "gen_ai.request.seed": sampling.seed,
        "gen_ai.request.stop_sequences": sampling.stop or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _answered(completion: Completion, reply: str) -> dict[str, Any]:
    usage = completion.usage
    return {
        "gen_ai.response.id": reply,
        "gen_ai.response.model": completion.model,
        "gen_ai.response.finish_reasons": (completion.finish_reason,),
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "silva.policy_version": completion.policy_version,
    }


def _text(value: Any) -> str:
    return _encode(value).decode()
