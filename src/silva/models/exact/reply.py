"""A reply read as it grows: sampled ids to words, thinking and calls, none of the marks left in the words.

    ids ─▶ Decoding: whole characters, control tokens apart ─▶ ReplyReader: text │ thinking │ call │ over ─▶ Delta …
                                                                                                └─▶ finish ─▶ Parsed

A whole reply is read by the same steps as a streamed one, so both say the same. What could still become a mark, the
inside of a call and blanks before one are held back until it is known what they are. A call that cannot be read is
text, marks and all. A mark that is a control token in this vocabulary counts only as that token, never as its letters.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Protocol

from silva.models.call_ids import short_id
from silva.models.exact.syntax import CallSyntax, Syntax
from silva.models.model import Delta
from silva.tree import Message, Part, Record, TextPart, ThinkingPart, Tool, ToolCall


class Parsed(Record, frozen=True, kw_only=True):
    """A reply as a message. `ended`: its last id was one that ends a reply."""

    message: Message
    ended: bool


class Alphabet(Protocol):
    """As much of a vocabulary as reading needs: the texts of its control tokens, and ids to text."""

    @property
    def controls(self) -> Container[str]:
        """The texts of all control tokens."""
        ...

    def text_of(self, number: int) -> str | None:
        """The text of a control token, None where the id is none."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        ...


class Decoding:
    """Ids to pieces of text, each with whether it is a control token. Half a character waits for its other half."""

    def __init__(self, vocabulary: Alphabet) -> None:
        self._vocabulary = vocabulary
        self._pending: list[int] = []

    def take(self, ids: Iterable[int]) -> list[tuple[str, bool]]:
        """The pieces that these ids complete."""
        pieces: list[tuple[str, bool]] = []
        for number in ids:
            mark = self._vocabulary.text_of(number)
            if mark is None:
                self._pending.append(number)
            else:
                pieces += [*self.rest(), (mark, True)]
        if self._pending:
            text = self._vocabulary.decode(self._pending)
            if text and not text.endswith("\ufffd"):
                pieces.append((text, False))
                self._pending.clear()
        return pieces

    def rest(self) -> list[tuple[str, bool]]:
        """What is left, half characters as U+FFFD."""
        text = self._vocabulary.decode(self._pending)
        self._pending.clear()
        return [(text, False)] if text else []


