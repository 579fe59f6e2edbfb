"""The program around one engine: lines of JSON on standard input and output, run by the engine's own interpreter.

    python -m local_engines.child MODULE MODEL THREADS [WORD ...]

It says its version or why it cannot run; then, for each line `[prompts, new]`, the seconds and what was sampled.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

from local_engines.sampler import NotRun, Sampler


def main() -> None:
    """Serve until standard input ends."""
    module, model, threads, *words = sys.argv[1:]
    said, sys.stdout = sys.stdout, sys.stderr
    try:
        opened = importlib.import_module(f"local_engines.{module}")
        sampler: Sampler = opened.open_sampler(Path(model), int(threads), *words)
    except NotRun as reason:
        print(json.dumps({"not_run": str(reason)}), file=said, flush=True)
        return
    print(json.dumps({"version": sampler.version}), file=said, flush=True)
    for line in sys.stdin:
        prompts, new = json.loads(line)
        started = time.perf_counter()
        sampled = sampler.sample(prompts, new)
        seconds = time.perf_counter() - started
        whole = len(sampled) == len(prompts) and all(len(ids) == len(logprobs) == new for ids, logprobs in sampled)
        assert whole, "an engine ended early"
        print(json.dumps({"seconds": seconds, "sampled": sampled}), file=said, flush=True)
    sampler.close()


if __name__ == "__main__":
    main()
