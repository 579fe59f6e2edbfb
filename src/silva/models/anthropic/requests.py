"""A Request as the body of the Anthropic Messages API.

    system messages at the beginning ─▶ system          later ones ─▶ messages of role system
    user, tool (neighbours merged)   ─▶ user: tool_result blocks, then the rest
    assistant (neighbours merged)    ─▶ thinking with its signature, text, tool_use
    ids of calls                     ─▶ the same, but for those that repeat or that this API refuses (`call_ids`)

Left out, for the API would refuse it or has no word for it: thinking without a signature, blank text, participants'
names, `seed`, logprobs, and the fields in `NO_WORD`. What it says otherwise is translated: `reasoning_effort`,
`response_format`, `parallel_tool_calls`, `max_completion_tokens`.

What was said in this API beyond what Silva reads (`cache_control`, say) stands again where it stood; of what was said
in another, marks of its cache do, for clients of the chat API write them alike.

`max_tokens` is what the request says, else what the endpoint's `extra` says, else `MAX_TOKENS` (and on top the
thinking budget, which counts towards it).
"""

from __future__ import annotations

import base64
from typing import Any, cast

import msgspec

from silva.models.anthropic.blocks import block_of, tool_use
from silva.models.anthropic.marks import ANTHROPIC, without_mark
from silva.models.body import Written
from silva.models.call_ids import told_apart
from silva.models.carried import merged
from silva.models.model import Request, Sampling
from silva.models.wire import WireError, bytes_of
from silva.tree import ImagePart, Json, Message, OtherPart, Part, TextPart, ThinkingPart, Tool

MAX_TOKENS = 8192
"""The bound of a reply nobody gave one, which this API demands."""

NO_WORD = frozenset(
    {
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "top_logprobs",
        "verbosity",
        "prediction",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "web_search_options",
        "return_token_ids",
    }
)
"""Fields of the chat API that have no counterpart."""

_NAMES = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "stop": "stop_sequences"}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}

_encode = msgspec.json.Encoder().encode


class Bodies(Written):
    """Writes the bodies of calls to one endpoint."""

    def write(self, request: Request, *, stream: bool = False) -> bytes:
        """See `Written`; a reply too short to think in cannot be asked for."""
        sampling = request.sampling
        write = _Writer(request.images, request.dialect in ("", ANTHROPIC))
        first = next(
            (place for place, message in enumerate(request.messages) if message.role != "system"), len(request.messages)
        )
        body: Json = {"model": self._endpoint.model}
        system = [block for message in request.messages[:first] for block in write.blocks(message.parts)]
        if system:
            body["system"] = system
        body["messages"] = write.turns(request.messages[first:])
        if request.tools:
            body["tools"] = [write.tool(tool) for tool in request.tools]
        body |= sampling.named(_NAMES)
        extra = {**self._endpoint.extra, **sampling.extra}
        single = _translate(body, extra)
        if request.tools and (sampling.tool_choice is not None or single):
            chosen = _tool_choice(sampling.tool_choice or "auto", single)
            body["tool_choice"] = merged(chosen, sampling.extra.get("tool_choice"))
        body["max_tokens"] = _max_tokens(sampling, extra.pop("max_tokens", None), extra.get("thinking"))
        body |= {name: value for name, value in extra.items() if name not in NO_WORD and name not in body}
        if stream:
            body["stream"] = True
        return _encode(body)


def _translate(body: Json, extra: dict[str, Any]) -> bool:
    """Move what this API says otherwise from `extra` into the body; whether calls must come one at a time."""
    bound = extra.pop("max_completion_tokens", None)
    if bound is not None:
        extra.setdefault("max_tokens", bound)
    output: Json = dict(extra.pop("output_config", None) or {})
    if effort := extra.pop("reasoning_effort", None):
        output.setdefault("effort", effort)
    wanted = extra.pop("response_format", None)
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        schema: Any = cast("dict[str, Any]", wanted.get("json_schema") or {}).get("schema")
        output.setdefault("format", {"type": "json_schema", "schema": schema})
    if output:
        body["output_config"] = output
    return extra.pop("parallel_tool_calls", None) is False


