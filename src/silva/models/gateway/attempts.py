"""Attempts at a request, and the answers that are owed for those that did not get theirs across.

    attempt ─▶ answered, kept, sent whole ─▶ nothing is owed
       └─ refused, broken off, lost, its client left ─▶ owed ─▶ sent again: that answer if it was kept, else another

Many requests with the same bytes may be at work at once (best of n), and one that is sent again does not say which of
them it was. It need not: each attempt that went without its answer is made up for once, so every sample goes to one
client, and nobody is given words that another has.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from silva.models.model import Completion
from silva.tree import Record

MOST_REQUESTS = 4096
"""Requests for which something is owed that a run remembers, the latest."""
MOST_OWED = 256
"""What is owed for one of them, the latest."""


class Answer(Record, frozen=True, kw_only=True, gc=True):
    """What a request was answered; `reply` is the id the reply had."""

    completion: Completion
    reply: str


class Attempt:
    """One request at work. `reply` is the id of its answer ("" once there is none that is kept), `words` the digest of
    what was asked where it has a key of its own; `joined`: somebody who sent the same waits for its answer; `sent`: the
    answer went out, and is kept."""

    __slots__ = ("answer", "joined", "reply", "request", "rollout", "sent", "words")

    def __init__(self, rollout: str, request: str, reply: str, words: str) -> None:
        self.rollout = rollout
        self.request = request
        self.reply = reply
        self.words = words
        self.joined = False
        self.sent = False
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    async def join(self) -> Answer | None:
        """Its answer, for one that was sent again meanwhile; None where it comes to none."""
        self.joined = True
        await asyncio.wait([self.answer])
        return None if self.answer.cancelled() else self.answer.result()

    def owes(self, left: bool) -> bool:
        """Whether it ended without its answer having got across, as far as can be known. `left`: its client did."""
        if self.words or (self.joined and not self.answer.cancelled()):
            return False  # found again by its key, or given to who joined it
        return left or not self.sent


class Owed:
    """What is owed in one run; it outlives the sessions, which are let go of when the lake is opened again."""

    def __init__(self) -> None:
        self._replies: OrderedDict[tuple[str, str], list[str]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._replies)

    def add(self, attempt: Attempt) -> None:
        """An attempt ended without its answer."""
        place = (attempt.rollout, attempt.request)
        replies = self._replies.setdefault(place, [])
        replies.append(attempt.reply)
        del replies[:-MOST_OWED]
        self._replies.move_to_end(place)
        if len(self._replies) > MOST_REQUESTS:
            self._replies.popitem(last=False)

    def kept(self, attempt: Attempt, find: Callable[[str], Answer | None]) -> Answer | None:
        """An answer to the same request that was kept and not delivered; it is owed no more."""
        replies = self._replies.get((attempt.rollout, attempt.request), [])
        for reply in reversed(replies):
            answer = find(reply)
            if answer is not None:
                self._paid(attempt, reply)
                return answer
        return None

    def take(self, attempt: Attempt) -> bool:
        """Whether an attempt at the same request is to be made up for with a new answer; it is owed no more."""
        replies = self._replies.get((attempt.rollout, attempt.request))
        if not replies:
            return False
        self._paid(attempt, replies[-1])
        return True

    def _paid(self, attempt: Attempt, reply: str) -> None:
        place = (attempt.rollout, attempt.request)
        self._replies[place].remove(reply)
        if not self._replies[place]:
            del self._replies[place]
