"""The model that an Inspect AI task is given: one that asks Silva's agent.

    solver ─▶ Model.generate ─▶ SilvaModel.generate ─▶ Talk.ask ─▶ … ─▶ ModelOutput ─▶ solver

`to_message` and `to_output` are the two translations. Text, reasoning, images in data URIs and tool calls go both ways;
sound, video and documents are refused by name.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ContentImage,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    modelapi,
)
from inspect_ai.model._call_tools import parse_tool_call
from inspect_ai.tool import ToolChoice, ToolInfo
from inspect_ai.util import LimitExceededError

from silva.envs.gyms.bridge_talk import Cut, Talk
from silva.tree import ImagePart, Json, Message, Part, TextPart, ThinkingPart, Tool, ToolCall


@modelapi(name="silva")
class SilvaModel(ModelAPI):
    """Inspect's view of the agent; `asks` is told which episode it belongs to."""

    def __init__(self, model_name: str = "agent") -> None:
        super().__init__(model_name, config=GenerateConfig())
        self._talk = Talk()
        self._blobs: dict[str, bytes] = {}

    def asks(self, talk: Talk, blobs: dict[str, bytes]) -> SilvaModel:
        """Ask in `talk`, putting images into `blobs`. No arguments of the constructor: Inspect would log them."""
        self._talk, self._blobs = talk, blobs
        return self

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Ask the agent.

        Raises:
            LimitExceededError: the episode was cut off; Inspect then scores what there is.
        """
        messages = [to_message(message, self._blobs) for message in input]
        offered = [] if tool_choice == "none" else tools
        try:
            answer = await self._talk.ask(messages, [to_tool(info) for info in offered])
        except Cut as cut:
            turns = self._talk.turns
            raise LimitExceededError(
                "custom", value=turns, limit=turns, message="Silva ended the episode here"
            ) from cut
        return to_output(answer, tools)

    def should_retry(self, ex: Exception) -> bool:
        """Never: the agent answers once."""
        return False

    def disable_computer_screenshot_truncation(self) -> bool:
        """Yes: what the agent has seen stays, so that the conversation only grows."""
        return True

    def collapse_user_messages(self) -> bool:
        """No: messages stay as the task wrote them."""
        return False

    def collapse_assistant_messages(self) -> bool:
        """No."""
        return False


def to_tool(info: ToolInfo) -> Tool:
    """Inspect's tool as ours."""
    parameters: Json = info.parameters.model_dump(mode="json", exclude_none=True, by_alias=True)
    return Tool(name=info.name, description=info.description, parameters=parameters)


def to_message(message: ChatMessage, blobs: dict[str, bytes]) -> Message:
    """Inspect's message as ours; images land in `blobs` by their hash.

    Raises:
        ValueError: it holds what no message of ours can (sound, video, documents, images by address).
    """
    content: list[Any] = [ContentText(text=message.content)] if isinstance(message.content, str) else message.content
    parts = tuple(part for part in (_part(item, blobs) for item in content) if part is not None)
    if message.role == "tool":
        if message.error is not None:
            parts = (TextPart(text=f"error: {message.error.message}"),)
        return Message(role="tool", parts=parts, tool_call_id=message.tool_call_id, name=message.function)
    calls = ()
    if isinstance(message, ChatMessageAssistant):
        made = message.tool_calls or []
        calls = tuple(ToolCall(id=call.id, name=call.function, arguments=_json(call.arguments)) for call in made)
    return Message(role=message.role, parts=parts, tool_calls=calls)


def to_output(answer: Message, tools: list[ToolInfo]) -> ModelOutput:
    """The agent's message as Inspect's output; arguments that are not JSON become a parse error that Inspect tells."""
    content: list[Any] = []
    for part in answer.parts:
        if isinstance(part, ThinkingPart):
            content.append(ContentReasoning(reasoning=part.text, signature=part.signature))
        elif isinstance(part, TextPart):
            content.append(ContentText(text=part.text))
    plain = answer.text if all(isinstance(part, TextPart) for part in answer.parts) else content
    calls = [parse_tool_call(call.id, call.name, call.arguments, tools) for call in answer.tool_calls]
    message = ChatMessageAssistant(content=plain, tool_calls=calls or None, model="silva/agent", source="generate")
    choice = ChatCompletionChoice(message=message, stop_reason="tool_calls" if calls else "stop")
    return ModelOutput(model="silva/agent", choices=[choice])


def _part(item: Any, blobs: dict[str, bytes]) -> Part | None:
    if isinstance(item, ContentText):
        return TextPart(text=item.text) if item.text else None
    if isinstance(item, ContentReasoning):
        return ThinkingPart(text=item.reasoning, signature=item.signature)
    if isinstance(item, ContentImage) and item.image.startswith("data:"):
        head, _, body = item.image.partition(",")
        data = base64.b64decode(body)
        name = hashlib.sha256(data).hexdigest()
        blobs[name] = data
        return ImagePart(hash=name, media_type=head.removeprefix("data:").partition(";")[0])
    raise ValueError(f"the task sends {type(item).__name__}, which Silva's messages cannot carry")


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
