"""A tokeniser simple enough to check by eye: an id is a UTF-8 byte, five more mark where messages begin and end.

A prompt is `[TOOLS tools-json END] (ROLE bytes END)* ASSISTANT`, a reply its bytes and END; so the prompt of the next
turn begins with this prompt and this reply, as it does for a model whose template adds and never rewrites.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from silva.models.serving.chat import CallFunction, ChatMessage, ChatRequest
from silva.tree import ToolCall

END = 256
ROLES = {"system": 257, "developer": 257, "user": 258, "assistant": 259, "tool": 260}
TOOLS = 261


def written(text: str, calls: Sequence[CallFunction | ToolCall]) -> str:
    """An assistant message as the text that would have been sampled."""
    parts = [text] if text else []
    parts += [f'<tool_call>{{"name": "{call.name}", "arguments": {call.arguments}}}</tool_call>' for call in calls]
    return "\n".join(parts)


def _history(message: ChatMessage) -> str:
    if not message.tool_calls:
        return message.text
    return written(message.text, [call.function for call in message.tool_calls])


def prompt_ids(request: ChatRequest) -> tuple[int, ...]:
    """The ids of a request's prompt."""
    ids: list[int] = []
    if request.tools:
        ids += [TOOLS, *msgspec.json.encode(request.tools), END]
    for message in request.messages:
        ids += [ROLES.get(message.role, ROLES["user"]), *_history(message).encode(), END]
    ids.append(ROLES["assistant"])
    return tuple(ids)


def prompt_length(request: ChatRequest) -> int:
    """The number of ids `prompt_ids` gives, without making them."""
    length = len(msgspec.json.encode(request.tools)) + 2 if request.tools else 0
    return length + 1 + sum(len(_history(message).encode()) + 2 for message in request.messages)


def logprobs(ids: tuple[int, ...]) -> tuple[float, ...]:
    """A made-up log-probability for each id, the same whenever the ids are the same."""
    return tuple(-((number * 2654435761 + position * 40503) % 1000) / 1000 for position, number in enumerate(ids))


def piece(number: int) -> str:
    """An id as text for a logprobs block."""
    return chr(number) if number < 128 else f"<{number}>"
