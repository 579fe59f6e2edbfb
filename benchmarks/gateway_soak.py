"""An hour of mixed load through `silva gateway` while it and its backends are killed: what of it is kept, and does memory stay?

    python benchmarks/gateway_soak.py [--minutes 60] [--rate 25] [--seed 0] [--keep FOLDER]

    programs (three dialects, streamed or not, tools, retries, hang-ups) ─▶ silva gateway ─▶ 3 scripted backends
        └─ ledger: every reply that arrived          └─ kill -9, same port and lake      └─ kill -9, faults
    afterwards: the lake, read by this process, against the ledger

In the middle (39 minutes of an hour) the gateway is left alive, so that a slope of its memory can be told: what fills up once
and what does not stop look the same for a quarter of an hour. Before and after, it is killed every 40 seconds or so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import resource
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from gateway_soak_check import Found, check
from gateway_soak_client import Ledger, Pacer, Program, trespass
from gateway_soak_processes import Process, slope, watch
from gateway_soak_runs import Runs

from report import Measurement, arguments, hand_in, load
from silva.models.child import free_port

BACKENDS = 3
PROGRAMS = 40
SETTLE = 120.0
"""Seconds after which a life's memory is taken for settled."""
FLAT_MB_PER_HOUR = 64.0
"""What memory may grow by in the second half of the longest life: less than a tenth of what a gateway holds."""
CONVERSATIONS_MB = 24
"""The gateway's bound for conversations in memory: one that this load reaches well before a long life's half."""
LONG = 30.0
"""Minutes below which nothing is said of memory."""
BAR = (
    "0 acknowledged turns lost, 0 kept twice, 0 half written, 0 trajectories without their leaf; "
    f"memory grows by at most {FLAT_MB_PER_HOUR:g} MB an hour once a gateway has been up for half of its longest life"
)
ADMIN = "SOAK_ADMIN_TOKEN"


class Chaos:
    """Kills, at drawn moments, and what they cost."""

    def __init__(self, minutes: float, gateway: Process, backends: list[Process], ledger: Ledger) -> None:
        self._total = minutes * 60
        self._gateway, self._backends, self._ledger = gateway, backends, ledger
        self._gap = min(60.0, self._total / 12)
        self._gateway_gap = min(40.0, self._total / 20)
        self.backend_kills = self.gateway_kills = 0
        self.outages: list[float] = []
        self.starts: list[float] = []
        self.began = 0.0
        self.quiet = (self._total * 0.25, self._total * 0.90)

    def calm(self, at: float) -> bool:
        """Whether the gateway was left alone at that moment, and had been for some seconds."""
        return self.quiet[0] + 15.0 <= at - self.began < self.quiet[1]

    async def on_backends(self, http: aiohttp.ClientSession) -> None:
        """For ever, kill a backend, and start it again some seconds later."""
        while True:
            await asyncio.sleep(self._gap / 2 * random.uniform(0.3, 1.7))
            backend = random.choice(self._backends)
            await backend.kill()
            self.backend_kills += 1
            await asyncio.sleep(random.uniform(1.0, 6.0))
            await backend.start(http)

    async def on_gateway(self, http: aiohttp.ClientSession) -> None:
        """Kill the gateway now and then, but for the quiet stretch in the middle."""
        self.began = began = time.monotonic()
        while True:
            wait = self._gateway_gap * random.uniform(0.2, 1.8)
            now = time.monotonic() - began
            if self.quiet[0] <= now + wait < self.quiet[1]:
                wait = self.quiet[1] - now + random.uniform(0.0, 2.0)
            await asyncio.sleep(wait)
            killed = time.monotonic()
            await self._gateway.kill()
            self.gateway_kills += 1
            await asyncio.sleep(random.uniform(0.0, 2.0))
            self.starts.append(await self._gateway.start(http))
            while not self._ledger.told_at or self._ledger.told_at[-1] < killed + 0.01:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            first = next(at for at in reversed(self._ledger.told_at) if at >= killed + 0.01)
            self.outages.append(first - killed)


def _gateway_config(folder: Path, port: int, backends: list[int]) -> Path:
    listed = [{"url": f"http://127.0.0.1:{each}/v1", "model": "scripted", "ids": True} for each in backends]
    config: dict[str, Any] = {
        "lake": str(folder / "lake"),
        "listen": {"port": port, "admin_token_env": ADMIN},
        "limits": {"conversations_mb": CONVERSATIONS_MB},
        "models": {
            "scripted": {
                "backends": listed,
                "deadline": 30.0,
                "health": {"every": 2.0, "open_seconds": 2.0},
                "price": {"input": 0.1, "output": 0.4},
            }
        },
    }
    path = folder / "gateway.yaml"
    path.write_text(json.dumps(config))
    return path


