"""Every engine on the same prompts, in turns: the table that `benchmarks/results/local_model.json` keeps, and its bar."""

from __future__ import annotations

import random
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

from local_engines.environments import ENGINES
from local_engines.opened import Opened
from local_engines.referee import Referee
from local_engines.sampler import Sampled
from report import Measurement, hand_in, load
from silva.models.bundled import weights_folder
from silva.models.local.network import best_dtype

BAR = 2.0
"""Our engine's rate at batch 8 over transformers' `generate`: less would not be worth an engine of our own."""

PROMPT, NEW = 200, 64
REFEREED = 4
"""Prompts whose draws are also scored by transformers in float32."""


def _told(engine: Opened) -> str:
    if engine.reason is None:
        return engine.version
    return f"{engine.version}; {engine.reason}" if engine.version else f"not run: {engine.reason}"


def engines(folder: Path, batches: list[int], rounds: int, threads: int, quick: bool) -> int:
    """Sampled tokens a second of every engine, prompts included in the time; the median of interleaved rounds."""
    before = load()
    opened = [Opened(name, folder, threads) for name in ENGINES]
    draw = random.Random(0)

    def prompts(batch: int) -> list[list[int]]:
        return [[draw.randrange(100, 40000) for _ in range(PROMPT)] for _ in range(batch)]

    rates: dict[tuple[str, int], list[float]] = {}
    first: dict[str, tuple[list[list[int]], Sampled]] = {}
    try:
        asked = prompts(REFEREED)
        for engine in opened:
            if engine.reason is None and (done := engine.sample(asked, NEW)):
                first[engine.name] = asked, done[1]  # not timed: the first is always slow
        for _ in range(rounds):
            for batch in batches:
                asked = prompts(batch)
                for engine in opened:
                    if engine.reason is None and (done := engine.sample(asked, NEW)):
                        rate = batch * NEW / done[0]
                        rates.setdefault((engine.name, batch), []).append(rate)
                        print(f"{engine.name}, batch {batch}: {rate:.1f} tokens/s, load {load()}", file=sys.stderr)
    finally:
        for engine in opened:
            engine.close()
    referee = Referee(weights_folder())
    rows: list[dict[str, Any]] = []
    for engine in opened:
        row: dict[str, Any] = {"engine": engine.name}
        for batch in batches:
            found = rates.get((engine.name, batch))
            row[f"batch_{batch}"] = round(statistics.median(found), 1) if found else None
        row["logprob_off"] = round(referee.off(*first[engine.name]), 4) if engine.name in first else None
        rows.append({**row, "with": _told(engine)})
    middle = batches[min(1, len(batches) - 1)]
    rate = {row["engine"]: row[f"batch_{middle}"] or 0.0 for row in rows}
    ratio = rate["silva"] / rate["transformers"] if rate["transformers"] else 0.0
    judged = best_dtype() == torch.bfloat16
    times = f"transformers generate at batch {middle} (median of {rounds} interleaved rounds)"
    spread = [
        {"engine": name, "batch": batch, "rates": [round(rate, 1) for rate in found]}
        for (name, batch), found in rates.items()
    ]
    measured = Measurement(
        name="local_model",
        question=f"Sampled tokens per second, {PROMPT}-token prompts, {NEW} new, ids and log-probabilities",
        bar=f"at least {BAR}x {times}"
        if judged
        else f"none on a processor without bfloat16; shown is silva over {times}",
        ratio=ratio,
        holds=ratio >= BAR or not judged,
        rows=rows,
        details={"threads": threads, "rounds": rounds, "all": spread},
        quick=quick,
    )
    return hand_in(measured, before)
