"""What of a conversation is known as exact ids, and the prompt that goes on from it."""

from __future__ import annotations

from silva.models.exact.renderer import (
    CONVERSATION_CHANGED,
    TOOLS_CHANGED,
    Extension,
    Renderer,
    Restart,
)
from silva.tree import Message, Record, Tool


class Continuation(Record, frozen=True, kw_only=True):
    """The ids a model has seen and sampled, and what they stand for: the messages as they are on the nodes (the last is
    the sampled reply) and the tools in force; None where all that is known of these is that they are others than those
    asked for now."""

    ids: tuple[int, ...]
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] | None = ()

    @property
    def count(self) -> int:
        """How many messages the ids cover."""
        return len(self.messages)


class Prompt(Record, frozen=True, kw_only=True):
    """The ids to send. The first `kept` were known, the others are tokenised now. `restart` says why nothing was kept
    though something was known, else it is ""."""

    ids: tuple[int, ...]
    kept: int = 0
    restart: str = ""


def prompt_for(
    renderer: Renderer, messages: tuple[Message, ...], tools: tuple[Tool, ...], known: Continuation | None
) -> Prompt:
    """The prompt of a conversation that goes on from what is known of it.

    Args:
        renderer: of the model.
        messages: the whole conversation. The first `known.count` need not be word for word what was sampled: those of
            `known` are taken for them.
        tools: what the model may call.
        known: None for a new conversation.

    Raises:
        RenderError: the template refuses the conversation.
    """
    restart = ""
    whole = messages
    if known is not None and known.messages:
        whole = known.messages + messages[known.count :]
        if len(messages) < known.count:
            restart, whole = CONVERSATION_CHANGED, messages
        elif known.tools != tools:
            restart = TOOLS_CHANGED
        else:
            found = renderer.extend(known.ids, known.messages, messages[known.count :], tools)
            if isinstance(found, Extension):
                return Prompt(ids=known.ids + found.ids, kept=len(known.ids))
            assert isinstance(found, Restart)
            restart = found.reason
    return Prompt(ids=renderer.render(whole, tools), restart=restart)
