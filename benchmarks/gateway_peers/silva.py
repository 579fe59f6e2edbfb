"""Silva's gateway, started as a user starts it, capturing strictly: a reply goes out once its turn is on disk."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from gateway_load import Endpoint

from gateway_peers.gateway import PATIENCE, Kept, Running, Whole, call, process, wait_until
from silva import __version__
from silva.lake import Lake
from silva.tree import Author

RUN = "bench"
COMMAND = (str(Path(sys.executable).with_name("silva")), "gateway", "--config", "gateway.yaml")
"""What is started, in the folder that holds the configuration; it prints its base URL."""


class Silva:
    """One run, one rollout a client."""

    name = "silva"
    version = __version__
    durable = "yes: on disk before the reply"
    streams = True

    def install(self, folder: Path) -> None:
        """Nothing to build: it runs in this interpreter's environment."""

    def missing(self, folder: Path) -> str | None:
        """Whether this checkout has the command."""
        asked = subprocess.run([*COMMAND[:-2], "--help"], capture_output=True, text=True, check=False)
        return None if asked.returncode == 0 else "this checkout has no `silva gateway`"

    @contextlib.contextmanager
    def start(self, backend: str, scratch: Path) -> Iterator[Running]:
        """`silva gateway` on a fresh lake, with one run opened."""
        with gateway(backend, scratch) as (pid, open_run):
            rollout = open_run(RUN)
            clients: list[str] = []

            def endpoints(count: int) -> list[Endpoint]:
                made = [f"client-{len(clients) + number}" for number in range(count)]
                clients.extend(made)
                return [rollout(one) for one in made]

            yield Running(pid, endpoints, lambda wanted: _kept(scratch / "lake"))


@contextlib.contextmanager
def gateway(backend: str, scratch: Path) -> Iterator[tuple[int, Callable[[str], Callable[[str], Endpoint]]]]:
    """`silva gateway` on a fresh lake: its process id, and what opens a run, whose rollouts are endpoints."""
    admin = secrets.token_urlsafe(24)
    route = {
        "backends": [{"provider": "static", "url": f"{backend}/v1", "kind": "chat", "model": "scripted", "ids": True}]
    }
    config = {
        "listen": {"port": 0, "admin_token_env": "BENCH_ADMIN_TOKEN"},
        "lake": str(scratch / "lake"),
        "models": {"scripted": route},
    }
    (scratch / "gateway.yaml").write_text(yaml.safe_dump(config))
    with process(list(COMMAND), scratch, environment={"BENCH_ADMIN_TOKEN": admin}) as started:
        base = _base_url(started, scratch / "gateway.log")

        def open_run(run: str) -> Callable[[str], Endpoint]:
            opened = call(f"{base}/admin/runs", {"run": run}, admin)
            return lambda rollout: Endpoint(f"{base}/r/{run}/{rollout}/v1", opened["token"])

        yield started.pid, open_run


def _base_url(started: subprocess.Popen[bytes], log: Path) -> str:
    def told() -> str:
        return next(
            (
                line.strip()
                for line in log.read_text(errors="replace").splitlines()
                if line.strip().startswith("http://")
            ),
            "",
        )

    wait_until(lambda: bool(told()) or started.poll() is not None, PATIENCE)
    if not told():
        raise RuntimeError(f"silva gateway printed no base URL: {log.read_text(errors='replace')[-800:]}")
    return told()


def _kept(folder: Path) -> Kept:
    """Every policy node's prompt is what lies on the way to it: ids are stored once, on the node that added them."""
    with Lake.open(folder, mode="read") as lake:
        nodes = {node.id: node for node in lake.nodes(run_id=RUN)}
    turns, whole = 0, Whole()
    for node in nodes.values():
        if node.author != Author.POLICY:
            continue
        turns += 1
        way = [node]
        while (parent := way[-1].parent_id) is not None:
            way.append(nodes[parent])
        ids = [one for step in reversed(way) for one in (step.tokens.ids if step.tokens else ())]
        added = node.tokens
        if added is not None and added.sampled:
            whole.add(ids[: -added.sampled], ids[-added.sampled :], list(added.logprobs))
    return Kept(turns, len(whole))
