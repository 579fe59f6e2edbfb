"""What a script says: words, thinking, tool calls; turned into a chat reply with byte-level token ids."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.scripted import tokens
from silva.models.serving.chat import ChatReply, ChatRequest
from silva.tree import ToolCall


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call; `arguments` is an object, or raw text that need not be JSON."""

    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict[str, Any])
    id: str = ""

    @property
    def raw(self) -> str:
        """The arguments as text."""
        return self.arguments if isinstance(self.arguments, str) else msgspec.json.encode(self.arguments).decode()


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One scripted reply. With `expand`, `\\1` or `\\g<name>` in the text and in string arguments is filled from the
    groups of the rule's `last` pattern. A script says exactly what is replied: `max_tokens` and `stop` do not cut
    it."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[Call, ...] = ()
    finish_reason: str = ""
    expand: bool = False

    def reply(self, request: ChatRequest, model: str) -> ChatReply:
        """The chat reply. Ids and logprobs are made only when the request asks for them."""
        calls = tuple(
            ToolCall(name=call.name, arguments=call.raw, id=call.id or f"call_{request.turn}_{index}")
            for index, call in enumerate(self.tool_calls)
        )
        written = tokens.written(self.text, calls)
        ids: tuple[int, ...] = ()
        logprobs: tuple[float, ...] = ()
        prompt_ids: tuple[int, ...] = ()
        if request.return_token_ids or request.logprobs:
            prompt_ids = tokens.prompt_ids(request)
            ids = (*written.encode(), tokens.END)
            logprobs = tokens.logprobs(ids)
        return ChatReply(
            text=self.text,
            thinking=self.thinking,
            tool_calls=calls,
            finish_reason=self.finish_reason or ("tool_calls" if calls else "stop"),
            ids=ids,
            logprobs=logprobs,
            pieces=tuple(tokens.piece(number) for number in ids),
            prompt_ids=prompt_ids,
            prompt_tokens=len(prompt_ids) or tokens.prompt_length(request),
            completion_tokens=len(written.encode()) + 1,
            model=model,
            fingerprint="scripted",
        )
