"""A chat template: a conversation to the text a model was taught to read. A sandboxed Jinja program, as models ship it.

    Message ─▶ spoken: the dictionary templates expect ─▶ Template.render ─▶ text

A template knows the tools and the thinking of a conversation, or it does not. Where it does not, tools are described
in the system message and thinking stands in the words, between its marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import msgspec

from silva.errors import UsageError
from silva.models.call_ids import short_id
from silva.models.exact.told_tools import SYSTEM, TOOLS
from silva.tree import ImagePart, Message, TextPart, ThinkingPart, Tool, ToolCall

Hide = Callable[[str], str]


class RenderError(UsageError):
    """A conversation that cannot be put into the template; the message has the template's own words."""


class Arguments(dict[str, Any]):
    """Arguments of a call, which templates may walk through, that remember the text they were read from."""

    raw: str = ""


class _Generation(jinja2.ext.Extension):
    """`{% generation %}`, with which some templates surround what a model says; it adds nothing to the text."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 wants a plain set

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node | list[jinja2.nodes.Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


class Template:
    """The template of a model's folder.

    Args:
        source: its text.
        tokens: the named special tokens it may write.
        name: of the folder, for messages.
        today: the date it is told; it stays the same, so that no conversation is rewritten at midnight.
        options: further variables, such as `enable_thinking`.

    Raises:
        UsageError: the source is no template.
    """

    def __init__(
        self, source: str, tokens: dict[str, str], name: str, today: datetime, options: dict[str, Any] | None = None
    ) -> None:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = today.strftime
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as fault:
            raise UsageError(f"model folder {name}: its chat template cannot be used: {fault}") from fault
        source = re.sub(r"\{#.*?#\}", "", source, flags=re.DOTALL)
        self.name = name
        self.parts_only = False
        self.takes_system = True
        self.knows_tools = re.search(r"\btools\b", source) is not None
        self._variables = {**tokens, **(options or {})}
        self._thinking_field = next(
            (field for field in ("reasoning_content", "reasoning", "thinking") if _asks_for(source, field)), None
        )
        self._short_ids = re.search(r"\.id\s*\|\s*length", source) is not None

    def render(
        self,
        messages: Sequence[Message],
        tools: tuple[Tool, ...],
        *,
        ready: bool,
        hide: Hide = str,
        think: str = "<think>",
    ) -> str:
        """The text of a conversation.

        Args:
            messages: the conversation.
            tools: what the model may call.
            ready: whether the head of the model's next message ends it.
            hide: what every string of the conversation is passed through.
            think: the opening mark of thinking, for templates that do not know it.

        Raises:
            RenderError: the template refuses the conversation.
        """
        known = self.knows_tools
        spoken = [self._spoken(message, hide, think) for message in messages]
        if not known:
            spoken = _described(spoken, tools, hide, "system" if self.takes_system else "user")
        if self.parts_only:
            spoken = [_in_parts(message) for message in spoken]
        offered = [_offered(tool, hide) for tool in tools] if tools and known else None
        try:
            return self._template.render(
                **{**self._variables, "messages": spoken, "tools": offered, "add_generation_prompt": ready}
            )
        except (jinja2.TemplateError, TypeError, KeyError, ValueError, AttributeError, IndexError) as fault:
            words = " ".join(str(fault).split())[:200] or type(fault).__name__
            raise RenderError(f"the chat template of {self.name} refuses the conversation: {words}") from fault

    def _spoken(self, message: Message, hide: Hide, think: str) -> dict[str, Any]:
        text, thinking = hide(message.text), hide(message.thinking)
        content: str | list[dict[str, str]] = text
        if any(isinstance(part, ImagePart) for part in message.parts):
            content = []
            for part in message.parts:
                if isinstance(part, TextPart):
                    content.append({"type": "text", "text": hide(part.text)})
                elif isinstance(part, ImagePart):
                    content.append({"type": "image"})
        spoken: dict[str, Any] = {"role": message.role, "content": content}
        if any(isinstance(part, ThinkingPart) for part in message.parts):
            if self._thinking_field is not None:
                spoken[self._thinking_field] = thinking
            elif isinstance(content, str):
                spoken["content"] = f"{think}\n{thinking}\n{think[0]}/{think[1:]}\n\n{text}"
        if message.tool_calls:
            spoken["tool_calls"] = [self._call(call, hide) for call in message.tool_calls]
        if message.tool_call_id is not None:
            spoken["tool_call_id"] = self._call_id(message.tool_call_id, hide)
        if message.name is not None:
            spoken["name"] = hide(message.name)
        return spoken

    def _call(self, call: ToolCall, hide: Hide) -> dict[str, Any]:
        function = {"name": hide(call.name), "arguments": _arguments(call.arguments, hide)}
        return {"id": self._call_id(call.id, hide), "type": "function", "function": function}

    def _call_id(self, text: str, hide: Hide) -> str:
        if not self._short_ids or (len(text) == 9 and text.isalnum()):
            return hide(text)
        return short_id(text)


def strings(messages: Sequence[Message], tools: Sequence[Tool]) -> list[str]:
    """Every string of a conversation that a template may write."""
    found: list[str] = []
    for message in messages:
        found += [part.text for part in message.parts if not isinstance(part, ImagePart)]
        found += [message.text, message.thinking, message.tool_call_id or "", message.name or ""]
        for call in message.tool_calls:
            found += [call.id, call.name, call.arguments]
            found += _leaves(_parsed(call.arguments))
    for tool in tools:
        found += [tool.name, tool.description, *_leaves(tool.parameters)]
    return found


def _asks_for(source: str, field: str) -> bool:
    return re.search(rf"\.{field}\b|['\"]{field}['\"]", source) is not None


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    if isinstance(value, Arguments) and value.raw and indent is None and separators is None and not sort_keys:
        return value.raw
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except (json.JSONDecodeError, RecursionError):
        return None


def _arguments(text: str, hide: Hide) -> Arguments | str:
    value = _parsed(text)
    if not isinstance(value, dict):
        return hide(text)
    arguments = Arguments(_mapped(value, hide))
    arguments.raw = hide(text or "{}")
    return arguments


def _mapped(value: Any, hide: Hide) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {hide(key): _mapped(item, hide) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, hide) for item in value]
    return value


def _leaves(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *_leaves(item))]
    if isinstance(value, list):
        return [text for item in value for text in _leaves(item)]
    return []


def _offered(tool: Tool, hide: Hide) -> dict[str, Any]:
    parameters = _mapped(tool.parameters, hide) or {"type": "object", "properties": {}}
    function = {"name": hide(tool.name), "description": hide(tool.description), "parameters": parameters}
    return {"type": "function", "function": function}


def _in_parts(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def _described(spoken: list[dict[str, Any]], tools: tuple[Tool, ...], hide: Hide, role: str) -> list[dict[str, Any]]:
    """For a template that knows no tools: described in the first message of a role, calls and results as text."""
    plain = [_without_calls(message) for message in spoken]
    if not tools:
        return plain
    listed = [msgspec.json.encode(_offered(tool, hide)["function"]).decode() for tool in tools]
    words = TOOLS.format(tools="\n".join(listed))
    if plain and plain[0]["role"] == role and isinstance(plain[0]["content"], str):
        said = plain[0]["content"]
        both = said + "\n\n" + words if role == "system" else words + "\n\n" + said
        return [{**plain[0], "content": both}, *plain[1:]]
    return [{"role": role, "content": SYSTEM + "\n\n" + words}, *plain]


def _without_calls(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool" and isinstance(message["content"], str):
        return {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
    calls = message.get("tool_calls")
    if not calls or not isinstance(message["content"], str):
        return message
    parts = [message["content"]] if message["content"] else []
    for call in calls:
        function = call["function"]
        name, arguments = json.dumps(function["name"], ensure_ascii=False), function["arguments"]
        written = arguments if isinstance(arguments, str) else _tojson(arguments)
        parts.append(f'<tool_call>\n{{"name": {name}, "arguments": {written}}}\n</tool_call>')
    # no empty key is left: DeepSeek's template asks whether there is one, not what is in it
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": "\n".join(parts)}
