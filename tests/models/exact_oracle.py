"""What a family's template says of a conversation, told by jinja alone: nothing of Silva has a hand in it.

walk ─▶ jinja ─▶ … the last reply <end> …          what stands before the end mark must begin the longer text, else
walk + new ─▶ jinja ─▶ … the last reply <end> tail ─┴─ the template has changed the past. The tail is what is added.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import jinja2
import jinja2.sandbox
from exact_families import FAMILIES, TEMPLATES

from silva.models.exact import HISTORY_REWRITTEN, THINKING_DROPPED
from silva.tree import ImagePart, Message, TextPart, ThinkingPart, Tool

TODAY = datetime(2031, 5, 4, tzinfo=UTC)
ENDS = {name: end for name, (_, _, end, _) in FAMILIES.items()} | {"gemma": "<end_of_turn>"}


class Oracle:
    """A family's template, as transformers renders it."""

    def __init__(self, name: str) -> None:
        special, plain, end, begin = FAMILIES[name]
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = TODAY.strftime
        self.name = name
        self._marks = re.compile("|".join(map(re.escape, sorted((*special, *plain), key=len, reverse=True))))
        self._named = {"eos_token": end, "bos_token": begin}
        self._template = environment.from_string((TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8"))

    def text(self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, ready: bool = True) -> str:
        """The whole conversation."""
        offered = [{"type": "function", "function": _offered(tool)} for tool in tools]
        spoken = [_spoken(message, self.name) for message in messages]
        return self._template.render(**self._named, messages=spoken, tools=offered or None, add_generation_prompt=ready)

    def tail(self, walk: Sequence[Message], new: Sequence[Message], tools: Sequence[Tool] = ()) -> str | None:
        """What stands behind the end mark of the last reply, None where the template writes what is before otherwise
        now that others follow."""
        before = self._until_the_end(walk, tools)
        whole = self.text([*walk, *new], tools)
        return whole[len(before) :] if whole.startswith(before) else None

    def shows_thinking(self, walk: Sequence[Message], new: Sequence[Message], tools: Sequence[Tool] = ()) -> bool:
        """Whether what the last reply thought is still written once others follow: a thought nobody else has."""
        thought = "an unheard-of thought 7251"
        last = _thinking(walk[-1], thought)
        return thought in self.text([*walk[:-1], last, *new], tools)

    def reason(self, walk: Sequence[Message], new: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        """Why a conversation must begin anew, "" where it goes on; by the family's own rule, and checked with the
        template's text."""
        speaks = new[0].role != "tool"
        found = ""
        if (self.name == "qwen3" and speaks) or (self.name == "deepseek" and walk[-1].thinking.strip()):
            found = THINKING_DROPPED
        elif self.name == "mistral" and speaks and tools:
            found = HISTORY_REWRITTEN
        dropped = bool(walk[-1].thinking.strip()) and not self.shows_thinking(walk, new, tools)
        assert bool(found) == (dropped or self.tail(walk, new, tools) is None), (self.name, found)
        return found

    def marks(self, text: str) -> Counter[str]:
        """The control tokens that a text in which nobody writes any has."""
        return Counter(self._marks.findall(text))

    def _until_the_end(self, walk: Sequence[Message], tools: Sequence[Tool]) -> str:
        said = self.text(walk, tools, ready=False).rstrip()
        assert said.endswith(ENDS[self.name])
        return said


def _thinking(message: Message, words: str) -> Message:
    others = tuple(part for part in message.parts if not isinstance(part, ThinkingPart))
    return Message(role="assistant", parts=(ThinkingPart(text=words), *others), tool_calls=message.tool_calls)


def _spoken(message: Message, name: str) -> dict[str, Any]:
    content: Any = message.text
    if any(isinstance(part, ImagePart) for part in message.parts):
        content = [
            {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": "image"}
            for part in message.parts
        ]
    told: dict[str, Any] = {"role": message.role, "content": content}
    if message.thinking and name == "deepseek":  # a part of the words, as the model wrote them
        told["content"] = f"<think>\n{message.thinking}\n</think>\n\n{message.text}"
    elif message.thinking:
        told["reasoning_content"] = message.thinking
    if message.tool_calls:
        told["tool_calls"] = [
            {
                "type": "function",
                "id": made.id,
                "function": {"name": made.name, "arguments": _Raw(json.loads(made.arguments), made.arguments)},
            }
            for made in message.tool_calls
        ]
    if message.tool_call_id is not None:
        told["tool_call_id"] = message.tool_call_id
    return told


class _Raw(dict[str, Any]):
    """Arguments that are written as they were sampled."""

    def __init__(self, value: dict[str, Any], text: str) -> None:
        super().__init__(value)
        self.text = text


def _tojson(value: Any, indent: int | None = None) -> str:
    return value.text if isinstance(value, _Raw) else json.dumps(value, ensure_ascii=False, indent=indent)


def _offered(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _refuse(words: str) -> None:
    raise jinja2.TemplateError(words)
