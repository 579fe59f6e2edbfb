"""What a stream has given so far, and what of the whole reply is still to be given."""

from __future__ import annotations

from silva.tree import Message, ThinkingPart


class Said:
    """Text and thinking handed on piece by piece."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thinking: list[str] = []

    @property
    def text(self) -> str:
        """The text given so far."""
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        """The thinking given so far."""
        return "".join(self._thinking)

    def add(self, text: str, thinking: str) -> None:
        """Note a piece."""
        if text:
            self._text.append(text)
        if thinking:
            self._thinking.append(thinking)

    def rest(self, message: Message) -> tuple[str, str]:
        """Text and thinking of the message that were not given. What was given and is not in it cannot be taken
        back: then nothing is added, for two versions of one sentence help nobody."""
        thoughts = [part.text for part in message.parts if isinstance(part, ThinkingPart)]
        joined = "".join(thoughts)  # a stream tells thoughts apart by their signatures, not by newlines
        thinking = joined if joined.startswith(self.thinking) else message.thinking
        return _rest(self.text, message.text), _rest(self.thinking, thinking)


def _rest(given: str, whole: str) -> str:
    return whole[len(given) :] if whole.startswith(given) else ""
