"""Another policy version, twenty times, under the load of 32 clients: does a request fail, does a node lie, how long does one wait?

    python benchmarks/gateway_swap.py [--swaps 20] [--clients 32] [--local] [--quick]

    in place    pause ─ drain ─ every backend changes (and refuses while anything is in flight) ─ swap ─ resume
    adapter     swap with an adapter: backends load it beside the old version, then the default changes in one step
    --local     the adapter way again with `silva models serve local` as backend, 4 clients, 4 swaps

Every reply says which version answered. The lake is read afterwards: each node must carry that version. `told`: the backends'
replies name their version; `silent`: the gateway alone knows it. `stale`: replies to requests sent after a swap was answered that came
from another version. `longest_s`: the longest request that met a swap; `else_…`: requests that met none.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from gateway_soak_dialects import Broken, Said, body, streamed, whole
from gateway_soak_processes import Process
from gateway_swap_backend import FIRST

from report import Measurement, arguments, hand_in, load
from silva.lake import Lake
from silva.models.child import free_port
from silva.models.local import MODEL
from silva.tree import Author

ADMIN = "SWAP_ADMIN_TOKEN"
BACKENDS = 2
WORDS = {"red": 2382, "blue": 4461}
"""What the adapters of the local model say, and the id of the word with a space before it."""


@dataclass
class Heard:
    """What the clients of one part saw: seconds of each reply and when it came, failures, what was said."""

    replies: list[tuple[float, float]] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    swaps: list[tuple[float, float]] = field(default_factory=list)
    late: int = 0
    """Replies to requests sent after a swap was answered, that came from another version."""


class Part:
    """One way of changing versions: a gateway of its own before two backends of its own, and its clients."""

    def __init__(self, folder: Path, route: dict[str, Any], backends: list[Process]) -> None:
        folder.mkdir(exist_ok=True)
        port = free_port()
        self.where = f"http://127.0.0.1:{port}"
        self.lake = folder / "lake"
        self.token = secrets.token_urlsafe(24)
        self.backends = backends
        listen = {"port": port, "admin_token_env": ADMIN}
        config = {"lake": str(self.lake), "listen": listen, "models": {"scripted": route}}
        (folder / "gateway.yaml").write_text(json.dumps(config))
        command = [str(Path(sys.executable).with_name("silva")), "gateway", "--config", str(folder / "gateway.yaml")]
        self.gateway = Process("gateway", command, f"{self.where}/healthz", folder, {ADMIN: self.token})
        self.heard = Heard()
        self.key = ""
        self.current = ""

    @contextlib.asynccontextmanager
    async def serving(self, http: aiohttp.ClientSession) -> AsyncIterator[None]:
        """All of it runs; the run is closed and the gateway stopped at the end."""
        try:
            await asyncio.gather(*(each.start(http) for each in (self.gateway, *self.backends)))
            self.key = (await self.admin(http, "runs", {"run": "swap"}))["token"]
            yield
            await self.admin(http, "runs/swap/close", {})
            await self.gateway.stop()
        finally:
            for each in (self.gateway, *self.backends):
                if each.alive:
                    await each.kill()

    async def admin(self, http: aiohttp.ClientSession, path: str, given: dict[str, Any]) -> dict[str, Any]:
        """An admin request.

        Raises:
            RuntimeError: it was refused.
        """
        headers = {"authorization": f"Bearer {self.token}"}
        async with http.post(f"{self.where}/admin/{path}", json=given, headers=headers) as answer:
            read = await answer.json()
            if answer.status >= 300:
                raise RuntimeError(f"/admin/{path}: HTTP {answer.status}: {read}")
            return read

    async def client(self, http: aiohttp.ClientSession, name: str, stop: asyncio.Event, most: int | None) -> None:
        """Ask again and again, nothing repeated: what fails, failed."""
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        url = f"{self.where}/r/swap/{name}/v1/chat/completions"
        for turn in itertools.count():
            if stop.is_set():
                return
            said = [Said("system", "Say who you are."), Said("user", f"{name} asks for the {turn}. time")]
            stream = bool(turn % 2)
            sent = json.loads(body("chat", said, stream)) | ({"max_tokens": most, "temperature": 0} if most else {})
            wanted, began = self.current, time.monotonic()
            try:
                async with http.post(url, json=sent, headers=headers) as answer:
                    data = await answer.read()
                    if answer.status != 200:
                        self.heard.failed.append(f"HTTP {answer.status}: {data[:200]!r}")
                        continue
                reply = streamed("chat", data) if stream else whole("chat", data)
            except (aiohttp.ClientError, OSError, TimeoutError, Broken) as error:
                self.heard.failed.append(f"{type(error).__name__}: {error}"[:300])
                continue
            now = time.monotonic()
            self.heard.replies.append((now, now - began))
            self.heard.said[reply.id] = reply.said.text
            if wanted and wanted == self.current and reply.said.text.split()[0] != wanted:
                self.heard.late += 1

    async def play(
        self,
        http: aiohttp.ClientSession,
        clients: int,
        versions: list[str],
        change: Callable[[str], Awaitable[None]],
        pause: float,
        most: int | None = None,
    ) -> None:
        """Change to each version in turn under the load of so many clients."""
        stop = asyncio.Event()
        tasks = [asyncio.create_task(self.client(http, f"c{number}", stop, most)) for number in range(clients)]
        try:
            await asyncio.sleep(pause)
            for version in versions:
                began = time.monotonic()
                self.current = ""
                await change(version)
                self.current = version
                self.heard.swaps.append((began, time.monotonic()))
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        finally:
            stop.set()
            await asyncio.gather(*tasks)

    def report(self, answered: Callable[[str], str], first: str) -> dict[str, Any]:
        """The figures of this part, with the lake read."""
        heard = self.heard
        lies: list[str] = []
        kept: dict[str, str] = {}
        versions: dict[str, int] = {}
        with Lake.open(self.lake, mode="read") as lake:
            for node in lake.nodes(run_id="swap"):
                if node.author is not Author.POLICY:
                    continue
                kept[str(node.attributes["reply"])] = node.message.text
                versions[node.policy_version] = versions.get(node.policy_version, 0) + 1
                told = first if self.base and node.policy_version.startswith(self.base) else node.policy_version
                if told != answered(node.message.text):
                    lies.append(f"{node.policy_version}: {node.message.text[:60]}")
        near = [took for at, took in heard.replies if any(a <= at and at - took <= b for a, b in heard.swaps)]
        far = [took for at, took in heard.replies if not any(a <= at and at - took <= b for a, b in heard.swaps)]
        return {
            "swaps": len(heard.swaps),
            "requests": len(heard.replies) + len(heard.failed),
            "failed": len(heard.failed),
            "failures": heard.failed[:5],
            "answered_by_an_old_version_after_the_swap": heard.late,
            "nodes": len(kept),
            "nodes_with_another_version_than_answered": len(lies),
            "lies": lies[:5],
            "replies_not_kept_as_told": sum(kept.get(reply) != text for reply, text in heard.said.items()),
            "versions": dict(sorted(versions.items())),
            "swap_s": _spread([end - began for began, end in heard.swaps]),
            "request_s_during_swaps": _spread(near),
            "request_s_otherwise": _spread(far),
        }

    base = ""
    """How the name begins that the backends themselves give to the version they start with."""


def _spread(values: list[float]) -> dict[str, float] | None:
    if len(values) < 2:
        return None
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 3), "p99": round(cuts[98], 3), "max": round(max(values), 3)}


def _first_word(text: str) -> str:
    return text.split()[0] if text.split() else ""


def _backends(folder: Path, tells: str) -> tuple[list[Process], list[str]]:
    script = str(Path(__file__).with_name("gateway_swap_backend.py"))
    folder.mkdir(exist_ok=True)
    ports = [free_port() for _ in range(BACKENDS)]
    made = [
        Process(
            f"backend-{port}",
            [sys.executable, script, str(port), tells],
            f"http://127.0.0.1:{port}/healthz",
            folder,
            {},
        )
        for port in ports
    ]
    return made, [f"http://127.0.0.1:{port}" for port in ports]


async def in_place(folder: Path, tells: str, clients: int, swaps: int) -> dict[str, Any]:
    """Weights changed in place, between pause and resume."""
    backends, urls = _backends(folder, tells)
    listed = [{"url": f"{url}/v1", "model": "scripted"} for url in urls]
    part = Part(folder, {"backends": listed, "version": FIRST}, backends)
    versions = [f"v{number}" for number in range(1, swaps + 1)]
    async with _http() as http, part.serving(http):

        async def change(version: str) -> None:
            await part.admin(http, "models/scripted/pause", {})
            await part.admin(http, "models/scripted/drain", {})
            for url in urls:
                async with http.post(f"{url}/version", json={"version": version}) as answer:
                    if answer.status != 200:
                        raise RuntimeError(f"the backend was not drained: {await answer.text()}")
            await part.admin(http, "models/scripted/swap", {"version": version})
            await part.admin(http, "models/scripted/resume", {})

        await part.play(http, clients, versions, change, pause=1.0)
    return part.report(_first_word, FIRST)


async def by_adapter(folder: Path, clients: int, swaps: int) -> dict[str, Any]:
    """Backends hold several versions; half of the swaps go back to one that is loaded already."""
    backends, urls = _backends(folder, "tells")
    listed = [{"url": f"{url}/v1", "model": "scripted", "kind": "silva"} for url in urls]
    route = {"backends": listed, "renderer": "scripted", "version": FIRST, "health": {"every": 0.5}}
    part = Part(folder, route, backends)
    part.base = f"digest-of-{FIRST}"
    versions = [f"step-{number // 2 if number % 4 == 3 else number}" for number in range(1, swaps + 1)]
    async with _http() as http, part.serving(http):

        async def change(version: str) -> None:
            await part.admin(http, "models/scripted/swap", {"version": version, "adapter": f"adapters/{version}"})

        await part.play(http, clients, versions, change, pause=1.0)
    return part.report(_first_word, FIRST)


async def local(folder: Path, clients: int, swaps: int) -> dict[str, Any]:
    """The bundled model, with two adapters that say one word each."""
    await asyncio.to_thread(_speaking, folder / "adapters")
    backend = {"provider": "local", "least": 1, "threads": 1, "adapters": str(folder / "adapters")}
    part = Part(folder, {"backends": [backend], "renderer": "local"}, [])
    versions = [("red", "blue")[number % 2] for number in range(swaps)]
    part.base = f"{MODEL}@"

    def answered(text: str) -> str:
        said = set(text.split())
        return next((word for word in WORDS if said == {word}), "base")

    async with _http() as http, part.serving(http):
        while True:  # it is ready once its first process is
            async with http.get(f"{part.where}/readyz") as answer:
                shown = await _models(http, part)
                if answer.status == 200 and shown.get("backends"):
                    break
            await asyncio.sleep(0.5)

        async def change(version: str) -> None:
            await part.admin(http, "models/scripted/swap", {"version": version, "adapter": version})

        await part.play(http, clients, versions, change, pause=8.0, most=4)
    return part.report(answered, "base")


async def _models(http: aiohttp.ClientSession, part: Part) -> dict[str, Any]:
    async with http.get(f"{part.where}/admin/models", headers={"authorization": f"Bearer {part.token}"}) as answer:
        return (await answer.json())["models"][0]


def _speaking(folder: Path) -> None:
    """Write the adapters, as the tests of the local model make them."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
    from adapter_folders import constant_input, speaking_adapter

    from silva.models.bundled import weights_folder
    from silva.models.local.engine import Engine

    network = Engine(weights_folder(), rows=1).network
    direction = constant_input(network)
    for word, token in WORDS.items():
        speaking_adapter(folder / word, network, direction, token)


