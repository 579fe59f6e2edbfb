"""ReAct in text (Yao et al. 2023): tools described in words, actions read from words.

For models without native tool calls. The assistant node keeps the model's text as it was, with the calls read from it
beside it; a reply without an `Action:` line is an answer in plain words and is given to the environment as such.
"""

from __future__ import annotations

import json
import re

import msgspec

from silva.models.model import Model
from silva.rollout.agent import Turn, View, request_of, turn_of
from silva.tree import ImagePart, Message, TextPart, Tool, ToolCall, assistant, system, user

_ACTION = re.compile(r"^[ \t]*Action[ \t]*:[ \t]*(?P<name>[^\n(]+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_INPUT = re.compile(r"^[ \t]*Action[ _]Input[ \t]*:[ \t]*", re.MULTILINE | re.IGNORECASE)
STOP = "\nObservation:"


class ReActAgent:
    """Thought, action, observation in plain text."""

    name = "react"

    def __init__(self, model: Model) -> None:
        self.model = model

    async def act(self, view: View) -> Turn:
        """Ask the model in text and read the action from its reply."""
        sampling = msgspec.structs.replace(view.sampling, stop=(*view.sampling.stop, STOP))
        completion = await self.model.complete(request_of(view, render(view.messages, view.tools), (), sampling))
        return turn_of(completion, parse(completion.message, len(view.messages)))

    async def summarise(self, view: View, asked: str) -> Turn:
        """Ask the model once more, for words instead of an action."""
        messages = render((*view.messages, user(asked)), view.tools)
        return turn_of(await self.model.complete(request_of(view, messages, (), view.sampling)))


def render(messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> tuple[Message, ...]:
    """The conversation as a model without tool calls sees it: one system message, then user and assistant turns."""
    instructions = [m.text for m in messages if m.role == "system"]
    if tools:
        instructions.append(_manual(tools))
    rendered: list[Message] = [system("\n\n".join(instructions))] if instructions else []
    for message in messages:
        if message.role == "assistant":
            rendered.append(assistant(message.text or _spoken(message.tool_calls)))
        elif message.role == "tool":
            pictures = tuple(part for part in message.parts if isinstance(part, ImagePart))
            rendered.append(Message(role="user", parts=(TextPart(text=f"Observation: {message.text}"), *pictures)))
        elif message.role == "user":
            rendered.append(message)
    return _alternating(rendered)


def written(message: Message) -> str:
    """An action as a model would write it: its words, then the call. `parse` reads it back."""
    return "\n".join(filter(None, (message.text, _spoken(message.tool_calls))))


def parse(message: Message, turn: int) -> Message:
    """Read the first action from the text. Malformed input stays raw: the environment answers it in words."""
    text = message.text
    found = _ACTION.search(text)
    if found is None:
        return message
    given = _INPUT.search(text, found.end())
    arguments = _first_object(text[given.end() :]) if given else "{}"
    call = ToolCall(id=f"react-{turn}", name=found["name"].strip("` "), arguments=arguments)
    return msgspec.structs.replace(message, tool_calls=(call,))


def _first_object(text: str) -> str:
    text = text.strip().removeprefix("```json").removeprefix("```").lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        return text.split("\n", 1)[0].strip()
    return text[:end]


def _manual(tools: tuple[Tool, ...]) -> str:
    lines = [
        "You act through the tools below. To use one, write exactly two lines and stop:",
        "Action: <tool name>",
        "Action Input: <arguments as one JSON object>",
        "The result comes back as an Observation. When the task is done, or no tool fits, answer in plain words "
        "without an Action line.",
        "",
        "Tools:",
    ]
    lines += [f"- {t.name}: {t.description} Arguments: {json.dumps(t.parameters)}" for t in tools]
    # Small models copy a form they see more readily than one they are told of.
    lines += ["", "A well-formed action looks like this:", _spoken((_example(tools[0]),))]
    return "\n".join(lines)


_SAMPLES = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}, "null": None}


def _example(tool: Tool) -> ToolCall:
    """A call of the tool with the arguments it requires, made up from its schema."""
    schema = tool.parameters or {}
    known, required = schema.get("properties", {}), schema.get("required", ())
    arguments = {name: _sample(known.get(name, {})) for name in required}
    return ToolCall(id="", name=tool.name, arguments=json.dumps(arguments))


def _sample(schema: object) -> object:
    given = schema if isinstance(schema, dict) else {}
    if given.get("enum"):
        return given["enum"][0]
    kind = given.get("type")
    return _SAMPLES.get(kind, "…") if isinstance(kind, str) else "…"


def _spoken(calls: tuple[ToolCall, ...]) -> str:
    return "\n".join(f"Action: {call.name}\nAction Input: {call.arguments}" for call in calls)


def _alternating(messages: list[Message]) -> tuple[Message, ...]:
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is not None and last.role == message.role == "user":
            merged[-1] = Message(role="user", parts=(*last.parts, TextPart(text=""), *message.parts))
        else:
            merged.append(message)
    return tuple(merged)
