"""A model server in a process of its own, asked over HTTP by the route that takes and returns ids."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping

import aiohttp

from local_engines.sampler import NotRun, Sampled
from silva.models.local import MODEL

PATIENCE = 600.0
"""Seconds a server may take to be healthy."""


class ServedSampler:
    """The server, and requests to it.

    Args:
        command: what starts it.
        variables: its environment.
        url: where it will be, without `/v1`.
        health: the path that answers 200 once it is there.
        version: what the results call it.

    Raises:
        NotRun: it ended, or did not come to health.
    """

    def __init__(self, command: list[str], variables: Mapping[str, str], url: str, health: str, version: str) -> None:
        self.version = f"{version}, over HTTP"
        self._url, self._health = url, health
        self._process = subprocess.Popen(
            command,
            env=dict(variables),
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
                    raise NotRun(f"its server ended with {self._process.returncode}")
                try:
                    async with session.get(f"{self._url}{self._health}") as reply:
                        if reply.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    pass  # not yet listening
                await asyncio.sleep(0.5)
        raise NotRun(f"its server was not healthy within {PATIENCE:.0f} s")

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
