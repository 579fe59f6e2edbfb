"""The renderer of the scripted model's bytes, for tests and dry runs: an id is a UTF-8 byte, six more are marks.

Its template only ever adds, so nothing restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from silva.models.exact.renderer import Extension, Renderer
from silva.models.exact.reply import Alphabet
from silva.models.exact.syntax import Syntax
from silva.models.exact.template import RenderError
from silva.models.scripted import tokens
from silva.tree import ImagePart, Message, Tool


class _Bytes:
    """Bytes as a vocabulary."""

    controls = {f"<{number}>": number for number in range(tokens.END, tokens.TOOLS + 1)}  # noqa: RUF012

    def text_of(self, number: int) -> str | None:
        """The text of a mark."""
        return f"<{number}>" if tokens.END <= number <= tokens.TOOLS else None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of bytes."""
        return bytes(number for number in ids if number < 256).decode("utf-8", "replace")


class ByteRenderer(Renderer):
    """A `Renderer` of the scripted model."""

    def __init__(self) -> None:
        self.name = "scripted"
        self.stop_ids = frozenset({tokens.END})
        self.takes_images = False
        self._encoded = 0
        self._vocabulary = _Bytes()

    @property
    def encoded(self) -> int:
        """Ids made so far, over all calls."""
        return self._encoded

    def render(
        self, messages: Sequence[Message], tools: tuple[Tool, ...] = (), *, generation_prompt: bool = True
    ) -> tuple[int, ...]:
        """The ids of a whole conversation; see `Renderer`."""
        ids: list[int] = []
        if tools:
            ids += [tokens.TOOLS, *msgspec.json.encode([_written(tool) for tool in tools]), tokens.END]
        ids += self._messages(messages)
        if generation_prompt:
            ids.append(tokens.ROLES["assistant"])
        self._encoded += len(ids)
        return tuple(ids)

    def _extended(
        self, seen: Sequence[int], walk: Sequence[Message], new: Sequence[Message], tools: tuple[Tool, ...]
    ) -> Extension:
        ids = [] if seen and seen[-1] == tokens.END else [tokens.END]
        ids += [*self._messages(new), tokens.ROLES["assistant"]]
        self._encoded += len(ids)
        return Extension(ids=tuple(ids))

    def _reads(self) -> tuple[Alphabet, Syntax, bool]:
        return self._vocabulary, Syntax(), False

    def text(self, ids: Sequence[int]) -> str:
        """The ids as text, marks and all, to look at."""
        return "".join(
            self._vocabulary.text_of(number) or "" for number in ids if number > 255
        ) + self._vocabulary.decode(ids)

    def _messages(self, messages: Sequence[Message]) -> Iterable[int]:
        for message in messages:
            if any(isinstance(part, ImagePart) for part in message.parts):
                raise RenderError("the scripted model reads no images: leave them out")
            try:
                words = tokens.written(message.text, message.tool_calls).encode()
            except UnicodeEncodeError as fault:
                raise RenderError("the conversation cannot be tokenised for scripted: half a surrogate pair") from fault
            yield from (tokens.ROLES[message.role], *words, tokens.END)


def _written(tool: Tool) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
