"""Figures of the models room: what the client and the scripted server bear, and how fast the local model speaks.

    python benchmarks/local_model.py calls [--seconds 10] [--flight 256]   # client here, scripted server in a child
    python benchmarks/local_model.py tokens [--batches 1 8 32]             # 200-token prompts, 64 new tokens
    python benchmarks/local_model.py engines [--quick] [--rounds 3]        # ours beside others: results/local_model.json

The first two print one JSON object a line. Prompts share nothing, so no kept beginning helps. The third measures every
engine of `local_engines.py` in a process of its own, all of them open at once, in turns: what else the machine does
strikes them alike. SILVA_VLLM_PYTHON names the interpreter of an environment with vLLM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from local_engines import ENGINES

from report import Measurement, hand_in, load
from silva.models import Client, Endpoint, Request, Sampling, connect
from silva.models.scripted import Answer, Latency, Script, ScriptedProcess
from silva.tree import system, user


async def calls(seconds: float, flight: int) -> None:
    """Calls a second of one client process against a scripted server of 50 ms in another."""
    script = Script(latency=Latency(mean=0.05), otherwise=Answer(text="A short reply of a scripted model."))
    request = Request(messages=(system("You are terse."), user("a prompt of some length " * 20)))
    async with ScriptedProcess(script) as server:
        endpoint = Endpoint(url=server.url, model="scripted", api_key_env="")
        async with Client(endpoint, api_key=server.token) as client:
            await asyncio.gather(*(client.complete(request) for _ in range(flight)))  # opens the connections
            count = 0
            started, used = time.perf_counter(), time.process_time()

            async def caller() -> None:
                nonlocal count
                while time.perf_counter() - started < seconds:
                    await client.complete(request)
                    count += 1

            await asyncio.gather(*(caller() for _ in range(flight)))
            elapsed, used = time.perf_counter() - started, time.process_time() - used
    figures = {"calls_per_second": round(count / elapsed), "cpu_ms_per_call": round(used / count * 1000, 3)}
    print(json.dumps({"figure": "calls", "in_flight": flight, "latency_ms": 50, **figures, "load": _load()}))


async def tokens(batches: list[int]) -> None:
    """Sampled tokens a second of the local model, prompts included in the time."""
    words = "river stone light paper winter garden music letter horse window bridge".split()  # noqa: SIM905
    async with connect("local") as model:
        draw = random.Random(0)
        for batch in batches:
            requests = [
                Request(
                    messages=(user(" ".join(draw.choice(words) for _ in range(170)) + " Tell a long story."),),
                    sampling=Sampling(temperature=1.0, seed=i, max_tokens=64),
                    deadline=600,
                )
                for i in range(batch)
            ]
            started = time.perf_counter()
            replies = await asyncio.gather(*(model.complete(request) for request in requests))
            elapsed = time.perf_counter() - started
            sampled = sum(reply.usage.completion_tokens for reply in replies)
            read = sum(reply.usage.prompt_tokens - reply.usage.cached_tokens for reply in replies)
            figures = {"sampled": sampled, "read": read, "seconds": round(elapsed, 2)}
            speed = {"sampled_per_second": round(sampled / elapsed, 1)}
            print(json.dumps({"figure": "tokens", "batch": batch, **figures, **speed, "load": _load()}), flush=True)


BAR = 2.0
"""Our engine's rate at batch 8 over transformers' `generate`: less would not be worth an engine of our own."""

PROMPT, NEW = 200, 64


class Opened:
    """An engine in a process of its own."""

    def __init__(self, name: str, threads: int) -> None:
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "HF_HUB_OFFLINE": "1"}
        program = str(Path(__file__).with_name("local_engines.py"))
        self._process = subprocess.Popen(
            [sys.executable, program, name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        self.name = name
        said = self._line()
        self.reason: str | None = said.get("not_run")
        self.version: str = said.get("version", "")

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self._process.wait()}")
        return json.loads(line)

    def seconds(self, prompts: list[list[int]]) -> float:
        """How long it takes to read the prompts and sample `NEW` tokens for each."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([prompts, NEW]) + "\n")
        self._process.stdin.flush()
        return self._line()["seconds"]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def engines(batches: list[int], rounds: int, threads: int, quick: bool) -> int:
    """Sampled tokens a second of every engine, prompts included in the time; the median of interleaved rounds."""
    before = load()
    opened = [Opened(name, threads) for name in ENGINES]
    running = [engine for engine in opened if engine.reason is None]
    draw = random.Random(0)

    def prompts(batch: int) -> list[list[int]]:
        return [[draw.randrange(100, 40000) for _ in range(PROMPT)] for _ in range(batch)]

    rates: dict[tuple[str, int], list[float]] = {}
    try:
        for engine in running:
            engine.seconds(prompts(1))  # the first is always slow
        for _ in range(rounds):
            for batch in batches:
                for engine in running:
                    rate = batch * NEW / engine.seconds(prompts(batch))
                    rates.setdefault((engine.name, batch), []).append(rate)
                    print(f"{engine.name}, batch {batch}: {rate:.1f} tokens/s, load {load()}", file=sys.stderr)
    finally:
        for engine in opened:
            engine.close()
    rows: list[dict[str, Any]] = []
    for engine in opened:
        row: dict[str, Any] = {"engine": engine.name}
        for batch in batches:
            found = rates.get((engine.name, batch))
            row[f"batch_{batch}"] = round(statistics.median(found), 1) if found else None
        rows.append({**row, "with": engine.version or f"not run: {engine.reason}"})
    middle = batches[min(1, len(batches) - 1)]
    rate = {row["engine"]: row[f"batch_{middle}"] for row in rows}
    ratio = rate["silva"] / rate["transformers"] if rate["transformers"] else 0.0
    spread = [
        {"engine": name, "batch": batch, "rates": [round(rate, 1) for rate in found]}
        for (name, batch), found in rates.items()
    ]
    measured = Measurement(
        name="local_model",
        question=f"Sampled tokens per second, {PROMPT}-token prompts, {NEW} new, ids and log-probabilities",
        bar=f"at least {BAR}x transformers generate at batch {middle} (median of {rounds} interleaved rounds)",
        ratio=ratio,
        holds=ratio >= BAR,
        rows=rows,
        details={"threads": threads, "rounds": rounds, "all": spread},
        quick=quick,
    )
    return hand_in(measured, before)


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def main() -> None:
    """Run one figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=["calls", "tokens", "engines"])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--flight", type=int, default=256)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one round of small batches: not judged, not kept")
    options = parser.parse_args()
    if options.figure == "engines":
        batches, rounds = ([1, 4], 1) if options.quick else (options.batches, options.rounds)
        sys.exit(engines(batches, rounds, options.threads, options.quick))
    uvloop.run(calls(options.seconds, options.flight) if options.figure == "calls" else tokens(options.batches))


if __name__ == "__main__":
    main()
