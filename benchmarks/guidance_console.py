"""The console's part in guidance: words said through its HTTP API while it is killed; a turn with a page that follows.

people ─▶ POST /api/say ─▶ console, killed and started again ─▶ mailbox ─▶ agent, killed and resumed
one who is not answered says the word again under its id, as the console's page does

page ◀─ /api/walk, /events ─ console ─ reads the journal ─▶ a turn's time with and without
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import random
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from guidance_runs import after, serve, settings, walks

from silva.guide import post
from silva.guide.mailroom import Mailroom
from silva.lake import Lake
from silva.rollout import run_rollout
from silva.rollout.run import Hooks
from silva.tree import Author, tree_id

PATIENCE = 60.0
"""Seconds that an answer may take."""


class Console:
    """`silva console` over a lake, always at one address, for one person.

    Args:
        folder: of the lake, and for what it needs beside it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._port, self._token = folder, "0", secrets.token_urlsafe(16)
        hashed = hashlib.sha256(self._token.encode()).hexdigest()
        (folder / "users.yaml").write_text(f"ann: {{role: admin, token: {hashed}}}\n")
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.start()

    def start(self) -> None:
        """Serve; once it answers this returns."""
        command = [sys.executable, "-m", "silva", "console", "--lake", str(self._folder / "lake"), "--port", self._port]
        more = ["--users", str(self._folder / "users.yaml"), "--trail", str(self._folder / "trail.jsonl")]
        self._process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().partition("/?")[0]
        self._port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        """`kill -9`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request; the open answer.

        Raises:
            OSError: it does not answer, or refuses (`urllib.error.HTTPError`).
        """
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=PATIENCE)


class Voice(threading.Thread):
    """Says word after word through a console. `said`: those that were acknowledged; `again`: how often a word had to be
    said again because no answer came."""

    def __init__(self, console: Console, draw: random.Random) -> None:
        super().__init__(daemon=True)
        self._console, self._draw, self._over = console, draw, threading.Event()
        self.said: list[str] = []
        self.again = 0

    def run(self) -> None:
        """Until it is told to stop."""
        number = 0
        while not self._over.wait(self._draw.uniform(0.02, 0.3)):
            number += 1
            order = {"run": "r", "kind": "say", "text": f"word c-{number}", "id": f"c-{number}"}
            first = True
            while not self._taken(order):  # killed: nobody knows whether it was taken
                self.again += first
                first = False
                time.sleep(0.1)
            self.said.append(f"c-{number}")

    def _taken(self, order: dict[str, str]) -> bool:
        try:
            with self._console.ask("/api/say", order) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"the console refused a word: {error.read().decode()[:300]}") from error
        except (OSError, http.client.HTTPException):
            return False
        return True

    def stop(self) -> None:
        """Say the word under way to its end, and no more."""
        self._over.set()
        self.join(PATIENCE)


async def console_kills(count: int, seed: int) -> dict[str, Any]:
    """Kills of the console through which people speak, and of the agents' process."""
    with tempfile.TemporaryDirectory() as name:
        folder, draw = Path(name), random.Random(seed)
        agents = consoles = 0
        async with serve(folder, 0.2) as server:
            config = settings(folder, server.url, 100_000, 4)
            (folder / "r.json").write_text(config.model_dump_json(exclude_unset=True))
            command = [sys.executable, "-m", "silva", "rollout", "-c", str(folder / "r.json")]

            def start(*more: str) -> subprocess.Popen[bytes]:
                return subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            agent = start()
            await asyncio.to_thread(after, folder, lambda: None)
            console = await asyncio.to_thread(Console, folder)
            voice = Voice(console, random.Random(seed + 1))
            voice.start()
            while agents + consoles < count:
                await asyncio.sleep(draw.uniform(2.0, 6.0))
                if draw.random() < 0.3:
                    agent.send_signal(signal.SIGKILL)
                    await asyncio.to_thread(agent.wait)
                    agents += 1
                    agent = start("--resume")
                else:
                    await asyncio.to_thread(console.kill)
                    consoles += 1
                    await asyncio.to_thread(console.start)
            await asyncio.sleep(3)
            await asyncio.to_thread(voice.stop)
            said = len(voice.said)
            await asyncio.to_thread(_wait_until_heard, config.lake, voice.said[-1])
            post(config.lake, "r", "stop", "ann")
            await asyncio.to_thread(agent.wait, 300)
            console.kill()
        with Lake.open(folder / "lake", mode="read") as lake:
            kept = Counter(each.reason for each in lake.supervisions(run_id="r") if each.source == "person")
        ended = walks(folder)
        words = [f"word {word}" for word in voice.said]
        lost = sum(max(0, len(ended) - kept[word]) for word in words)
        twice = sum(max(0, kept[word] - len(ended)) for word in words)
        for _, nodes in ended:
            person = [node for node in nodes if node.author is Author.PERSON]
            spoken = Counter(line for node in person for line in node.message.text.splitlines())
            lost += sum(not spoken[word] for word in words)
            twice += sum(spoken[word] > 1 for word in words)
        return {
            "agents": agents,
            "consoles": consoles,
            "said": said,
            "said_again": voice.again,
            "to": len(ended),
            "lost": lost,
            "twice": twice,
        }


def _wait_until_heard(lake: str, last: str) -> None:
    """Until all four agents have the last word: one that was resumed just now has not yet come to hear it."""
    for _ in range(240):
        with Lake.open(lake, mode="read") as opened:
            kept = Counter(each.reason for each in opened.supervisions(run_id="r") if each.source == "person")
        if kept[f"word {last}"] >= 4:
            return
        time.sleep(0.5)


async def console_latency(pairs: int, seed: int) -> dict[str, Any]:
    """Turns with a console and a page that follows one of the agents, and without."""
    found: dict[bool, list[float]] = {True: [], False: []}
    told = 0
    order = [watched for _ in range(pairs) for watched in (True, False)]
    random.Random(seed).shuffle(order)
    for watched in order:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            Lake.open(folder / "lake").close_sync()
            console = await asyncio.to_thread(Console, folder) if watched else None
            page = Page(console) if console is not None else None
            try:
                async with serve(folder, 0.05) as server:
                    config = settings(folder, server.url, 60, 4)
                    await run_rollout(config, hooks=Hooks(guidance=Mailroom.of(config.lake, "r")))
            finally:
                if console is not None:
                    console.kill()
            if page is not None:
                page.join(PATIENCE)
                told += page.nodes
            for _, nodes in walks(folder):
                starts = [node.started for node in nodes if node.author is Author.POLICY]
                found[watched] += [end - begin for begin, end in zip(starts, starts[1:], strict=False)]
    with_it, without = statistics.median(found[True]), statistics.median(found[False])
    return {
        "with_ms": with_it * 1000,
        "without_ms": without * 1000,
        "more": with_it / without - 1,
        "nodes_told": told,
        "load": os.getloadavg(),
    }


class Page(threading.Thread):
    """Follows a run as the console's page does: its stream, and what it asks for when something was told. `nodes` counts
    those that the stream brought."""

    def __init__(self, console: Console) -> None:
        super().__init__(daemon=True)
        self._console, self.nodes = console, 0
        self.start()

    def run(self) -> None:
        """Until the console is no more."""
        tree = tree_id("r", "arithmetic/chain/0")
        try:
            with self._console.ask(f"/events?run=r&tree={tree}") as stream:
                for line in stream:
                    if line.startswith(b"data: "):
                        news = json.loads(line[6:])
                        self.nodes += len(news.get("nodes", ()))
        except (OSError, http.client.HTTPException):
            return
