"""The AI SDK of Vercel: conversations of UI messages (`parts`) or of model messages (`tool-call`, `tool-result`).

    UI message: parts ─▶ each step's words and calls are a turn, the outputs its answers ─▶ one walk

A conversation is the list of its messages, or an object with `messages` and an id. Read only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.dialogue import Utterance, called, grow_dialogue, objects
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import Ending
from silva.tree.formats.values import Row, documents
from silva.tree.message import Json
from silva.tree.node import Author

KEPT = "vercel-ai"


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a conversation of the SDK."""
    given = cast(Json, value).get("messages") if isinstance(value, dict) else value
    messages = objects(given)
    if not messages or any("role" not in each for each in messages):
        return False
    kinds = {part.get("type") for each in messages for part in objects(each.get("content"))}
    parts = any(isinstance(each.get("parts"), list) and "content" not in each for each in messages)
    return parts or any("toolInvocations" in each for each in messages) or bool({"tool-call", "tool-result"} & kinds)


def read(
    lines: Iterable[str | bytes], name: str = "chat.json", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each conversation.

    Args:
        lines: the file's lines; a file that is a list of messages is one conversation.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    loose: list[Json] = []
    for line, value in documents(lines, name):
        row = Row(cast(Json, value) if isinstance(value, dict) else {}, name, line)
        if "messages" in row:
            yield _bundle(row, row.rows("messages"), run, load)
        elif "role" in row:
            loose.append(row.value)
        else:
            raise row.error("messages", "required field is missing, and it is no message either")
    if loose:
        yield _bundle(Row({}, name, 1), [Row(each, name, 0, f"[{at}]") for at, each in enumerate(loose)], run, load)


def _bundle(row: Row, messages: list[Row], run: str, load: Loader | None) -> Bundle:
    said = [each for message in messages for each in _said(message)]
    own = row.text("id") or row.text("chatId")
    return grow_dialogue(
        said, Ending(agent="ai-sdk", attributes={KEPT: row.rest("messages")}), row, KEPT, run, load, own
    )


def _said(row: Row) -> Iterator[Utterance]:
    role, at = row.text("role"), row.moment("createdAt")
    kept = row.rest("role", "content", "parts", "createdAt", "toolInvocations")
    author = Author.PERSON if role == "user" else None
    parts = row.rows("parts") if "parts" in row else []
    if not parts:
        content: Any = row.value.get("content")
        given = (
            row.rows("content")
            if isinstance(content, list)
            else [row.inside("content", {"type": "text", "text": content})]
        )
        parts = [*given, *(row.inside("toolInvocations", {"type": "tool-invocation", "toolInvocation": each})
                           for each in objects(row.value.get("toolInvocations")))]  # fmt: skip
    words: list[Json] = []
    calls: list[Json] = []
    answers: list[Json] = []
    for part in [*parts, row.inside("", {"type": "step-start"})]:
        kind = part.text("type")
        if kind == "step-start" or (answers and kind in ("text", "reasoning")):
            if words or calls or role != "assistant":
                message: Json = {"role": role, "content": words, "tool_calls": calls or None}
                if words or calls:
                    yield Utterance(message, started=at, author=author, kept=kept)
            yield from (Utterance(answer, started=at) for answer in answers)
            words, calls, answers, kept = [], [], [], {}
        if kind in ("text", "reasoning", "image", "file"):
            if part.value.get("text") or kind not in ("text", "reasoning"):
                words.append(_block(part, kind))
        elif kind in ("tool-call", "dynamic-tool", "tool-invocation") or (
            kind.startswith("tool-") and kind != "tool-result"
        ):
            inner = part.row("toolInvocation") if kind == "tool-invocation" else part
            own = inner.text("toolCallId")
            name = inner.text("toolName") or kind.removeprefix("tool-")
            given = inner.value.get("input", inner.value.get("args"))
            calls.append(called(own, name, given if isinstance(given, str | dict) else json.dumps(given)))
            output: Any = inner.value.get("output", inner.value.get("result", inner.value.get("errorText")))
            if output is not None:
                answers.append({"role": "tool", "tool_call_id": own, "content": _text(output)})
        elif kind == "tool-result":
            output = part.value.get("output", part.value.get("result"))
            answers.append({"role": "tool", "tool_call_id": part.text("toolCallId"), "content": _text(output)})


def _block(part: Row, kind: str) -> Json:
    if kind == "file":
        return {"type": "file", "url": part.value.get("url"), "mime_type": part.value.get("mediaType")}
    return {**part.rest("state", "providerMetadata"), "type": kind}


def _text(output: Any) -> str:
    if isinstance(output, dict):
        told = cast(Json, output)
        if told.get("type") in ("text", "json", "error-text", "error-json") and "value" in told:
            output = told["value"]
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
