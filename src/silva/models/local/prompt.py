"""From a conversation to ids and from sampled text to a reply: the chat template, and tools written as text.

SmolLM2's template knows no tools. They are described in the system message, calls are written
`<tool_call>{"name": …, "arguments": {…}}</tool_call>` (the form of the Hermes models), results come back as
`<tool_response>`.

*Tokens in, tokens out*: when a conversation continues with a reply this server gave, that reply's own ids are used
again and only what was added is tokenised; re-rendering could cut the words into other tokens.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import jinja2
import jinja2.sandbox
import msgspec
from tokenizers import Tokenizer

from silva.models.serving import ChatMessage, ChatRequest

TOOLS = """You can call functions to help the user. The functions, as JSON:
<tools>
{tools}
</tools>
To call one, answer with its name and arguments like this, and nothing else:
<tool_call>
{{"name": "the function's name", "arguments": {{"argument": "value"}}}}
</tool_call>"""

SYSTEM = "You are a helpful assistant."

MOST_REMEMBERED = 4096


class Prompter:
    """The tokenizer and template of a folder."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.end = self._tokenizer.token_to_id("<|im_end|>")
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self._template = environment.from_string((folder / "chat_template.jinja").read_text(encoding="utf-8"))
        self._remembered: OrderedDict[bytes, tuple[list[int], str]] = OrderedDict()

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
        """The prompt of a request; `ready` ends it where the assistant's words begin."""
        whole = self._render(request, len(request.messages), ready=ready)
        for count in range(len(request.messages), 0, -1):
            if request.messages[count - 1].role != "assistant":
                continue
            known = self._remembered.get(_digest(request, count))
            if known is None:
                continue
            ids, ending = known
            before = self._render(request, count, ready=False)
            if whole.startswith(before):
                return ids + self.encode(ending + whole[len(before) :])
        return self.encode(whole)

    def remember(self, request: ChatRequest, reply: ChatMessage, ids: list[int], ended: bool) -> None:
        """Keep the ids of a conversation up to and with this reply; `ended` says its end mark was sampled."""
        continued = msgspec.structs.replace(request, messages=[*request.messages, reply])
        self._remembered[_digest(continued, len(continued.messages))] = (ids, "\n" if ended else "<|im_end|>\n")
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)

    def _render(self, request: ChatRequest, count: int, *, ready: bool) -> str:
        messages = [_plain(message) for message in request.messages[:count]]
        if request.tools and request.tool_choice != "none":
            tools = "\n".join(msgspec.json.encode(tool.function).decode() for tool in request.tools)
            described = TOOLS.format(tools=tools)
            if messages and messages[0]["role"] == "system":
                messages[0] = {"role": "system", "content": messages[0]["content"] + "\n\n" + described}
            else:
                messages.insert(0, {"role": "system", "content": SYSTEM + "\n\n" + described})
        return self._template.render(messages=messages, add_generation_prompt=ready)


def _plain(message: ChatMessage) -> dict[str, str]:
    if message.role == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message.text}\n</tool_response>"}
    parts = [message.text] if message.text else []
    for call in message.tool_calls or ():
        function = call.function
        parts.append(
            f'<tool_call>\n{{"name": {json.dumps(function.name)}, "arguments": {function.arguments}}}\n</tool_call>'
        )
    return {"role": "system" if message.role == "developer" else message.role, "content": "\n".join(parts)}


def _digest(request: ChatRequest, count: int) -> bytes:
    facts = [
        (
            message.role,
            message.text,
            [(call.function.name, call.function.arguments) for call in message.tool_calls or ()],
        )
        for message in request.messages[:count]
    ]
    return msgspec.json.encode([facts, request.tools])
