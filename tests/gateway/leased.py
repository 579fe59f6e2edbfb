"""A router without servers, and who leases from it."""

from __future__ import annotations

import asyncio

from silva.models import ModelError
from silva.models.gateway.config import Concurrency, Limits, Route, StaticBackend
from silva.models.gateway.routing import Backend, Router


def router(backends: int = 1, limit: int = 4, limits: Limits | None = None, **route: object) -> Router:
    settings = {
        "backends": (StaticBackend(url="http://127.0.0.1:1/v1"),),
        "concurrency": Concurrency(start=limit, most=limit),
        **route,
    }
    made = Router("policy", Route(**settings), limits)  # type: ignore[arg-type]
    for n in range(backends):
        made.fleet.add(Backend(name=f"b{n}", url=f"http://127.0.0.1:{n + 1}/v1"))
    return made


def failure(kind: str = "server", retry_after: float | None = None) -> ModelError:
    return ModelError(kind, f"{kind} happened", transient=True, retry_after=retry_after)


async def use(one: Router, hold: asyncio.Event | None = None, **asked: object) -> str:
    async with one.lease(**asked) as lease:  # type: ignore[arg-type]
        if hold is not None:
            await hold.wait()
        else:
            await asyncio.sleep(0)
        lease.succeeded()
        return lease.backend.name


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def nothing_left(one: Router) -> bool:
    return one.waiting == 0 and one.in_flight == 0 and all(state.outstanding == 0 for state in one.fleet.states())
