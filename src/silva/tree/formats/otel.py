"""OTel: spans of the GenAI semantic conventions, as OTLP JSON.

    trajectory ─▶ a trace: `invoke_agent` ─▶ `chat` (a model call: its whole prompt, its reply) and `execute_tool` spans
    spans of a trace (or a conversation) ─▶ Call … ─▶ folded into a tree ─▶ Bundle

Messages are `gen_ai.input.messages`, `gen_ai.output.messages` and `gen_ai.system_instructions`, JSON of parts, on the
span or its event; the older forms (an event for each message, `gen_ai.prompt.0.role`) are read too, and the spans of
Langfuse's SDK. A call repeats its
prompt, so the file's size is quadratic in turns. The extension is the attribute `silva` of the outermost span.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Origin
from silva.tree.formats.errors import FormatError
from silva.tree.formats.extension import Extension, Packer
from silva.tree.formats.images import Loader
from silva.tree.formats.langfuse_spans import translated
from silva.tree.formats.otel_read import EXTENSION, KEPT, PREFIX, traces
from silva.tree.formats.otel_write import rest_document, trace_document
from silva.tree.formats.spans import LANGFUSE, Span, convention, is_otlp, spans
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json
from silva.tree.run import Run


def recognise(sample: bytes, value: Any) -> bool:
    """Whether the file's first value holds spans, and the conventions of GenAI are used in it."""
    return is_otlp(value) and convention(sample, value) in (PREFIX, LANGFUSE)


def write(bundles: Iterable[Bundle]) -> Iterator[str]:
    """OTLP documents, each as one line: one a trajectory.

    Raises:
        FormatError: a trajectory's walk is not in its bundle, or a value has no place in JSON.
    """
    for bundle in bundles:
        packer = Packer(bundle)
        for trajectory, path in packer.walks:
            document = trace_document(trajectory, path)
            origin = packer.origin(trajectory)
            drafted = _drafted(spans([Row(document, KEPT, 0)]), origin, KEPT, None)
            yield _line(trace_document(trajectory, path, packer.pack(trajectory, path, drafted)))
        if packer.leftover:
            yield _line(rest_document(bundle.run.id, packer.pack_rest()))


def read(
    lines: Iterable[str | bytes], name: str = "spans.json", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each conversation, or for each trace where none is named.

    Args:
        lines: the file's lines, newlines kept.
        name: the file as errors name it.
        run: the run of traces that do not name theirs.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    known = spans(_documents(lines, name))
    own = {span.trace: span for span in known if EXTENSION in span.attributes}
    by_trace: dict[str, list[Span]] = {}
    for span in known:
        by_trace.setdefault(span.trace, []).append(span)
    for trace, root in own.items():
        extension = Extension(root.attributes.text(EXTENSION), name, root.attributes.line)
        if not extension.has_trajectory:
            yield extension.rest()
            continue
        yield extension.unpack(_drafted(by_trace[trace], extension.origin(), name, load))
    yield from traces([span for span in known if span.trace not in own], Origin(run=Run(id=run)), name, load)


def _drafted(given: list[Span], origin: Origin, name: str, load: Loader | None) -> Bundle:
    (bundle,) = traces(given, origin, name, load)
    return bundle


def _documents(lines: Iterable[str | bytes], name: str) -> Iterator[Row]:
    for row in rows(lines, name):
        if not is_otlp(row.value):
            raise FormatError(name, row.line, "resourceSpans", "required field is missing")
        translated(row.value)
        yield row


def _line(document: Json) -> str:
    try:
        return json.dumps(cast(Any, document), ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise FormatError(KEPT, 0, "", f"{error}; write parquet, which keeps every number") from error
