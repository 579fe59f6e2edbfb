"""One training run on 1, 2, … processes: tokens/s of a step, and whether all have the same losses.

    python benchmarks/scale.py [--quick] [--processes 1 2 4] [--shard]

A llama with random weights is trained whole on random ids by `silva train run`, with the same config but for
`scale.processes`. On a machine with GPUs each process has one (bfloat16, a larger llama); elsewhere each has one core
(float32, a small one). The clock runs from one step's line on the terminal to the next's, so sharing, summing gradients and
the update are in it; the first steps are left out. Rounds are interleaved and the median is taken. `--shard` puts
weights in parts (FSDP2) wherever there is more than one process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from report import Measurement, arguments, hand_in, load
from silva.train.curves import read_curve
from silva.train.sample import Sample
from silva.train.sample_file import write_samples

LEAST = 0.7
"""Of N times one process's tokens/s."""
ALIKE = {"float32": 1e-4, "bfloat16": 2e-2}
"""How far a loss may be from the single process's, relative to it."""
WARM = 3
WORDS = 2048


@dataclass(frozen=True)
class Size:
    """What is trained: the llama's shape, samples a step and their length, steps."""

    shape: dict[str, int]
    batch: int
    length: int
    steps: int


SMALL = Size({"width": 192, "layers": 4, "heads": 4, "key_heads": 2, "inner": 512, "context": 256}, 16, 128, 12)
QUICK = Size({"width": 128, "layers": 2, "heads": 4, "key_heads": 2, "inner": 256, "context": 256}, 8, 128, 8)
LARGE = Size({"width": 2048, "layers": 16, "heads": 16, "key_heads": 4, "inner": 5632, "context": 2048}, 64, 1024, 20)


def prepared(folder: Path, size: Size) -> tuple[Path, Path]:
    """A tokenizer of `WORDS` words, and samples."""
    words = folder / "words"
    words.mkdir()
    made = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}}
    made["model"] = {"type": "WordLevel", "vocab": {f"w{at}": at for at in range(WORDS)}, "unk_token": "w0"}
    (words / "tokenizer.json").write_text(json.dumps(made))
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "w1"}
    (words / "tokenizer_config.json").write_text(json.dumps(said))
    generator = np.random.default_rng(0)
    nothing = np.zeros(size.length, np.float32)
    samples = [
        Sample(
            ids=generator.integers(0, WORDS, size.length).astype(np.int32),
            mask=np.arange(size.length) >= size.length // 4,
            drawn=np.arange(size.length) >= size.length // 4,
            logprobs=nothing,
            advantages=nothing,
            weights=np.ones(size.length, np.float32),
            trajectory_id=f"t{number}",
        )
        for number in range(4 * size.batch)
    ]
    write_samples(folder / "random.samples", samples)
    return words, folder / "random.samples"


def run(config: dict[str, Any], output: Path, processes: int, shard: bool) -> tuple[float, list[float]]:
    """Train once; tokens/s of the median step, and the losses."""
    file = output.with_suffix(".json")
    scale = {"processes": processes, "shard": shard and processes > 1}
    file.write_text(json.dumps(config | {"output": str(output), "scale": scale}))
    child = subprocess.Popen(
        [sys.executable, "-m", "silva", "train", "run", str(file), "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    times: list[float] = []
    told: list[str] = []
    for line in child.stderr or ():
        told.append(line)
        if line.startswith("step "):
            times.append(time.monotonic())
    if child.wait():
        raise SystemExit(f"{processes} processes: {told[-1] if told else 'no word'}")
    points = read_curve(output)
    seconds = statistics.median(after - before for before, after in zip(times[WARM:], times[WARM + 1 :], strict=False))
    tokens = statistics.median(point.values["tokens"] for point in points)
    return tokens / seconds, [point.values["loss"] for point in points]


def main() -> int:
    """Measure, print, write, judge."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    parser = arguments(__doc__)
    parser.add_argument("--processes", type=int, nargs="+", help="default: 1, 2, 4, … up to the GPUs, or the cores")
    parser.add_argument("--rounds", type=int, help="default 3; quick 1")
    parser.add_argument("--shard", action="store_true", help="weights in parts")
    given = parser.parse_args()
    most = gpus or torch.get_num_threads()
    counts = given.processes or [2**power for power in range(most.bit_length()) if 2**power <= most]
    if counts[0] != 1:
        counts = [1, *counts]
    size = QUICK if given.quick else LARGE if gpus else SMALL
    dtype = "bfloat16" if gpus else "float32"
    rounds, before = given.rounds or (1 if given.quick else 3), load()
    found: dict[int, list[tuple[float, list[float]]]] = {count: [] for count in counts}
    with tempfile.TemporaryDirectory(prefix="silva-scale-") as name:
        folder = Path(name)
        words, samples = prepared(folder, size)
        config: dict[str, Any] = {
            "policy": {
                "method": "full",
                "scratch": {"tokenizer": str(words), **size.shape},
                "dtype": dtype,
                "device": "cuda" if gpus else "cpu",
            },
            "data": {"files": [str(samples)]},
            "optimiser": {"learning_rate": 3e-4},
            "steps": size.steps,
            "batch": size.batch,
            "micro_tokens": 2048 if not gpus else 16384,
            "checkpoints": {"every": 1_000_000, "weights": False},
            "threads": 4 if gpus else 1,
        }
        for number in range(rounds):
            for count in counts:
                rate, losses = run(config, folder / f"run-{number}-{count}", count, given.shard)
                found[count].append((rate, losses))
                sys.stderr.write(f"round {number + 1}: {count} processes {rate:,.0f} tokens/s\n")
    one = statistics.median(rate for rate, _ in found[1])
    rows = []
    for count in counts:
        rate = statistics.median(rate for rate, _ in found[count])
        apart = max(
            abs(mine - alone) / abs(alone)
            for _, losses in found[count]
            for mine, alone in zip(losses, found[1][0][1], strict=True)
        )
        rows.append(
            {
                "processes": count,
                "tokens_per_second": round(rate, 1),
                "faster_than_one_by": round(rate / one, 2),
                "losses_apart_at_most": float(f"{apart:.2g}"),
            }
        )
    share = rows[-1]["faster_than_one_by"] / counts[-1]
    alike = all(row["losses_apart_at_most"] <= ALIKE[dtype] for row in rows)
    measured = Measurement(
        name="scale_shard" if given.shard else "scale",
        question=f"Training on several {'GPUs' if gpus else 'processes, one core each'}: tokens/s of a whole step",
        bar=f"losses within {ALIKE[dtype]:g} of one process's, and at least {LEAST:g} of N times its tokens/s",
        ratio=share,
        holds=alike and share >= LEAST,
        rows=rows,
        details={
            "rounds": {str(count): [round(rate, 1) for rate, _ in runs] for count, runs in found.items()},
            "llama": size.shape,
            "samples_a_step": size.batch,
            "ids_a_sample": size.length,
            "dtype": dtype,
            "sharded": given.shard,
            "gpus": [torch.cuda.get_device_name(at) for at in range(gpus)],
            "losses_alike": alike,
        },
        versions={"torch": torch.__version__},
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