def _arrange(folder: Path, seed: int) -> tuple[Process, list[Process], str, str]:
    ports = [free_port() for _ in range(BACKENDS + 1)]
    token = secrets.token_urlsafe(24)
    script = str(Path(__file__).with_name("gateway_soak_backend.py"))
    backends = [
        Process(
            f"backend-{place}",
            [sys.executable, script, f"b{place}", str(port), str(seed + place)],
            f"http://127.0.0.1:{port}/healthz",
            folder,
            {"SOAK_BACKEND": f"b{place}"},
        )
        for place, port in enumerate(ports[1:])
    ]
    where = f"http://127.0.0.1:{ports[0]}"
    config = _gateway_config(folder, ports[0], ports[1:])
    command = [str(Path(sys.executable).with_name("silva")), "gateway", "--config", str(config)]
    return Process("gateway", command, f"{where}/healthz", folder, {ADMIN: token}), backends, where, token


@contextlib.asynccontextmanager
async def _tasks(*coroutines: Any) -> AsyncIterator[list[asyncio.Task[Any]]]:
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def soak(folder: Path, minutes: float, rate: float, seed: int) -> tuple[Found, dict[str, Any]]:
    """Run it, then check."""
    gateway, backends, where, token = _arrange(folder, seed)
    ledger = Ledger(folder / "told.jsonl")
    timeout = aiohttp.ClientTimeout(total=60)
    http = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
    chaos = Chaos(minutes, gateway, backends, ledger)
    runs = Runs(http, where, token, each=minutes * 60 / 12)
    stop = asyncio.Event()
    began = time.monotonic()
    async with http:
        try:
            await asyncio.gather(*(each.start(http) for each in (gateway, *backends)))
            pacer = Pacer(rate)
            background = (
                watch([gateway, *backends]),
                runs.keep_open(),
                chaos.on_backends(http),
                chaos.on_gateway(http),
                trespass(http, where, runs, ledger, every=max(1.0, 40 / rate)),
            )
            programs = [
                asyncio.create_task(Program(http, where, runs, pacer, ledger).work(stop)) for _ in range(PROGRAMS)
            ]
            async with _tasks(*background) as tasks:
                ends = time.monotonic() + minutes * 60
                while (left := ends - time.monotonic()) > 0:
                    done, _ = await asyncio.wait(
                        [*tasks, *programs], timeout=min(left, 30), return_when=asyncio.FIRST_COMPLETED
                    )
                    for task in done:
                        task.result()
                        raise RuntimeError("something that should go on for ever ended")
                    sys.stdout.write(
                        f"{time.monotonic() - began:6.0f} s  {ledger.counts['replies']} replies  "
                        f"{chaos.gateway_kills} + {chaos.backend_kills} kills  {ledger.counts['strange answers']} strange\n"
                    )
                    sys.stdout.flush()
            for backend in backends:  # those that were down when the load ended
                if not backend.alive:
                    await backend.start(http)
            if not gateway.alive:
                await gateway.start(http)
            stop.set()
            await asyncio.gather(*programs)
            took = time.monotonic() - began
            await runs.close_all()
            code = await gateway.stop()
        finally:
            for each in (gateway, *backends):
                if each.alive:
                    await each.kill()
    ledger.close()
    found = check(str(folder / "lake"), ledger, folder / "told.jsonl", runs)
    return found, _details(gateway, backends, chaos, ledger, runs, took, code)


