"""The output items of a Responses reply: what the model said, as this API writes it.

thinking  ─▶ reasoning (its text as reasoning_text, a provider's signature as encrypted_content)
text      ─▶ message, one for the whole reply
tool call ─▶ function_call, custom_tool_call or local_shell_call, as the tool was offered
"""

from __future__ import annotations

import msgspec

from silva.models.anthropic.marks import parsed_object
from silva.models.gateway.dialects.chat.writing import logprob_entries
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.gateway.dialects.responses.history import said as written
from silva.models.gateway.dialects.responses.items import Action, shell_arguments
from silva.models.gateway.dialects.responses.marks import NAMESPACE, RESPONSES
from silva.models.gateway.dialects.responses.offered import SHELL
from silva.models.model import Completion
from silva.models.scores import entries
from silva.tree import Json, ThinkingPart, ToolCall

_NO_LIST: tuple[()] = ()

_encode = msgspec.json.Encoder().encode
_decode_action = msgspec.json.Decoder(Action).decode


def output_of(asked: Asked, completion: Completion, stamp: Stamp) -> list[Json]:
    """All items of a reply, a provider's of this API as it gave them. A reply without words or calls has an empty
    message, so that it can be sent back."""
    if completion.dialect == RESPONSES:
        return written(completion.message, ours=True)
    said = completion.message
    items: list[Json] = []
    for part in said.parts:
        if isinstance(part, ThinkingPart):
            items.append(reasoning(stamp, len(items), part.text, part.signature))
    if (text := said.text) or not said.tool_calls:
        status = "incomplete" if incomplete(completion) else "completed"
        items.append(message(stamp, len(items), text_part(text, logprobs(asked, completion)), status))
    for call in said.tool_calls:
        items.append(called(asked, stamp, len(items), call))
    return items


def incomplete(completion: Completion) -> Json | None:
    """Why the reply is not whole, or None."""
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(completion.finish_reason)
    return {"reason": reason} if reason is not None else None


def logprobs(asked: Asked, completion: Completion) -> msgspec.Raw | tuple[()]:
    """The logprobs of the reply where the client asked for them."""
    if asked.wants_logprobs and (said := entries(completion)):
        return msgspec.Raw(_encode(said))
    values = completion.logprobs or (completion.tokens.logprobs if completion.tokens is not None else ())
    return msgspec.Raw(logprob_entries(values)) if asked.wants_logprobs and values else _NO_LIST


def reasoning(stamp: Stamp, place: int, text: str, signature: str | None, status: str = "completed") -> Json:
    """A reasoning item."""
    item: Json = {
        "type": "reasoning",
        "id": f"rs_{stamp.id}_{place}",
        "summary": _NO_LIST,
        "content": (reasoning_part(text),) if text else _NO_LIST,
        "status": status,
    }
    if signature:
        item["encrypted_content"] = signature
    return item


def reasoning_part(text: str) -> Json:
    """The content part of a reasoning item."""
    return {"type": "reasoning_text", "text": text}


def text_part(text: str, scores: msgspec.Raw | tuple[()] = _NO_LIST) -> Json:
    """The content part of a message."""
    return {"type": "output_text", "text": text, "annotations": _NO_LIST, "logprobs": scores}


def message(stamp: Stamp, place: int, part: Json | None, status: str) -> Json:
    """A message item; without a part it has just begun."""
    return {
        "type": "message",
        "id": f"msg_{stamp.id}_{place}",
        "role": "assistant",
        "status": status,
        "content": (part,) if part is not None else _NO_LIST,
    }


def called(asked: Asked, stamp: Stamp, place: int, call: ToolCall) -> Json:
    """The item of a tool call. A shell call whose arguments are not the shell's is written as a function call."""
    if call.name in asked.echo.get("custom", ()):
        return {
            "type": "custom_tool_call",
            "id": f"ctc_{stamp.id}_{place}",
            "call_id": call.id,
            "name": call.name,
            "input": _input(call.arguments),
            "status": "completed",
        }
    if call.name == SHELL and asked.echo.get("shell") and (action := _action(call.arguments)) is not None:
        return {
            "type": "local_shell_call",
            "id": f"lsh_{stamp.id}_{place}",
            "call_id": call.id,
            "action": action,
            "status": "completed",
        }
    space, name = asked.echo.get("spaces", {}).get(call.name, ("", call.name))
    return {
        "type": "function_call",
        "id": f"fc_{stamp.id}_{place}",
        "call_id": call.id,
        "name": name,
        **({NAMESPACE: space} if space else {}),
        "arguments": call.arguments,
        "status": "completed",
    }


def _input(arguments: str) -> str:
    value = parsed_object(arguments)
    if value is not None and len(value) == 1 and isinstance(value.get("input"), str):
        return value["input"]
    return arguments


def _action(arguments: str) -> Json | None:
    value = parsed_object(arguments)
    if value is None:
        return None
    try:
        action = _decode_action(arguments)
    except msgspec.ValidationError:
        return None
    if parsed_object(shell_arguments(action)) != value:  # it says more than a shell call can
        return None
    return {"type": "exec", "env": {}, **value}
