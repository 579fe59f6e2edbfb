"""AutoGen: the result of a team or agent as JSON (`TaskResult`), or a chat history of AutoGen 0.2. Read only.

    messages (source, type, content) ─▶ requests and executions of tools are calls and answers ─▶ one walk

What an agent of the team says is a turn of the policy; what its user (proxy) says is a person's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.dialogue import Utterance, called, grow_dialogue, objects
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json
from silva.tree.node import Author, Usage

KEPT = "autogen"
_USERS = ("user", "user_proxy", "human")


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a result of AutoGen."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    if isinstance(row.get("chat_history"), list):
        return True
    messages = objects(row.get("messages"))
    return bool(messages) and all("source" in each and "role" not in each for each in messages[:3])


def read(
    lines: Iterable[str | bytes], name: str = "result.json", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each result.

    Args:
        lines: the file's lines.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    for row in rows(lines, name):
        key = "chat_history" if "chat_history" in row else "messages"
        if key not in row:
            raise row.error("messages", "required field is missing")
        said = [each for message in row.rows(key) for each in _said(message)]
        ending = Ending(agent="autogen", attributes={KEPT: row.rest(key)})
        yield grow_dialogue(said, ending, row, KEPT, run, load)


def _said(row: Row) -> list[Utterance]:
    if "role" in row:  # AutoGen 0.2
        return [Utterance(row.value)]
    kind, source = row.text("type"), row.text("source")
    told = row.row("models_usage")
    usage = Usage(prompt_tokens=told.whole("prompt_tokens"), completion_tokens=told.whole("completion_tokens"))
    at, kept = row.moment("created_at"), row.rest("content", "models_usage", "created_at")
    if kind == "ToolCallRequestEvent":
        calls = [
            called(str(c.get("id")), str(c.get("name")), c.get("arguments")) for c in objects(row.items("content"))
        ]
        return [Utterance({"role": "assistant", "tool_calls": calls}, usage, at, kept=kept)]
    if kind == "ToolCallExecutionEvent":
        answers = objects(row.items("content"))
        return [
            Utterance(
                {"role": "tool", "tool_call_id": each.get("call_id"), "content": str(each.get("content", ""))},
                started=at,
                kept={key: each[key] for key in ("is_error", "name") if each.get(key) is not None},
            )
            for each in answers
        ]
    if kind == "ThoughtEvent":
        thought = {"role": "assistant", "reasoning_content": row.text("content")}
        return [Utterance(thought, usage, at, kept=kept)]
    content: Any = row.value.get("content")
    words = content if isinstance(content, str) else row.items("content")
    if source.lower() in _USERS:
        return [Utterance({"role": "user", "content": words}, usage, at, author=Author.PERSON, kept=kept)]
    return [Utterance({"role": "assistant", "content": words}, usage, at, kept=kept)]
