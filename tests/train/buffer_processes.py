"""A buffer's server and a trainer, as processes to be killed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from silva.lake.durable import write_whole
from silva.models.serving.server import bind
from silva.train.buffer import BufferClient, BufferConfig, JobConfig
from silva.train.buffer.serve import serve_buffer

PAYLOAD = b"x" * 3000


def serve(folder: Path, port: int) -> None:
    """Serve the job `night`; what the command would print goes to the file `said`."""
    jobs = {"night": JobConfig(bound=1, groups_per_step=2)}
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            write_whole(folder / "said", "\n".join(said).encode())

    serve_buffer(BufferConfig(folder=str(folder / "buffer"), jobs=jobs), bind("127.0.0.1", port), "admin", say)


def train(checkpoint: Path, steps: int, url: str, job: str, token: str) -> None:
    """Take two groups a step, write a checkpoint, commit; from the checkpoint on, if there is one."""
    state = {"cursor": 0, "version": 0, "trained": []}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
    asyncio.run(_train(state, checkpoint, steps, BufferClient(url, job, token)))


async def _train(state: dict[str, Any], checkpoint: Path, steps: int, client: BufferClient) -> None:
    async with client as buffer:
        while True:
            # again the commit of the last step, which a kill may have kept from the buffer
            await buffer.commit(state["cursor"], state["version"])
            if state["version"] == steps:
                return
            groups = []
            while len(groups) < 2:
                groups += await buffer.take(state["cursor"] + len(groups), 2 - len(groups), wait=30)
            for each in groups:
                assert each.version == state["version"] and each.staleness <= 1
                assert each.group.samples[0] == PAYLOAD + each.group.id.encode() + bytes(1)
            state["trained"] += [[each.number, each.group.id] for each in groups]
            state["cursor"], state["version"] = groups[-1].number, state["version"] + 1
            write_whole(checkpoint, json.dumps(state).encode())
