"""A gateway in a thread, in front of a scripted model, on a lake of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from disks import FullDisk

from silva.lake import Lake
from silva.models.gateway import keeper as keeping
from silva.models.gateway.app import GatewayApp
from silva.models.gateway.config import GatewayConfig
from silva.models.gateway.gateway import Gateway
from silva.models.gateway.keeper import Keeper
from silva.models.scripted import Script, ScriptedServer
from silva.models.serving.server import ServerThread
from silva.tree import Node, Trajectory, Tree

ADMIN = "admin-token-of-the-tests"


class Serving:
    """A running gateway. `lake` is where it keeps; read it after `stop`."""

    def __init__(self, config: dict[str, Any], lake: Path) -> None:
        self.lake = lake
        self.config = GatewayConfig.model_validate({"lake": str(lake), **config})

        def open_lake() -> Lake:
            return Lake.open(lake, window_ms=0)

        self.keeper = Keeper(open_lake(), open_lake)
        self.gateway = Gateway(self.config, self.keeper)
        self._server = ServerThread(GatewayApp(self.gateway, ADMIN)).start()
        self.where = self._server.url.removesuffix("/v1")
        self.http = requests.Session()
        self._stopped = False

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None) -> requests.Response:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        return self.http.request(method, f"{self.where}/admin/{path}", json=body, headers=headers, timeout=30)

    def open_run(self, name: str = "run", **terms: Any) -> str:
        answer = self.admin("POST", "runs", {"run": name, **terms})
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]

    def chat(
        self, token: str, body: dict[str, Any] | bytes, rollout: str = "main", **headers: str
    ) -> requests.Response:
        run = token.split(".")[1] if "." in token else "run"
        return self.post(f"/r/{run}/{rollout}/v1/chat/completions", token, body, **headers)

    def post(self, path: str, token: str, body: dict[str, Any] | bytes, **headers: str) -> requests.Response:
        return self.http.post(
            self.where + path,
            json=None if isinstance(body, bytes) else body,
            data=body if isinstance(body, bytes) else None,
            headers={"Authorization": f"Bearer {token}", **headers},
            timeout=60,
        )

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self.http.close()
            self._server.stop()
            self.keeper.lake.close_sync()

    def nodes(self, run: str = "run") -> list[Node]:
        self.stop()
        with Lake.open(self.lake, mode="read") as lake:
            return lake.nodes(run_id=run)

    def trees(self, run: str = "run") -> list[Tree]:
        nodes = self.nodes(run)
        return [Tree(n for n in nodes if n.tree_id == tree) for tree in sorted({n.tree_id for n in nodes})]

    def trajectories(self, run: str = "run") -> list[Trajectory]:
        self.stop()
        with Lake.open(self.lake, mode="read") as lake:
            return lake.trajectories(run_id=run)


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedServer]]:
    """Scripted models: `scripted(rules=…, otherwise=…)`."""
    with ExitStack() as stack:

        def start(**script: Any) -> ScriptedServer:
            import msgspec

            given = {"otherwise": {"text": "I do not know."}, **script}
            return stack.enter_context(ScriptedServer(msgspec.convert(given, Script)))

        yield start


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """Gateways: `serve(backend, …, **config)`; each backend is a ScriptedServer or the fields of a backend."""
    running: list[Serving] = []

    def start(*backends: Any, route: dict[str, Any] | None = None, lake: Path | None = None, **config: Any) -> Serving:
        listed = [
            backend if isinstance(backend, dict) else {"url": backend.url, "model": "scripted", "ids": True}
            for backend in backends
        ]
        models = {"scripted": {"backends": listed, **(route or {})}} if listed else {}
        running.append(Serving({"models": models, **config}, lake or tmp_path / f"lake{len(running)}"))
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[FullDisk]:
    """`full_disk.full = True`: from now on the journal's disk is full. The gateway tries again at once."""
    disk = FullDisk()
    monkeypatch.setattr(os, "fdatasync", disk)
    monkeypatch.setattr(keeping, "PATIENCE", 0.0)
    yield disk
    disk.full = False
