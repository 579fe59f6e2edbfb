"""What puts conversations into ids and replies back into messages, whatever the family.

new conversation ─▶ render ─▶ every id of the prompt
seen ids + what was said since ─▶ extend ─▶ Extension: the ids to append │ Restart: why they cannot be
sampled ids ─▶ reader / parse ─▶ Message
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from silva.models.exact.reply import Alphabet, Parsed, ReplyReader
from silva.models.exact.syntax import Syntax
from silva.tree import Message, Record, Tool

THINKING_DROPPED = "thinking_dropped"
"""The template leaves out the thinking of earlier turns."""
HISTORY_REWRITTEN = "history_rewritten"
"""The template writes earlier turns otherwise now that others follow them."""
TOOLS_CHANGED = "tools_changed"
"""The tools are others than those the ids were made with."""
CONVERSATION_CHANGED = "conversation_changed"
"""The messages are not those the ids stand for."""


class Extension(Record, frozen=True, kw_only=True):
    """`ids` to put after the seen ones: what closes the last reply, the new messages, the head of the next reply."""

    ids: tuple[int, ...]


class Restart(Record, frozen=True, kw_only=True):
    """The seen ids cannot be gone on from. `reason` is one of this module's constants and goes to the node."""

    reason: str


class Renderer(ABC):
    """One model's way of writing. `name` is of its folder, `stop_ids` end a reply, `takes_images` says whether its
    template has a place for them."""

    name: str
    stop_ids: frozenset[int]
    takes_images: bool

    @property
    @abstractmethod
    def encoded(self) -> int:
        """Ids made by tokenising so far, over all calls."""

    @abstractmethod
    def render(
        self, messages: Sequence[Message], tools: tuple[Tool, ...] = (), *, generation_prompt: bool = True
    ) -> tuple[int, ...]:
        """The ids of a whole conversation; `generation_prompt` adds the head of the model's next message.

        Raises:
            RenderError: the template refuses the conversation.
        """

    def extend(
        self,
        seen_ids: Sequence[int],
        walk_messages: Sequence[Message],
        new_messages: Sequence[Message],
        tools: tuple[Tool, ...] = (),
    ) -> Extension | Restart:
        """What to append to the ids a model has seen and sampled. Only what is appended is tokenised.

        Args:
            seen_ids: prompt and sampled ids so far; the last ones were sampled, with or without an end mark.
            walk_messages: what they stand for; the last is the sampled reply.
            new_messages: what was said since.
            tools: what the model may call, the same as when `seen_ids` were made.

        Raises:
            RenderError: the template refuses the conversation.
            ValueError: the walk does not end with an assistant's message.
        """
        if not walk_messages or walk_messages[-1].role != "assistant":
            raise ValueError("seen ids end with a sampled reply: the walk must end with an assistant's message")
        return self._extended(seen_ids, walk_messages, new_messages, tools)

    @abstractmethod
    def _extended(
        self, seen: Sequence[int], walk: Sequence[Message], new: Sequence[Message], tools: tuple[Tool, ...]
    ) -> Extension | Restart: ...

    @abstractmethod
    def _reads(self) -> tuple[Alphabet, Syntax, bool]:
        """What a reply is written in, how its calls are, and whether the prompt has opened its thinking."""

    def reader(self, tools: Sequence[Tool] = (), *, stop: Sequence[str] = (), name: str = "") -> ReplyReader:
        """A reader of one reply, for streams; the arguments are as in `ReplyReader`."""
        alphabet, syntax, thinking = self._reads()
        return ReplyReader(alphabet, syntax, self.stop_ids, tools=tools, thinking=thinking, stop=stop, name=name)

    def parse(self, ids: Sequence[int], tools: Sequence[Tool] = (), *, name: str = "") -> Parsed:
        """A whole reply as a message."""
        reader = self.reader(tools, name=name)
        reader.feed(ids)
        return reader.finish()[0]

    @abstractmethod
    def text(self, ids: Sequence[int]) -> str:
        """The ids as text, marks and all, to look at."""
