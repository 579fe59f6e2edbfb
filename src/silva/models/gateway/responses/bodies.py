"""A Request as the body of the Responses API.

    the first system message ─▶ instructions         other messages, calls, results ─▶ input, an item each
    tools ─▶ functions, or as this API wrote them     fields of the chat API ─▶ what this one calls them

A client of this API said all of it in its words (`Asked.own`), which then stand as they are.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from silva.models.body import Written
from silva.models.carried import merged
from silva.models.gateway.dialects.responses.history import client_item, said
from silva.models.gateway.dialects.responses.marks import ITEM, NAMESPACE, RESPONSES, mark_of
from silva.models.gateway.dialects.responses.reading import LOGPROBS
from silva.models.model import Request
from silva.tree import Json, Message, Tool

_NAMES = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens"}

_encode = msgspec.json.Encoder().encode


class Bodies(Written):
    """Writes the bodies of calls to one endpoint."""

    def write(self, request: Request, *, stream: bool = False) -> bytes:
        """See `Written`."""
        ours = request.dialect in ("", RESPONSES)
        sampling = request.sampling
        extra = {**self._endpoint.extra, **sampling.extra}
        body: Json = {"model": self._endpoint.model}
        first = request.messages[:1]
        if first and _are_instructions(first[0], ours):
            body["instructions"] = first[0].text
        else:
            first = ()
        stored = extra.get("store") is not False
        items: list[Json] = []
        for message in request.messages[len(first) :]:
            if message.role == "assistant":
                items += [_known(item) for item in said(message, ours, stored)]
            else:
                items.append(client_item(message, request.images, ours))
        body["input"] = items
        if request.tools:
            body["tools"] = [each for tool in request.tools if (each := _tool(tool, ours))]
        body |= sampling.named(_NAMES | ({"top_k": "top_k", "seed": "seed"} if ours else {}))
        if sampling.tool_choice is not None:
            body["tool_choice"] = _tool_choice(sampling.tool_choice)
        _translate(body, extra)
        if sampling.logprobs:
            included: list[str] = extra.get("include") or []
            extra["include"] = [*included, *(() if LOGPROBS in included else (LOGPROBS,))]
        body |= extra
        if stream:
            body["stream"] = True
        return _encode(body)


def _are_instructions(message: Message, ours: bool) -> bool:
    return message.role == "system" and not message.name and not (ours and mark_of(message.extra))


def _known(item: Json) -> Json:
    """A message in the short form this API takes of one that it did not give itself."""
    if item["type"] == "message" and "id" not in item:
        texts = [part["text"] for part in item["content"] if part.get("type") == "output_text"]
        if len(texts) == len(item["content"]) <= 1:
            return {**item, "content": "".join(texts)}
    return item


def _tool(tool: Tool, ours: bool) -> Json:
    if ours and (whole := mark_of(tool.extra)):
        told = whole.get("type") == NAMESPACE and "tools" not in whole  # by the first function of its namespace
        return {} if told else whole
    written: Json = {"type": "function", "name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    if tool.strict is not None or not ours:
        written["strict"] = bool(tool.strict)  # which this API takes for yes where nothing is said
    extra = tool.extra if ours else None
    return merged(written, {name: value for name, value in (extra or {}).items() if name != ITEM})


def _tool_choice(choice: str) -> Any:
    return choice if choice in ("auto", "none", "required") else {"type": "function", "name": choice}


def _translate(body: Json, extra: Json) -> None:
    """Say in this API's words what `extra` says in those of the chat API."""
    bound = extra.pop("max_completion_tokens", None)
    if bound is not None:
        body.setdefault("max_output_tokens", bound)
    if effort := extra.pop("reasoning_effort", None):
        extra.setdefault("reasoning", {"effort": effort})
    text: Json = {}
    if verbosity := extra.pop("verbosity", None):
        text["verbosity"] = verbosity
    wanted = extra.pop("response_format", None)
    if isinstance(wanted, dict):
        form = cast("Json", wanted)
        inner: Any = form.get("json_schema")
        text["format"] = {"type": form.get("type"), **(cast("Json", inner) if isinstance(inner, dict) else {})}
    if text:
        extra.setdefault("text", text)
