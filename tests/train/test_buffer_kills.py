"""kill -9 of the server and the trainer at any moment: the same groups are trained, in the same order, each once."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from buffer_groups import group
from buffer_processes import PAYLOAD, serve, train

from silva.models.child import free_port
from silva.train.buffer import BufferClient
from silva.train.buffer.jobs import read_job

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["silva.train.buffer.serve"])  # a process then starts at once


class Loop:
    """A server and a trainer as processes, and kills."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder, self.steps, self.port = folder, steps, free_port()
        self.server = self.begin(serve, folder, self.port)
        while not (folder / "said").exists():
            assert self.server.is_alive()
            time.sleep(0.01)
        lines = (folder / "said").read_text().splitlines()
        assert lines[0] == f"http://127.0.0.1:{self.port}"
        self.where = [line.split("=")[1] for line in lines[1:]]
        self.trainer = self.train()

    def begin(self, target: object, *arguments: object) -> BaseProcess:
        process = processes.Process(target=target, args=arguments)  # pyright: ignore[reportArgumentType]
        process.start()
        return process

    def train(self) -> BaseProcess:
        return self.begin(train, self.folder / "checkpoint.json", self.steps, *self.where)

    def kill(self, *, server: bool, trainer: bool) -> None:
        for process, wanted in ((self.server, server), (self.trainer, trainer)):
            if wanted:
                process.kill()
                process.join()
        if server:
            self.server = self.begin(serve, self.folder, self.port)
        if trainer:
            self.trainer = self.train()

    def end(self) -> None:
        for process in (self.server, self.trainer):
            process.kill()
            process.join()


async def produce(client: BufferClient, count: int) -> list[int]:
    sequences = []
    for number in range(count):
        name = f"g{number}"
        while not (admission := await client.start([name], wait=30)).admitted:
            assert not admission.known
        version = (await client.status()).version
        sequences.append((await client.put(group(name, version, payload=PAYLOAD))).sequence)
    return sequences


def run(folder: Path, steps: int, kills: int, seed: int) -> None:
    loop = Loop(folder, steps)
    random_ = random.Random(seed)
    try:
        url, job, token = loop.where

        async def produced() -> list[int]:
            async with BufferClient(url, job, token) as client:
                return await produce(client, 2 * steps)

        async def disturbed() -> list[int]:
            producer = asyncio.create_task(produced())
            for _ in range(kills):
                await asyncio.sleep(random_.uniform(0.0, 0.3 if kills == 1 else 2.0))
                which = random_.choice(("server", "trainer", "both")) if kills > 1 else "both"
                loop.kill(server=which != "trainer", trainer=which != "server")
            return await producer

        sequences = asyncio.run(disturbed())
        loop.trainer.join(60)
        assert loop.trainer.exitcode == 0
    finally:
        loop.end()
    state = json.loads((folder / "checkpoint.json").read_text())
    names = [f"g{number}" for number in range(2 * steps)]
    assert state["trained"] == [[number + 1, name] for number, name in enumerate(names)]
    assert sequences == list(range(1, 2 * steps + 1))
    controller = read_job(folder / "buffer", "night")
    assert controller.delivered == names
    status = controller.status()
    assert (status.committed, status.version, status.withheld, status.in_flight) == (2 * steps, steps, 0, 0)
    assert not list((folder / "buffer").glob("jobs/night/groups/*/*.group"))


def test_the_server_and_the_trainer_are_killed_once(tmp_path: Path) -> None:
    run(tmp_path, steps=20, kills=1, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "seed"), [(8, 0), *(pytest.param(30, each, marks=pytest.mark.weekly) for each in range(3))]
)
def test_many_kills(tmp_path: Path, kills: int, seed: int) -> None:
    run(tmp_path, steps=33 * kills, kills=kills, seed=seed)


@pytest.mark.slow
def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    words = ["--folder", str(tmp_path / "buffer"), "--port", "0", "--job", "night", "--bound", "0"]
    words += ["--admin-token-file", str(tmp_path / "admin")]
    command = [sys.executable, "-c", "from silva.cli.train_buffer import app; app()", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout and server.stderr
        url, *exports = [server.stdout.readline().strip() for _ in range(4)]
        variables = dict(line.removeprefix("export ").split("=") for line in exports)
        assert variables["SILVA_BUFFER_URL"] == url and variables["SILVA_BUFFER_JOB"] == "night"
        assert (tmp_path / "admin").stat().st_mode & 0o777 == 0o600

        async def look() -> int:
            async with BufferClient(*variables.values()) as client:
                return (await client.status()).bound

        assert asyncio.run(look()) == 0
        server.send_signal(signal.SIGTERM)
        server.wait(20)
        assert server.stderr.read() == ""
    assert read_job(tmp_path / "buffer", "night").status().entered == 0
