"""Planned failures: what goes wrong, and when.

A fault fires by count (`every` nth request; the first `times` times *this* request comes) or by chance (`probability`,
drawn from the request's content, how often it came, and the seed). Without any of them it always fires.
"""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from silva.models.serving.exchange import Exchange, Refusal

Kind = Literal[
    "status",
    "rate_limit",
    "context_length",
    "hang",
    "disconnect",
    "cut",
    "garbage",
    "truncated",
    "empty",
    "slow_stream",
]

MOST_REMEMBERED = 200_000
"""Requests whose count is kept; the oldest are forgotten first."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One kind of failure.

    `status`: an HTTP error. `rate_limit`: 429, with `retry_after` seconds if given. `context_length`: 400 as OpenAI
    says it. `hang`: no answer. `disconnect`: the connection drops before the answer, `cut`: half-way through it
    (of a stream: when half of the words have come).
    `garbage`: a 200 that is not a chat completion (`body`, HTML by default). `truncated`: half the JSON, sent as if
    whole. `empty`: no choices. `slow_stream`: streams with `pause` seconds between pieces.
    """

    kind: Kind
    status: int = 500
    message: str = "planned failure"
    retry_after: float | None = None
    body: str = "<html><body><h1>502 Bad Gateway</h1></body></html>"
    pause: float = 0.1
    every: int = 0
    times: int = 0
    probability: float = 0.0

    def __post_init__(self) -> None:
        if self.every < 0 or self.times < 0 or not 0 <= self.probability <= 1:
            raise ValueError("every and times count from 1, probability lies in [0, 1]")

    async def strike(self, exchange: Exchange, reply: bytes) -> None:
        """Fail on the exchange; `reply` is what would have been the answer.

        Raises:
            Refusal: the failure is an HTTP error.
        """
        match self.kind:
            case "status":
                raise Refusal(self.status, self.message, retry_after=self.retry_after)
            case "rate_limit":
                raise Refusal(429, self.message, "rate_limit_exceeded", retry_after=self.retry_after)
            case "context_length":
                raise Refusal(400, "this model's maximum context length is exceeded", "context_length_exceeded")
            case "hang":
                await exchange.gone()
            case "disconnect":
                await exchange.abort()
            case "cut":
                await exchange.send(200, reply[: len(reply) // 2], length=len(reply))
                await exchange.abort()
            case "garbage":
                await exchange.send(200, self.body.encode(), b"text/html")
            case "truncated":
                await exchange.send(200, reply[: len(reply) // 2])
            case "empty":
                await exchange.send(200, b'{"id":"x","object":"chat.completion","model":"scripted","choices":[]}')
            case "slow_stream":
                raise ValueError("slow_stream shapes a stream and does not strike")


class Faults:
    """The faults of a script and the counts that decide when they fire."""

    def __init__(self, faults: tuple[Fault, ...], seed: int) -> None:
        self._faults = faults
        self._seed = seed
        self._requests = 0
        self._seen: dict[str, int] = {}

    def next(self, content: str) -> Fault | None:
        """Count one request with that content digest and say which fault, if any, meets it."""
        if not self._faults:
            return None
        self._requests += 1
        seen = self.count(content)
        for index, fault in enumerate(self._faults):
            if self._fires(fault, index, content, seen):
                return fault
        return None

    def count(self, content: str) -> int:
        """Count one more coming of this request: 1 for the first."""
        seen = self._seen.pop(content, 0) + 1
        self._seen[content] = seen
        if len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return seen

    def _fires(self, fault: Fault, index: int, content: str, seen: int) -> bool:
        if fault.every:
            return self._requests % fault.every == 0
        if fault.times:
            return seen <= fault.times
        if fault.probability:
            return Random(f"{self._seed}/{index}/{content}/{seen}").random() < fault.probability
        return True