@contextlib.asynccontextmanager
async def _http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=120), connector=aiohttp.TCPConnector(limit=0)
    ) as http:
        yield http


def main() -> int:
    """Swap, count, hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--local", action="store_true", help="also the bundled model, with adapters")
    given = parser.parse_args()
    clients, swaps = (8, 4) if given.quick else (given.clients, given.swaps)
    before = load()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with tempfile.TemporaryDirectory(prefix="swap-") as scratch:
        folder = Path(scratch)
        parts = {
            "in place, told": asyncio.run(in_place(folder / "tell", "tells", clients, swaps)),
            "in place, silent": asyncio.run(in_place(folder / "silent", "silent", clients, swaps)),
            "adapter": asyncio.run(by_adapter(folder / "adapter", clients, swaps)),
        }
        if given.local:
            parts["adapter, real model"] = asyncio.run(local(folder / "local", 4, 4))
    faults = sum(
        part["failed"]
        + part["nodes_with_another_version_than_answered"]
        + part["replies_not_kept_as_told"]
        + part["answered_by_an_old_version_after_the_swap"]
        for part in parts.values()
    )
    rows = [
        {
            "way": name,
            "swaps": part["swaps"],
            "requests": part["requests"],
            "failed": part["failed"],
            "wrong_version": part["nodes_with_another_version_than_answered"],
            "stale": part["answered_by_an_old_version_after_the_swap"],
            "swap_s": (part["swap_s"] or {}).get("p50"),
            "longest_s": (part["request_s_during_swaps"] or {}).get("max"),
            "else_p50_s": (part["request_s_otherwise"] or {}).get("p50"),
            "else_longest_s": (part["request_s_otherwise"] or {}).get("max"),
        }
        for name, part in parts.items()
    ]
    measured = Measurement(
        name="gateway_swap",
        question=f"{swaps} changes of the policy version under the load of {clients} clients",
        bar="0 failed requests, 0 nodes with another version than the one that answered",
        ratio=faults / max(1, sum(part["requests"] for part in parts.values())),
        holds=faults == 0,
        rows=rows,
        details=parts,
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
