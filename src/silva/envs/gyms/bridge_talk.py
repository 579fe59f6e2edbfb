"""A conversation that another framework leads and Silva's agent answers: control, turned inside out.

    framework's loop ── its model is asked ─▶ Talk.ask ─┐            ┌─▶ Observation (what was added)
                                                        ├─ question ─┤
    framework's loop ◀── an assistant's message ◀───────┘            └── action ◀─ step
    framework's loop ends (scored by itself) ─▶ Talk says so ─▶ the last Observation

The framework runs as one asyncio task for the length of an episode. Every time it wants its model it waits here, and
the whole conversation it would have sent is compared with what the agent has already seen: only what was added goes
out. A framework that says so (`between`) begins another session, whose conversation is a new one or goes on. One that
otherwise rewrites what was said, or leads two conversations at once, cannot be followed turn by turn; that is an error,
for the agent must never be trained on a conversation other than the one it answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Sequence
from typing import Any

from silva.envs.protocol import FRESH, Observation
from silva.tree import ImagePart, Message, Tool, ToolCall


class Cut(Exception):
    """Raised in the framework's model when the episode is to be scored as it stands."""


class Rewritten(RuntimeError):
    """The framework asked with a conversation that does not go on from the one before."""


class Talk:
    """One episode. `begin`, then `answer` until `over`; `cut` ends it early, `abandon` without a score."""

    def __init__(self) -> None:
        self._questions: asyncio.Queue[tuple[list[Message], tuple[Tool, ...]]] = asyncio.Queue()
        self._waiting: asyncio.Queue[asyncio.Future[Message]] = asyncio.Queue()
        self._leader: asyncio.Task[Any] | None = None
        self._open: asyncio.Future[Message] | None = None
        self._seen: list[Message] = []
        self._tools: tuple[Tool, ...] | None = None
        self._cut = False
        self._session = ""
        self.turns = 0
        """Messages the agent has given."""

    @property
    def over(self) -> bool:
        """Whether the framework has come to its end."""
        return self._leader is not None and self._leader.done()

    async def ask(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Message:
        """The framework's side: the model is asked with the whole conversation; returns the agent's message.

        Raises:
            Cut: the episode ends here and is to be scored as it stands.
        """
        if self._cut:
            raise Cut
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait(future)
        self._questions.put_nowait((list(messages), tuple(tools)))
        return await future

    def between(self, *, new: bool) -> None:
        """The framework's side: another session begins. A new one sees nothing of what was said; one that goes on is
        told what is added, or, where its words are others now, all of it."""
        self._session = "new" if new else "same"

    async def begin(self, leader: Coroutine[Any, Any, Any]) -> Observation:
        """Silva's side: start the framework and wait for its first question (or for its end).

        Raises:
            Exception: whatever the framework raised.
        """
        self._leader = asyncio.get_running_loop().create_task(leader)
        return await self._next()

    async def answer(self, action: Message) -> Observation:
        """Silva's side: give the agent's message and wait for the next question, or for the end.

        Raises:
            Rewritten: the next question does not go on from this conversation.
            Exception: whatever the framework raised.
        """
        if self._open is None or self.over:
            return Observation(done=True)
        waiting, self._open = self._open, None
        self._seen.append(action)
        self.turns += 1
        waiting.set_result(action)
        return await self._next()

    async def cut(self) -> None:
        """Let the framework score what there is; its model is given no further answer."""
        self._cut = True
        if self._open is not None:
            self._open.set_exception(Cut())
            self._open = None
        if self._leader is not None:
            await self._leader

    async def abandon(self) -> None:
        """End the framework without a score."""
        self._cut = True
        if self._leader is not None and not self._leader.done():
            self._leader.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._leader

    async def _next(self) -> Observation:
        assert self._leader is not None
        asked = asyncio.ensure_future(self._questions.get())
        try:
            await asyncio.wait((asked, self._leader), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not asked.done():
                asked.cancel()
        if not asked.done() or asked.cancelled():
            self._leader.result()
            return Observation(done=True)
        messages, tools = asked.result()
        self._open = self._waiting.get_nowait()
        session, self._session = self._session, ""
        fresh = session == "new"
        try:
            added = messages if fresh else _added(self._seen, messages)
        except Rewritten:
            if not session:
                raise
            added, fresh = messages, True
        self._seen = messages
        told = tools if tools != self._tools else None
        self._tools = tools
        return Observation(messages=tuple(added), tools=told, attributes={FRESH: True} if fresh else {})


def _added(seen: list[Message], now: list[Message]) -> list[Message]:
    """What `now` adds to `seen`, whose last message is the agent's own.

    Raises:
        Rewritten: it does not begin with it.
    """
    calls, calls_now = _places(seen), _places(now)
    for place, before in enumerate(seen):
        own = place == len(seen) - 1
        if place >= len(now):
            raise _rewritten(place, before, "is gone")
        after = now[place]
        answered, answered_now = calls.get(before.tool_call_id), calls_now.get(after.tool_call_id)
        differs = [
            name
            for name, same in (
                ("another role", before.role == after.role),
                ("other text", before.text.strip() == after.text.strip()),
                ("other images", _images(before) == _images(after)),
                ("other calls", [call.name for call in before.tool_calls] == [call.name for call in after.tool_calls]),
                ("other arguments of a call", _same_arguments(before, after, own)),
                ("an answer to another call", answered == answered_now),
            )
            if not same
        ]
        if differs:
            raise _rewritten(place, before, f"became {_short(after)} ({', '.join(differs)})")
    return now[len(seen) :]


def _places(messages: list[Message]) -> dict[str | None, tuple[int, int]]:
    # Frameworks number calls anew, so an answer is held to the place of its call, not to its name.
    return {
        call.id: (place, order)
        for place, message in enumerate(messages)
        for order, call in enumerate(message.tool_calls)
    }


def _images(message: Message) -> list[str]:
    return [part.hash for part in message.parts if isinstance(part, ImagePart)]


def _same_arguments(before: Message, after: Message, own: bool) -> bool:
    """Whether the calls of both say the same. What the agent sent as no object is what the framework reads into it."""
    for one, other in zip(before.tool_calls, after.tool_calls, strict=False):
        if one.arguments == other.arguments:
            continue
        said = _object(one)
        if said is None and own:
            continue
        if said is None or said != _object(other):
            return False
    return len(before.tool_calls) == len(after.tool_calls)


def _object(call: ToolCall) -> str | None:
    try:
        return json.dumps(call.parsed(), sort_keys=True)
    except (ValueError, RecursionError):
        return None


def _rewritten(place: int, before: Message, how: str) -> Rewritten:
    return Rewritten(
        f"the framework rewrote the conversation: message {place + 1}, {_short(before)}, {how}; "
        "only one that grows can be played"
    )


def _short(message: Message) -> str:
    return f"{message.role} {message.text[:60]!r}"
