"""Which backend a session belongs to: weighted rendezvous hashing.

Every backend draws a score for the session from a hash of both; the highest wins, the next highest is next in line.

Specification:
- The same session, backends and weights give the same order, in every process.
- A backend that leaves moves only its own sessions; one that comes takes only what becomes its own.
- Sessions fall to backends in proportion to their weights (score = -weight / ln u, with u uniform in (0, 1)).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from math import log

from silva.models.gateway.routing.backend import BackendState

_MASK = (1 << 64) - 1
_UNIT = 2.0**-53

REMEMBERED = 4096
"""Sessions whose results are kept, which ask many times, once a turn: as many as a gateway has in memory."""


@lru_cache(REMEMBERED)
def session_hash(session: str) -> int:
    """64 bits of a session's name."""
    return int.from_bytes(blake2b(session.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def score(session: int, state: BackendState) -> float:
    """How much a backend wants the session with that `session_hash`; positive, and each backend's own draw."""
    return state.backend.weight * _draw(session, state.seed)


@lru_cache(4 * REMEMBERED)
def _draw(session: int, seed: int) -> float:
    mixed = (session ^ seed) * 0x9E3779B97F4A7C15 & _MASK
    mixed = (mixed ^ mixed >> 32) * 0x94D049BB133111EB & _MASK
    return -1.0 / log(((mixed >> 11) + 0.5) * _UNIT)


def rendezvous(session: str, states: Sequence[BackendState]) -> list[BackendState]:
    """The backends, the one the session belongs to first."""
    hashed = session_hash(session)
    return sorted(states, key=lambda state: score(hashed, state), reverse=True)
