"""What the gateway holds of conversations in memory: sessions, and the trees they stand on, within a bound.

    session asked for ─▶ get, or stand on a tree (index) and add ─▶ … turns … ─▶ rest: within the bound?
                                                                      └─ rollout ended, or no room ─▶ let_go

The rollouts of a task share their tree's index, which goes with the last of them. The lake has all of it: what was let
go is read again when it is needed. Reading it costs much where a rollout has many conversations, so a session in use
keeps its place as long as there is something else to let go of.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from silva.models.gateway.index import TreeIndex
from silva.models.gateway.session import Session
from silva.models.held import Held

MOST_SESSIONS = 4096
"""Sessions kept in memory; one unused for longest is let go."""
UNUSED_SECONDS = 120.0
"""A session is unused once its agent has asked nothing for so long."""

Key = tuple[str, str]
"""A rollout: its run and its name."""


class Conversations:
    """Sessions in memory, longest unused first.

    Args:
        most: bytes that what is held may take, roughly.
        held: counts them, together with the clients of backends.
        gone: told of a session that is let go.
        forget: has the clients of backends let go of what they keep of a session, by its key.
    """

    def __init__(self, most: int, held: Held, gone: Callable[[Session], None], forget: Callable[[str], None]) -> None:
        self._most = most
        self._held = held
        self._gone = gone
        self._forget = forget
        self._sessions: OrderedDict[Key, Session] = OrderedDict()
        self._indices: dict[str, TreeIndex] = {}
        self._users: dict[str, int] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter([*self._sessions.values()])

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, key: object) -> bool:
        return key in self._sessions

    def of_run(self, run: str) -> list[str]:
        """The names of a run's rollouts that are in memory."""
        return [name for of, name in self._sessions if of == run]

    def get(self, key: Key) -> Session | None:
        """A rollout's session, which is in use now; None where it is not in memory."""
        session = self._sessions.get(key)
        if session is not None:
            self._sessions.move_to_end(key)
            session.used = time.monotonic()
        return session

    def stand(self, tree: str) -> TreeIndex:
        """The index of a tree, for a session to stand on; `add` that session, or `leave` the tree."""
        index = self._indices.get(tree)
        if index is None:
            index = self._indices[tree] = TreeIndex(tree, self._held)
        self._users[tree] = self._users.get(tree, 0) + 1
        return index

    def leave(self, tree: str) -> None:
        """A session stands on the tree no more."""
        self._users[tree] -= 1
        if not self._users[tree]:
            self._indices.pop(tree).clear()
            del self._users[tree]

    def add(self, session: Session) -> None:
        """Take in a session that stands on its tree."""
        self._sessions[_key(session)] = session
        while len(self._sessions) > MOST_SESSIONS:
            self.let_go(next(iter(self._sessions)))

    def let_go(self, key: Key) -> None:
        """Drop a session, if it is in memory."""
        session = self._sessions.pop(key, None)
        if session is None:
            return
        self._gone(session)
        self._forget(session.key)
        self.leave(session.rollout.tree_id)

    def rest(self, session: Session) -> None:
        """A turn of the session has ended. Where there is too much in memory, unused sessions go first, then old
        conversations of the others, then sessions at rest."""
        if self._sessions.get(_key(session)) is not session:
            self._forget(session.key)  # it was let go while the turn was being made
        if self._held.bytes > self._most:
            self._make_room(self._most * 7 // 8)

    def _make_room(self, size: int) -> None:
        now = time.monotonic()
        self._let_go_of_others(size, now - UNUSED_SECONDS)
        if self._held.bytes > size:
            for session in self._sessions.values():
                self._forget(session.key)
            share = size // max(1, len(self._indices))
            for index in self._indices.values():
                index.drop(share)
        self._let_go_of_others(size, now)

    def _let_go_of_others(self, size: int, unused_since: float) -> None:
        for key, session in list(self._sessions.items())[:-1]:
            if self._held.bytes <= size or session.used > unused_since:
                return
            if not session.in_flight:
                self.let_go(key)


def _key(session: Session) -> Key:
    return session.rollout.run_id, session.rollout.name
