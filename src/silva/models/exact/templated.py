"""The renderer of a model's folder: its own template and tokenizer, nothing known of the family beforehand.

    walk ─▶ template ─▶ said          ┌─ asked begins with said: the tail after the reply's last word is tokenised
    walk + new ─▶ template ─▶ asked ──┤
                                      └─ it does not: the template rewrites what the model saw ─▶ Restart

Text is rendered twice a turn, behind a reply that thought a third time, which is cheap; tokenised is the tail alone.
The template is compared with itself, so how a client or a template would write the sampled reply does not matter: its
ids stay as sampled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.models.exact.folder import ModelFolder
from silva.models.exact.renderer import HISTORY_REWRITTEN, THINKING_DROPPED, Extension, Renderer, Restart
from silva.models.exact.reply import Alphabet
from silva.models.exact.shield import Shield
from silva.models.exact.syntax import Syntax, syntax_of
from silva.models.exact.template import RenderError, Template, strings
from silva.models.exact.vocabulary import Vocabulary
from silva.tree import ImagePart, Message, ThinkingPart, Tool, assistant, system, user

_PROBE = "qxzvk"
"""A word no template writes."""


class TemplateRenderer(Renderer):
    """A `Renderer` for any model with a tokenizer and a chat template.

    Args:
        folder: what its folder says.
        options: variables for the template, such as `enable_thinking`.
        today: the date the template is told, the same as long as this lives.
        keep_history: go on from what the model saw even where the template would now write it otherwise; nothing
            restarts, and the model sees more (thinking of earlier turns) than its template would show it. Only where a
            template does not show the end of the last reply it restarts still.

    Raises:
        MissingError: the package tokenizers is not installed.
        UsageError: the tokenizer or the template cannot be used.
    """

    def __init__(
        self,
        folder: ModelFolder,
        options: dict[str, Any] | None = None,
        today: datetime | None = None,
        *,
        keep_history: bool = False,
    ) -> None:
        self._keep_history = keep_history
        self.name = folder.name
        self.vocabulary = Vocabulary(folder.tokenizer, folder.name)
        self.template = Template(folder.template, folder.tokens, folder.name, today or datetime.now(UTC), options)
        self.syntax: Syntax = syntax_of(folder.template, frozenset(self.vocabulary.controls), self.template.knows_tools)
        self._probe_content()
        controls = self.vocabulary.controls
        ends = set(folder.ends)
        if (end := controls.get(folder.tokens.get("eos_token", ""))) is not None:
            ends.add(end)
        self._closing = self._probed_closing()
        if (mark := self._mark_at(self._closing.lstrip())) is not None:
            ends.add(controls[mark])
        self.stop_ids = frozenset(ends)
        self._enders = tuple(mark for mark, number in controls.items() if number in ends)
        self._opens_thinking = self._probed_thinking()
        self.takes_images = self._probed_images()

    @property
    def encoded(self) -> int:
        """Ids made by tokenising so far, over all calls."""
        return self.vocabulary.encoded

    def render(
        self, messages: Sequence[Message], tools: tuple[Tool, ...] = (), *, generation_prompt: bool = True
    ) -> tuple[int, ...]:
        """The ids of a whole conversation; see `Renderer`."""
        self._check(messages, tools)
        shield = Shield(self.vocabulary.marks, strings(messages, tools))
        text = self._text(messages, tools, generation_prompt, shield)
        return self._encode(text, shield, first=True)

    def _extended(
        self, seen: Sequence[int], walk: Sequence[Message], new: Sequence[Message], tools: tuple[Tool, ...]
    ) -> Extension | Restart:
        whole = [*walk, *new]
        self._check(whole, tools)
        shield = Shield(self.vocabulary.marks, strings(whole, tools))
        asked = self._text(whole, tools, True, shield)
        said = self._text(walk, tools, False, shield)
        cut = self._end_of_reply(said)
        closed = bool(seen) and seen[-1] in self.stop_ids
        reason = self._rewritten(walk, new, tools, said, asked, shield)
        tail: str | None = asked[cut:]
        if reason:
            tail = self._behind_reply(walk, new, tools, shield) if self._keep_history else None
        if tail is None:
            return Restart(reason=reason)
        if not closed:
            tail = self._rest_of_thinking(said[:cut], walk[-1], seen) + tail
        ids = self._encode(tail, shield, first=False)
        if closed:
            ids = self._after_end(ids, seen[-1], closes=cut < len(said))
        return Extension(ids=ids)

    def _reads(self) -> tuple[Alphabet, Syntax, bool]:
        return self.vocabulary, self.syntax, self._opens_thinking

    def text(self, ids: Sequence[int]) -> str:
        """The ids as text, marks and all, to look at."""
        return self.vocabulary.decode(ids)

    def _text(self, messages: Sequence[Message], tools: tuple[Tool, ...], ready: bool, shield: Shield) -> str:
        think = self.syntax.think or "<think>"
        return self.template.render(messages, tools, ready=ready, hide=shield.hide, think=think)

    def _encode(self, text: str, shield: Shield, *, first: bool) -> tuple[int, ...]:
        try:
            return self.vocabulary.encode(text, first=first, breaker=shield.breaker)
        except ValueError as fault:
            raise RenderError(f"the conversation cannot be tokenised for {self.name}: {fault}") from fault

    def _check(self, messages: Sequence[Message], tools: tuple[Tool, ...]) -> None:
        if not self.takes_images and any(isinstance(part, ImagePart) for message in messages for part in message.parts):
            raise RenderError(f"the chat template of {self.name} has no place for images: leave them out")
        if tools and not self.syntax.calls:
            raise RenderError(
                f"how {self.name} writes tool calls is not known: send no tools, or use a chat backend that reads them"
            )

    def _rewritten(
        self,
        walk: Sequence[Message],
        new: Sequence[Message],
        tools: tuple[Tool, ...],
        said: str,
        asked: str,
        shield: Shield,
    ) -> str:
        """Why the text of the walk does not begin the new text, "" where it does."""
        if walk[-1].thinking.strip():
            marked = [*walk[:-1], _thinking(walk[-1], shield.unwritten), *new]
            if shield.unwritten not in self._text(marked, tools, True, shield):
                return THINKING_DROPPED
        cut = self._end_of_reply(said)
        # what closes a reply may be written otherwise once others follow it
        kept = said[:cut] if self._begins_with_end(asked[cut:]) else said
        return "" if asked.startswith(kept) else self._why(walk, new, tools, said, asked, shield)

    def _behind_reply(
        self, walk: Sequence[Message], new: Sequence[Message], tools: tuple[Tool, ...], shield: Shield
    ) -> str | None:
        """The new text behind the last reply's own words, however the walk before it is written; None where the
        template does not show where they end. It is found by a character nobody wrote, in the words and in the call."""
        probe = shield.unwritten
        calls = walk[-1].tool_calls
        if calls:  # many templates write no words beside a call
            last = msgspec.structs.replace(calls[-1], arguments=json.dumps({probe: ""}, ensure_ascii=False))
            calls = (*calls[:-1], last)
        marked = [*walk[:-1], assistant(probe, *calls)]
        said, asked = self._text(marked, tools, False, shield), self._text([*marked, *new], tools, True, shield)
        _, found, behind = asked.rpartition(probe)
        rest = said[said.rfind(probe) + 1 : self._end_of_reply(said)]
        return behind[len(rest) :] if found and probe in said and behind.startswith(rest) else None

    def _why(
        self,
        walk: Sequence[Message],
        new: Sequence[Message],
        tools: tuple[Tool, ...],
        said: str,
        asked: str,
        shield: Shield,
    ) -> str:
        probe = shield.unwritten
        marked = [_thinking(message, probe) if message.thinking.strip() else message for message in walk]
        shown = self._text(marked, tools, False, shield).count(probe)
        if shown > self._text([*marked, *new], tools, True, shield).count(probe):
            return THINKING_DROPPED
        place = next((i for i, (one, other) in enumerate(zip(said, asked, strict=False)) if one != other), 0)
        think = self.syntax.think
        # an empty block of thinking that is not written any more: it is gone where the two texts part
        around = said[max(0, place - len(think)) : place + len(think)]
        return THINKING_DROPPED if think and think in around else HISTORY_REWRITTEN

    def _mark_at(self, text: str) -> str | None:
        """The longest control token the text begins with."""
        marks = [mark for mark in self.vocabulary.controls if text.startswith(mark)]
        return max(marks, key=len, default=None)

    def _end_of_reply(self, said: str) -> int:
        """Where in the text of a walk the reply's own words end and what closes it begins."""
        end = len(said)
        while True:
            words = said[:end].rstrip()
            ender = max((mark for mark in self._enders if words.endswith(mark)), key=len, default="")
            if not ender:
                break
            end = len(words) - len(ender)
        if end == len(said) and self._closing and said.endswith(self._closing):
            return len(said) - len(self._closing)
        return end

    def _begins_with_end(self, text: str) -> bool:
        return text.lstrip().startswith(self._enders)

    def _rest_of_thinking(self, said: str, reply: Message, seen: Sequence[int]) -> str:
        """What closes the thinking of a reply that was cut while it thought, "" for others. `said` ends with the
        reply's own words as the template writes them."""
        controls, syntax = self.vocabulary.controls, self.syntax
        unthink = controls.get(syntax.unthink)
        if unthink is None or reply.text or reply.tool_calls:
            return ""
        last = next((number for number in reversed(seen) if number in (unthink, controls.get(syntax.think))), unthink)
        if last == unthink:
            return ""
        words = said.rstrip()
        return said[len(words) - len(syntax.unthink) :] if words.endswith(syntax.unthink) else f"{syntax.unthink}\n\n"

    def _after_end(self, ids: tuple[int, ...], sampled: int, *, closes: bool) -> tuple[int, ...]:
        """What of a tail is left when an end mark was sampled: that one stands in the place of the template's."""
        place = next((i for i, number in enumerate(ids) if number in self.stop_ids), None)
        if place is None or (ids[place] != sampled and not closes):
            return ids  # the mark is the head of the next message, and another than the sampled one
        return ids[place + 1 :]

    def _probed(self, messages: Sequence[Message], ready: bool) -> str | None:
        try:
            return self.template.render(messages, (), ready=ready, think=self.syntax.think or "<think>")
        except RenderError:
            return None

    def _probe_content(self) -> None:
        """Find out in which form the template takes what is said, and whether it knows system messages."""
        if _PROBE not in (self._probed([user(_PROBE)], True) or ""):
            self.template.parts_only = True
            if _PROBE not in (self._probed([user(_PROBE)], True) or ""):
                raise UsageError(f"model folder {self.name}: its chat template does not write what a user says")
        self.template.takes_system = self._probed([system("a"), user(_PROBE)], True) is not None

    def _probed_closing(self) -> str:
        """What the template writes after the words of a reply, where it does."""
        said = self._probed([user("a"), assistant(_PROBE)], False)
        return "" if said is None or _PROBE not in said else said.rpartition(_PROBE)[2]

    def _probed_thinking(self) -> bool:
        """Whether the head of a reply opens the thinking."""
        think, unthink = self.syntax.think, self.syntax.unthink
        head = self._probed([user(_PROBE)], True)
        return bool(think) and head is not None and head.rfind(think) > max(head.rfind(unthink), head.rfind(_PROBE))

    def _probed_images(self) -> bool:
        """Whether an image becomes a control token of its own."""
        picture = Message(role="user", parts=(*user(_PROBE).parts, ImagePart(hash="0" * 64)))
        with_image = self._probed([picture], False)
        without = self._probed([user(_PROBE)], False)
        if with_image is None or without is None or _PROBE not in with_image:
            return False
        controls = self.vocabulary.controls
        return any(with_image.count(mark) > without.count(mark) for mark in controls)


def _thinking(message: Message, words: str) -> Message:
    """The same message with other thinking."""
    others = tuple(part for part in message.parts if not isinstance(part, ThinkingPart))
    return msgspec.structs.replace(message, parts=(ThinkingPart(text=words), *others))