def _max_tokens(sampling: Sampling, otherwise: Any, thinking: Any) -> int:
    budget = 0
    if isinstance(thinking, dict) and cast("dict[str, Any]", thinking).get("type") == "enabled":
        found: Any = cast("dict[str, Any]", thinking).get("budget_tokens")
        budget = found if isinstance(found, int) else 0
    bound = sampling.max_tokens if sampling.max_tokens is not None else otherwise
    if bound is None:
        return MAX_TOKENS + budget
    if bound <= budget:
        raise WireError(f"max_tokens ({bound}) must be more than the thinking budget ({budget}), which counts to it")
    return bound


def _tool_choice(choice: str, single: bool) -> Json:
    kind = _CHOICES.get(choice)
    written: Json = {"type": kind} if kind is not None else {"type": "tool", "name": choice}
    if single and kind != "none":
        written["disable_parallel_tool_use"] = True
    return written


class _Writer:
    """Writes messages and tools; `ours`: what they say beyond what Silva reads is in the words of this API."""

    def __init__(self, images: dict[str, bytes], ours: bool) -> None:
        self._images = images
        self._ours = ours

    def tool(self, tool: Tool) -> Json:
        """The JSON of a tool."""
        written: Json = {"name": tool.name, "input_schema": {"type": "object", **tool.parameters}}
        if tool.description:
            written["description"] = tool.description
        if tool.strict and self._ours:
            written["strict"] = True
        return merged(written, self._extra(tool.extra))

    def turns(self, messages: tuple[Message, ...]) -> list[Json]:
        """The JSON of the messages."""
        turns: list[Json] = []
        for message in told_apart(messages):
            role = "user" if message.role == "tool" else message.role
            extra = message.extra if self._ours else None
            if role == "assistant":
                blocks = self._said(message)
            elif message.role == "tool":
                blocks = [self._result(message)]
                extra = extra and extra.get("turn")
            else:
                blocks = self.blocks(message.parts)
            if not blocks:
                continue
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": role, "content": blocks})
            merged(turns[-1], extra)
        for turn in turns:
            if turn["role"] == "user":  # the results must come first
                turn["content"].sort(key=lambda block: block["type"] != "tool_result")
        return turns

    def blocks(self, parts: tuple[Part, ...]) -> list[Json]:
        """What is shown, as blocks.

        Raises:
            WireError: an image whose bytes are not there.
        """
        blocks: list[Json] = []
        for part in parts:
            if isinstance(part, TextPart) and part.text.strip() and (block := self._block(part)):
                blocks.append(block)
            elif isinstance(part, ImagePart):
                data = base64.b64encode(bytes_of(part, self._images)).decode()
                source = {"type": "base64", "media_type": part.media_type, "data": data}
                blocks.append(merged({"type": "image", "source": source}, self._extra(part.extra)))
        return blocks

    def _said(self, message: Message) -> list[Json]:
        blocks: list[Json] = []
        for part in message.parts:
            if isinstance(part, OtherPart):
                blocks += [part.written] if self._ours else []
            elif isinstance(part, TextPart):
                blocks += self.blocks((part,))
            elif isinstance(part, ThinkingPart) and part.signature and (block := self._block(part)):
                blocks.append(block)
        return blocks + [tool_use(call, self._extra(call.extra)) for call in message.tool_calls]

    def _block(self, part: TextPart | ThinkingPart) -> Json | None:
        return block_of(part, self._extra(part.extra))

    def _result(self, message: Message) -> Json:
        parts, failed = without_mark(message.parts)
        block: Json = {"type": "tool_result", "tool_use_id": message.tool_call_id}
        if content := self.blocks(parts):
            block["content"] = content
        if failed:
            block["is_error"] = True
        extra = self._extra(message.extra)
        return merged(block, {name: value for name, value in extra.items() if name != "turn"} if extra else None)

    def _extra(self, extra: Json | None) -> Json | None:
        if not extra or self._ours:
            return extra
        return {name: extra[name] for name in IN_BOTH if name in extra}


IN_BOTH = ("cache_control",)
"""What clients of the chat API write as this one does."""
