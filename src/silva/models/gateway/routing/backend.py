"""A backend, which is where a request can go, and what its route knows about it right now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from silva.models.gateway.routing.breaker import Breaker
from silva.models.gateway.routing.limiter import Limiter

Kind = Literal["chat", "anthropic", "responses", "vllm", "sglang", "silva"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One place that serves the route's model.

    `name` is unique on its route. `url` is the base that `/chat/completions` is appended to. `model` is its own name
    for the model, "" for the one clients use. `version` is the policy version it serves, "" where the route says it.
    `token` is a bearer token made for it (never shown), else the key is in the environment variable `api_key_env`.
    `ids` and `max_tokens_field` are how a `chat` backend wants to be asked. `health` is the path, from the server's
    root, that answers 200 while it is well; "" for the usual one of its kind.
    """

    name: str
    url: str
    kind: Kind = "chat"
    model: str = ""
    version: str = ""
    token: str = field(default="", repr=False)
    api_key_env: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ids: bool = False
    max_tokens_field: str = "max_tokens"
    health: str = ""

    def authorization(self) -> dict[str, str]:
        """The headers that every request to it needs: the configured ones, and its token or key."""
        found = dict(self.headers)
        key = self.token or (os.environ.get(self.api_key_env, "") if self.api_key_env else "")
        if key:
            found["x-api-key" if self.kind == "anthropic" else "Authorization"] = (
                key if self.kind == "anthropic" else f"Bearer {key}"
            )
        return found


class BackendState:
    """What changes about a backend: is it well, is it leaving, how much is in flight, how much may be."""

    def __init__(self, backend: Backend, limiter: Limiter, breaker: Breaker, healthy: bool = True) -> None:
        self.backend = backend
        self.limiter = limiter
        self.breaker = breaker
        self.healthy = healthy
        self.draining = False
        self.outstanding = 0
        self.version = backend.version
        self.served = 0
        self.trouble = ""

    def eligible(self, now: float) -> bool:
        """Whether requests may be sent here at all: well, staying, not given up, not asked to be left alone."""
        return self._well(now) and now >= self.limiter.held_until

    def is_held(self, now: float) -> bool:
        """Whether nothing but its own wish keeps requests away from here."""
        return self._well(now) and now < self.limiter.held_until

    def _well(self, now: float) -> bool:
        return self.healthy and not self.draining and self.breaker.allows(now)

    @property
    def free(self) -> int:
        """How many more it may have in flight."""
        return self.limiter.limit - self.outstanding

    def returns(self, now: float) -> float | None:
        """When it may be asked again if time alone is what it needs; None where it is not a matter of time."""
        if not self.healthy or self.draining or self.breaker.probing:
            return None
        return max(self.limiter.held_until, now if self.breaker.phase == "closed" else self.breaker.reopens)
