"""From a conversation to ids and from sampled text to a reply: the folder's own chat template and tokenizer.

    ChatRequest ─▶ messages and tools of the tree ─▶ TemplateRenderer ─▶ ids
    remembered: prompt + reply ids ─▶ what was said since ─▶ those ids + the new ones

A template that knows no tools, as SmolLM2's, is told of them in the system message; calls are then written
`<tool_call>{"name": …, "arguments": {…}}</tool_call>` (the form of the Hermes models), results come back as
`<tool_response>`.

*Tokens in, tokens out*: when a conversation continues with a reply this server gave, that reply's own ids are used
again and only what was added is tokenised; re-rendering could cut the words into other tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec
from tokenizers import Tokenizer

from silva.errors import UsageError
from silva.models.exact.folder import read_folder
from silva.models.exact.renderer import Extension
from silva.models.exact.syntax import TAGGED
from silva.models.exact.template import RenderError
from silva.models.exact.templated import TemplateRenderer
from silva.models.local.calls import split_calls
from silva.models.serving import ChatMessage, ChatRequest, Refusal
from silva.tree import Message, TextPart, Tool, ToolCall
from silva.tree.message import Role

MOST_REMEMBERED = 4096


class Prompter:
    """The tokenizer and template of a folder. `ends` are the ids that end a reply, `call_marks` the texts that begin a
    call.

    Raises:
        UsageError: a file of the folder is missing or cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.renderer = TemplateRenderer(read_folder(folder))
        self.ends = self.renderer.stop_ids
        self.call_marks = tuple(syntax.begin for syntax in self.renderer.syntax.calls)
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._remembered: OrderedDict[bytes, list[int]] = OrderedDict()

    def check(self, vocabulary: int) -> None:
        """See that the network has all ids of the tokenizer.

        Raises:
            UsageError: it has not.
        """
        have = self._tokenizer.get_vocab_size()
        if have > vocabulary:
            raise UsageError(
                f"model folder {self.renderer.name}: tokenizer.json has {have} tokens, the weights {vocabulary}; "
                "they are not of one model"
            )

    def decode(self, ids: list[int], special: bool = False) -> str:
        """The text of ids, without the marks of the template unless `special`."""
        return self._tokenizer.decode(ids, skip_special_tokens=not special)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """The ids of a text; `special` adds what the tokenizer itself puts around a text."""
        return self._tokenizer.encode(text, add_special_tokens=special).ids

    def piece(self, number: int) -> str:
        """One id as text."""
        return self._tokenizer.decode([number], skip_special_tokens=False)

    def written(self, number: int) -> str:
        """One id as the tokenizer's vocabulary writes it ("" where it has none)."""
        return self._tokenizer.id_to_token(number) or ""

    def ids(self, request: ChatRequest, ready: bool = True) -> list[int]:
        """The prompt of a request; `ready` ends it where the assistant's words begin.

        Raises:
            Refusal: the template refuses the conversation.
        """
        messages, tools = _messages(request), _tools(request)
        try:
            for count in range(len(messages), 0, -1) if ready else ():
                known = self._known(request, count)
                if known is None:
                    continue
                found = self.renderer.extend(known, messages[:count], messages[count:], tools)
                if isinstance(found, Extension):
                    return [*known, *found.ids]
            return list(self.renderer.render(messages, tools, generation_prompt=ready))
        except RenderError as fault:
            raise Refusal(400, str(fault)) from fault

    def remember(self, request: ChatRequest, reply: ChatMessage, ids: list[int]) -> None:
        """Keep the ids of a conversation up to and with this reply."""
        self._remembered[_digest([*request.messages, reply], request)] = ids
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)

    def calls(self, text: str, ids: list[int], request: ChatRequest) -> tuple[str, tuple[ToolCall, ...]]:
        """A reply's words and its calls, in the form the model's family writes them."""
        if TAGGED in self.renderer.syntax.calls:
            return split_calls(text, _tools(request))
        message = self.renderer.parse(ids, _tools(request)).message
        if not message.tool_calls:
            return text, ()
        calls = tuple(ToolCall(id="", name=call.name, arguments=call.arguments) for call in message.tool_calls)
        return message.text, calls

    def _known(self, request: ChatRequest, count: int) -> list[int] | None:
        if request.messages[count - 1].role != "assistant":
            return None
        return self._remembered.get(_digest(request.messages[:count], request))


def _messages(request: ChatRequest) -> list[Message]:
    return [_message(message, place) for place, message in enumerate(request.messages)]


def _message(message: ChatMessage, place: int) -> Message:
    role = "system" if message.role == "developer" else message.role
    if role not in get_args(Role):
        raise Refusal(400, f"message {place} is of role {role[:40]!r}; possible are {', '.join(get_args(Role))}")
    calls = tuple(
        ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
        for call in message.tool_calls or ()
    )
    return Message(
        role=role,  # pyright: ignore[reportArgumentType]
        parts=(TextPart(text=message.text),) if message.text or role != "assistant" else (),
        tool_calls=calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
    )


def _tools(request: ChatRequest) -> tuple[Tool, ...]:
    if request.tool_choice == "none":
        return ()
    return tuple(
        Tool(
            name=tool.function.name,
            description=tool.function.description or "",
            parameters=tool.function.parameters or {},
        )
        for tool in request.tools
    )


def _digest(messages: Sequence[ChatMessage], request: ChatRequest) -> bytes:
    return msgspec.json.encode([[message.fact for message in messages], request.tools])