def _details(
    gateway: Process, backends: list[Process], chaos: Chaos, ledger: Ledger, runs: Runs, took: float, code: int
) -> dict[str, Any]:
    words = gateway.words()
    lives = [
        {
            "began_s": round(life.began),
            "lived_s": round(life.ended - life.began),
            "ready_s": round(life.ready, 2),
            "cpu_s": round(life.cpu, 1),
            "first_mb": life.samples[0][1] if life.samples else None,
            "last_mb": life.samples[-1][1] if life.samples else None,
            "most_mb": max((mb for _, mb in life.samples), default=None),
        }
        for life in gateway.lives
    ]
    longest = max(gateway.lives, key=lambda life: life.ended - life.began)
    middle = [sample for sample in longest.samples if sample[0] >= (longest.began + longest.ended) / 2]
    own = resource.getrusage(resource.RUSAGE_SELF)
    cpu = sum(life.cpu for each in (gateway, *backends) for life in each.lives) + own.ru_utime + own.ru_stime
    every = max(1, len(longest.samples) // 60)
    return {
        "seconds": round(took),
        "replies_per_second": round(ledger.counts["replies"] / took, 1),
        "gateway_kills": chaos.gateway_kills,
        "backend_kills": chaos.backend_kills,
        "runs": len(runs.names),
        "rollouts_ended": len(runs.ended),
        "admin_requests_repeated": runs.tried,
        "counts": dict(sorted(ledger.counts.items())),
        "strange": ledger.odd,
        "seconds_to_serve_again": _quantiles(chaos.starts),
        "seconds_from_kill_to_next_reply": _quantiles(chaos.outages),
        "latency_s": {name: _quantiles([took for _, took in values]) for name, values in ledger.seconds.items()},
        "latency_while_the_gateway_lives_s": {
            name: _quantiles([took for at, took in values if chaos.calm(at)]) for name, values in ledger.seconds.items()
        },
        "cores_used": round(cpu / took, 2),
        "gateway_cpu_ms_per_reply": round(
            1000 * sum(life.cpu for life in gateway.lives) / max(1, ledger.counts["replies"]), 2
        ),
        "memory": {
            "most_mb": max(mb for life in gateway.lives for _, mb in life.samples),
            "longest_life_s": round(longest.ended - longest.began),
            "settled_mb": next((mb for at, mb in longest.samples if at >= longest.began + SETTLE), None),
            "last_mb": longest.samples[-1][1],
            "mb_per_hour": _rounded(slope(longest.samples, SETTLE)),
            "mb_per_hour_second_half": _rounded(slope(middle, 0.0)),
            "longest_life": [sample for sample in longest.samples[::every]],
        },
        "gateway_exit_code": code,
        "tracebacks_in_gateway_log": words.count("Traceback (most recent call last)"),
        "gateway_log_tail": [line[:300] for line in words.splitlines() if "http://" not in line][-20:],
        "lives": lives,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _quantiles(values: list[float]) -> dict[str, float] | None:
    if len(values) < 2:
        return None
    cuts = statistics.quantiles(values, n=1000, method="inclusive")
    named = {"p50": cuts[499], "p95": cuts[949], "p99": cuts[989], "max": max(values)}
    return {"n": len(values), **{name: round(value, 4) for name, value in named.items()}}


def main() -> int:
    """Soak, check, hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long the load lasts")
    parser.add_argument("--rate", type=float, default=25.0, help="turns begun per second")
    parser.add_argument("--seed", type=int, default=0, help="of kills and programs")
    parser.add_argument("--keep", type=Path, help="keep lake, logs and ledger in this folder, which must not exist")
    given = parser.parse_args()
    minutes = 2.0 if given.quick else given.minutes
    random.seed(given.seed)
    before = load()
    with contextlib.ExitStack() as stack:
        if given.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        else:
            folder = given.keep.resolve()
            folder.mkdir(parents=True)
        os.environ.setdefault("PYTHONUNBUFFERED", "1")
        found, details = asyncio.run(soak(folder, minutes, given.rate, given.seed))
    details["examples"] = found.examples
    memory = details["memory"]
    strange = details["counts"].get("strange answers", 0)
    broken = found.faults + strange + details["tracebacks_in_gateway_log"] + abs(details["gateway_exit_code"])
    rows = [
        {"what": "minutes", "measured": round(details["seconds"] / 60, 1)},
        {
            "what": "gateway kills / backend kills",
            "measured": f"{details['gateway_kills']} / {details['backend_kills']}",
        },
        {"what": "replies acknowledged", "measured": found.acknowledged},
        {"what": "of them lost", "measured": found.lost},
        {"what": "of them on more than one node", "measured": found.twice},
        {"what": "of them told to two who asked for one each", "measured": found.told_twice},
        {"what": "kept with other words", "measured": found.other_words},
        {"what": "kept below another conversation", "measured": found.other_conversation},
        {"what": "kept in another rollout", "measured": found.other_rollout},
        {"what": "conversations sampled more often than asked", "measured": found.sampled_too_often},
        {"what": "trees / that are not whole", "measured": f"{found.trees:,} / {found.broken_trees}"},
        {"what": "requests kept without their reply", "measured": found.half_turns},
        {"what": "turns without their exact ids", "measured": found.without_ids},
        {"what": "trajectories / whose leaf is missing", "measured": f"{found.trajectories:,} / {found.leafless}"},
        {"what": "trajectories that miscount their turns", "measured": found.turns_miscounted},
        {"what": "acknowledged ends of rollouts lost", "measured": found.ends_lost},
        {"what": "trajectories nobody asked for", "measured": found.phantoms},
        {"what": "rows stored twice", "measured": found.rows_twice},
        {"what": "answers no client should see", "measured": strange},
        {"what": "tracebacks in the gateway's log", "measured": details["tracebacks_in_gateway_log"]},
        {"what": "turns kept whose reply did not arrive (no fault)", "measured": found.not_acknowledged},
        {"what": "memory: most MB", "measured": memory["most_mb"]},
        {"what": f"memory: MB an hour over {memory['longest_life_s']} s", "measured": memory["mb_per_hour"]},
        {"what": "memory: MB an hour in that life's second half", "measured": memory["mb_per_hour_second_half"]},
        {"what": "cores used by all of it", "measured": details["cores_used"]},
    ]
    late = memory["mb_per_hour_second_half"]
    flat = minutes < LONG or (late is not None and late <= FLAT_MB_PER_HOUR)
    measured = Measurement(
        name="gateway_soak",
        question=f"{minutes:g} minutes of mixed load while gateway and backends are killed",
        bar=BAR,
        ratio=broken / max(1, found.acknowledged),
        holds=broken == 0 and flat,
        rows=rows,
        details=details,
        quick=minutes < LONG,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
