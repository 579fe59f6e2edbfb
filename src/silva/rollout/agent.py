"""An agent: from the conversation so far to the next assistant message.

    view (messages, tools, seed, deadline) ─▶ agent renders a request ─▶ model ─▶ agent reads the reply ─▶ Turn

The tree keeps the environment's own words; how an agent shows them to its model (native tool calls, or ReAct text) is
the agent's affair and is a pure function of the walk, so any stored turn can be rendered again.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from silva.models.model import Completion, Model, Request, Sampling
from silva.tree import Json, Message, Record, Tokens, Tool, Usage, user


class View(Record, frozen=True, kw_only=True):
    """What an agent acts on. `deadline` in seconds; `images` maps content hash to bytes."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    sampling: Sampling
    deadline: float
    session: str
    images: dict[str, bytes]


class Turn(Record, frozen=True, kw_only=True):
    """One action with what is known of how it was made. `prompt_ids` are the ids the model saw before sampling;
    `attributes` go to its node."""

    message: Message
    finish_reason: str = ""
    tokens: Tokens | None = None
    prompt_ids: tuple[int, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    policy_version: str = ""
    attributes: Json = msgspec.field(default_factory=dict[str, Any])


class FormError(ValueError):
    """An action that cannot be written as an agent has its model write it; the message says why and what else to do."""


class Agent(Protocol):
    """Anything that can take a turn."""

    name: str

    async def act(self, view: View) -> Turn:
        """Take one turn.

        Raises:
            ModelError: the model could not be had; the engine files it under the model boundary.
        """
        ...


class AgentFor(Protocol):
    """What makes an agent for a live environment; `role` is given where an episode has several."""

    def __call__(self, env: Any, /, role: str = "") -> Agent:
        """An agent for `env`, to play `role`."""
        ...


class ToolAgent:
    """Native tool calling: the conversation goes to the model as it stands."""

    name = "tools"

    def __init__(self, model: Model) -> None:
        self.model = model

    async def act(self, view: View) -> Turn:
        """Ask the model once; its message is the action."""
        return turn_of(await self.model.complete(request_of(view, view.messages, view.tools, view.sampling)))

    async def summarise(self, view: View, asked: str) -> Turn:
        """Ask the model once more, for words instead of an action."""
        sampling = msgspec.structs.replace(view.sampling, tool_choice="none" if view.tools else None)
        messages = (*view.messages, user(asked))
        return turn_of(await self.model.complete(request_of(view, messages, view.tools, sampling)))


def request_of(view: View, messages: tuple[Message, ...], tools: tuple[Tool, ...], sampling: Sampling) -> Request:
    """The model request for a view, with the agent's own rendering of messages and tools."""
    return Request(
        messages=messages,
        tools=tools,
        sampling=sampling,
        deadline=view.deadline,
        session=view.session,
        images=view.images,
    )


def turn_of(completion: Completion, message: Message | None = None) -> Turn:
    """The turn a completion makes, with `message` in place of its own when the agent parsed it further."""
    usage = msgspec.structs.replace(completion.usage, model_seconds=completion.seconds)
    return Turn(
        message=completion.message if message is None else message,
        finish_reason=completion.finish_reason,
        tokens=completion.tokens,
        prompt_ids=completion.prompt_ids,
        usage=usage,
        model=completion.model,
        policy_version=completion.policy_version,
    )
