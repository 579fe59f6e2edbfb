"""Figures of the models room: what the client and the scripted server bear, and how fast the local model speaks.

    python benchmarks/local_model.py calls [--seconds 10] [--flight 256]   # client here, scripted server in a child
    python benchmarks/local_model.py tokens [--batches 1 8 32]             # 200-token prompts, 64 new tokens
    python benchmarks/local_model.py engines --install                     # once: the others' environments
    python benchmarks/local_model.py engines [--quick] [--rounds 3]        # ours beside others: results/local_model.json

The first two print one JSON object a line. Prompts share nothing, so no kept beginning helps. The last measures every
engine of `local_engines` in a process of its own, all of them open at once, in turns, on the same prompts: what else the
machine does strikes them alike. `logprob off` is how far their log-probabilities lie from transformers' in float32, in the
mean: an engine that is fast and wrong is seen there. SILVA_VLLM_PYTHON names another environment with vLLM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path

import uvloop
from local_engines.environments import VENVS, install

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
    parser.add_argument("--folder", type=Path, default=VENVS, help="where the others' environments are")
    parser.add_argument("--install", action="store_true", help="build the others' environments and stop")
    parser.add_argument("--quick", action="store_true", help="one round of small batches: not judged, not kept")
    options = parser.parse_args()
    if options.install:
        install(options.folder)
        return
    if options.figure == "engines":
        from local_engines.table import engines  # loads torch, which the other figures' process has no use for

        batches, rounds = ([1, 4], 1) if options.quick else (options.batches, options.rounds)
        sys.exit(engines(options.folder, batches, rounds, options.threads, options.quick))
    uvloop.run(calls(options.seconds, options.flight) if options.figure == "calls" else tokens(options.batches))


if __name__ == "__main__":
    main()