class ReplyReader:
    """Reads one reply.

    Args:
        vocabulary: of the model.
        syntax: of its family.
        stop_ids: ids that end a reply.
        tools: what it may call; without any, calls are text.
        thinking: whether the prompt has opened the thinking already.
        stop: texts that end the reply, themselves no part of it.
        name: what the ids of calls are made from, besides the reply's own ids; calls of one conversation differ by it.
    """

    def __init__(
        self,
        vocabulary: Alphabet,
        syntax: Syntax,
        stop_ids: frozenset[int],
        *,
        tools: Sequence[Tool] = (),
        thinking: bool = False,
        stop: Sequence[str] = (),
        name: str = "",
    ) -> None:
        self._vocabulary, self._syntax, self._tools = vocabulary, syntax, tools
        self._stop_ids, self._stop, self._name = stop_ids, tuple(filter(None, stop)), name
        self._decoding = Decoding(vocabulary)
        self._mode = "thinking" if thinking and syntax.think else "start"
        self._ids: list[int] = []
        self._end: int | None = None
        self._buffer = self._block = self._blank = ""
        self._open: CallSyntax | None = None
        self._has_thought = False
        self._bare = next((calls for calls in syntax.calls if calls.bare and tools), None)
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[ToolCall] = []
        self._said: list[str] = []
        self._thought: list[str] = []

    def feed(self, ids: Sequence[int]) -> Delta | None:
        """Read on; what can be shown of it, or None."""
        for number in ids:
            if self._end is not None:  # an end that did not end it
                self._take_ids([self._end])
                self._end = None
            if number in self._stop_ids:
                self._end = number
            else:
                self._take_ids([number])
        return self._shown()

    def finish(self) -> tuple[Parsed, Delta | None]:
        """The whole reply, and what was not shown yet."""
        for text, control in self._decoding.rest():
            self._take(text, control)
        self._settle()
        self._close_call("")
        if self._blank and not self._calls:
            self._show(self._blank)
        delta = self._shown()
        parts: list[Part] = []
        thinking = "".join(self._thinking)
        if thinking:
            parts.append(ThinkingPart(text=thinking))
        if text := "".join(self._text):
            parts.append(TextPart(text=text))
        message = Message(role="assistant", parts=tuple(parts), tool_calls=tuple(self._calls))
        return Parsed(message=message, ended=self._end is not None), delta

    def _take_ids(self, ids: Sequence[int]) -> None:
        self._ids.extend(ids)
        for text, control in self._decoding.take(ids):
            self._take(text, control)

    def _take(self, text: str, control: bool) -> None:
        if control:
            self._settle()
            if not self._switch(text):
                self._put(text)
            return
        self._buffer += text
        while self._mode != "over":
            awaited = [mark for mark in self._awaited() if mark not in self._vocabulary.controls or mark in self._stop]
            found = min(((self._buffer.find(m), i) for i, m in enumerate(awaited) if m in self._buffer), default=None)
            if found is None:
                keep = max((_overlap(self._buffer, mark) for mark in awaited), default=0)
                shown = len(self._buffer) - keep
                before, self._buffer = self._buffer[:shown], self._buffer[shown:]
                if before:
                    self._put(before)
                return
            place, mark = found[0], awaited[found[1]]
            before, self._buffer = self._buffer[:place], self._buffer[place + len(mark) :]
            if before:
                self._put(before)
            if not self._switch(mark):
                self._put(mark)
        self._buffer = ""

    def _awaited(self) -> list[str]:
        """Marks that mean something now, the more important first."""
        syntax = self._syntax
        if self._mode == "thinking":
            own = [syntax.unthink]
        elif self._open is not None:
            own = [self._open.end or self._open.begin]
        elif self._mode == "bare":
            own = []
        else:
            own = [syntax.think] if self._mode == "start" and syntax.think else []
            own += [calls.begin for calls in syntax.calls] if self._tools else []
        return [*own, *self._stop]

    def _switch(self, mark: str) -> bool:
        """Follow a mark; False where it means nothing here."""
        if mark not in self._awaited():
            return False
        opened = next((calls for calls in self._syntax.calls if calls.begin == mark), None)
        if self._mode == "thinking" and mark == self._syntax.unthink:
            self._mode, self._has_thought, self._blank = "text", True, ""
        elif self._open is not None and mark in (self._open.end, self._open.begin):
            self._close_call(mark if mark == self._open.end else "")
        elif self._mode == "start" and mark == self._syntax.think:
            self._mode = "thinking"
            self._blank = ""
        elif mark in self._stop:
            self._close_call("")
            self._mode = "over"
        if opened is not None and self._mode in ("start", "text"):
            self._mode, self._open = "call", opened
        return True

    def _put(self, text: str) -> None:
        if self._mode == "call" or self._mode == "bare":
            self._block += text
        elif self._mode == "start" and text.strip():
            if self._bare is not None and text.lstrip().startswith("{"):
                self._mode, self._block = "bare", text
            else:
                self._mode = "text"
                self._write(text)
        elif self._mode != "over":
            self._write(text)

    def _write(self, text: str) -> None:
        """Words or thoughts; blanks wait for what follows them."""
        sink = self._thinking if self._mode == "thinking" else self._text
        if not sink and (sink is self._thinking or self._has_thought):
            text = (self._blank + text).lstrip("\n")
            self._blank = ""
        text = self._blank + text
        shown = text.rstrip("\n" if sink is self._thinking else None)
        self._blank = text[len(shown) :]
        if shown:
            sink.append(shown)
            (self._thought if sink is self._thinking else self._said).append(shown)

    def _show(self, text: str) -> None:
        if self._mode == "thinking":
            return
        self._text.append(text)
        self._said.append(text)
        self._blank = ""

    def _settle(self) -> None:
        """What was kept because it might have become a mark will not."""
        text, self._buffer = self._buffer, ""
        if text:
            self._put(text)

    def _close_call(self, mark: str) -> None:
        """The block of a call, if there is one, is whole: calls if it can be read, else words."""
        syntax = self._bare if self._mode == "bare" else self._open
        if syntax is None:
            return
        begin, block = "" if self._mode == "bare" else syntax.begin, self._block
        self._mode, self._open, self._block = "text", None, ""
        calls = syntax.read(block, self._tools)
        if calls is None:
            self._write(begin + block + mark)
        else:
            self._add(calls)

    def _add(self, calls: list[tuple[str, str, str]]) -> None:
        for name, arguments, given in calls:
            seed = f"{self._name} {len(self._calls)} {self._ids}"
            self._calls.append(ToolCall(id=given or short_id(seed), name=name, arguments=arguments))

    def _shown(self) -> Delta | None:
        text, thinking = "".join(self._said), "".join(self._thought)
        self._said.clear()
        self._thought.clear()
        return Delta(text=text, thinking=thinking) if text or thinking else None


def _overlap(text: str, mark: str) -> int:
    """How long an end of the text is that the mark begins with."""
    return next((n for n in range(min(len(text), len(mark) - 1), 0, -1) if text.endswith(mark[:n])), 0)
