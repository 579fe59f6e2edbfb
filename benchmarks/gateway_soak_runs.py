"""Runs and rollouts of the soak, opened, ended and closed by the admin routes; every request is repeated until it is answered.

a run opens every few minutes, three are in use at once ─▶ rollouts: announced or not, ended or left ─▶ the oldest run is closed
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Any

import aiohttp

AT_ONCE = 3


@dataclass
class Rollout:
    """Where one program is: its run, the run's token, its name, and its place among its task's rollouts."""

    run: str
    token: str
    name: str
    task: str
    index: int = 0
    shared: bool = False
    ends: bool = True


@dataclass
class Ended:
    """The end of a rollout that the gateway acknowledged."""

    run: str
    trajectory: str
    leaf: str | None
    turns: int
    score: float


class Runs:
    """See the module.

    Args:
        http: the connections.
        where: the gateway's URL.
        token: the admin token.
        each: seconds after which a new run is opened.
    """

    def __init__(self, http: aiohttp.ClientSession, where: str, token: str, each: float) -> None:
        self._http, self._where, self._token, self._each = http, where, token, each
        self._open: dict[str, str] = {}
        self._users: Counter[str] = Counter()
        self._tasks: dict[str, int] = {}
        self._closed: set[str] = set()
        self.places: dict[tuple[str, str], tuple[str, int]] = {}
        self.names: list[str] = []
        self.ended: list[Ended] = []
        self.tried = 0

    async def admin(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """An admin request, repeated until it is answered.

        Raises:
            RuntimeError: it was refused.
        """
        headers = {"authorization": f"Bearer {self._token}"}
        while True:
            try:
                async with self._http.request(
                    method, f"{self._where}/admin/{path}", json=body, headers=headers
                ) as answer:
                    read = await answer.json()
                if answer.status < 300:
                    return read
                if answer.status < 500:
                    raise RuntimeError(f"{method} /admin/{path}: HTTP {answer.status}: {read}")
            except (aiohttp.ClientError, OSError, TimeoutError):
                self.tried += 1
            await asyncio.sleep(0.2)

    async def keep_open(self) -> None:
        """For ever: open a run every so often, close the oldest once nobody works in it."""
        while True:
            await self.open()
            await asyncio.sleep(self._each)
            while len(self._open) >= AT_ONCE:
                await self._close_oldest()

    async def open(self) -> None:
        """Open one more run."""
        name = f"soak-{len(self.names):03d}"
        self.names.append(name)
        opened = await self.admin("POST", "runs", {"run": name, "again": True, "share": random.choice((1, 1, 3))})
        self._open[name] = opened["token"]

    async def _close_oldest(self) -> None:
        name = next(iter(self._open))
        del self._open[name]
        while self._users[name]:  # noqa: ASYNC110 - the counts of a benchmark
            await asyncio.sleep(0.2)
        await self.close(name)

    async def close(self, name: str) -> None:
        """Close a run."""
        await self.admin("POST", f"runs/{name}/close", {})
        self._closed.add(name)

    async def close_all(self) -> None:
        """Close what is open still; the programs have ended."""
        self._open.clear()
        for name in self.names:
            if name not in self._closed:
                await self.close(name)

    def any(self) -> tuple[str, str] | None:
        """The name and token of some open run."""
        return random.choice([*self._open.items()]) if self._open else None

    async def rollout(self) -> Rollout:
        """A new rollout for one program: some are announced and share their task with others, most are not."""
        while not self._open:  # noqa: ASYNC110 - only before the first run is open
            await asyncio.sleep(0.05)
        run, token = random.choice([*self._open.items()])
        self._users[run] += 1
        name = f"r-{secrets.token_hex(5)}"
        ends = random.random() < 0.85
        if random.random() < 0.7:
            self.places[run, name] = f"gateway/{name}", 0
            return Rollout(run, token, name, f"gateway/{name}", ends=ends)
        task = f"grove/{run}/{self._tasks.get(run, 0) // 4}"
        index = self._tasks.get(run, 0) % 4
        self._tasks[run] = self._tasks.get(run, 0) + 1
        self.places[run, name] = task, index
        asked = {"rollout": name, "task_id": task, "env": "grove", "index": index}
        await self.admin("POST", f"runs/{run}/rollouts", asked)
        return Rollout(run, token, name, task, index, shared=True, ends=ends)

    async def leave(self, rollout: Rollout) -> None:
        """The program is done."""
        if rollout.ends:
            score = round(random.random(), 3)
            path = f"runs/{rollout.run}/rollouts/{rollout.name}/end"
            told = await self.admin("POST", path, {"score": score, "success": score > 0.5})
            self.ended.append(Ended(rollout.run, told["trajectory"], told["leaf"], told["turns"], score))
        self._users[rollout.run] -= 1
