"""A version put behind a running gateway under load: no request fails, every node says which version answered."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from policy_folders import adapter, base
from under_load import Load, completed, versions_kept

from silva.errors import UnreachableError, UsageError
from silva.lake import Lake
from silva.models.serving import ChatApp, ChatRequest, Exchange, Refusal, ServerThread
from silva.models.serving.chat import ChatReply
from silva.train.registry import Registry
from silva.train.registry.materialise import materialise
from silva.train.registry.publish import GatewayAdmin, command_change, publish, seen_as

TOKEN = "admin-token-of-the-tests"


class Backend(ChatApp):
    """A model that says which version answers: changed in place (a file says to what), or by adapters it looks at."""

    def __init__(self, served: Path) -> None:
        super().__init__("scripted")
        self.served = served
        self.adapters: dict[str, Path] = {}
        self.in_flight = 0

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        before = self.served.read_text()
        await self._wait()
        if self.served.read_text() != before:
            raise Refusal(500, "the weights were changed under a request")
        await exchange.send(200, ChatReply(text=f"{before} answers").encode(request))

    async def elsewhere(self, path: str, method: str, exchange: Exchange) -> None:
        body = json.loads(await exchange.body())
        if path == "/v1/load_lora_adapter":
            folder = Path(body["lora_path"])
            if not (folder / "adapter_model.safetensors").is_file():
                raise Refusal(404, f"there is no adapter at {folder}")
            self.adapters[body["lora_name"]] = folder
            await exchange.send(200, b"{}")
            return
        version = body["model"] if body["model"] in self.adapters else "plain"
        await self._wait()
        said = completed(body, f"{version} answers", version)
        await exchange.send(200, json.dumps(said).encode())

    async def _wait(self) -> None:
        self.in_flight += 1
        await asyncio.sleep(0.02)
        self.in_flight -= 1


class Gateway:
    """A gateway in a process of its own."""

    def __init__(self, folder: Path, route: dict[str, Any]) -> None:
        self.lake = folder / "gateway-lake"
        config = {"lake": str(self.lake), "listen": {"port": 0, "admin_token_env": "GATEWAY_TOKEN"}}
        (folder / "gateway.json").write_text(json.dumps({**config, "models": {"policy": route}}))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "silva", "gateway", "--config", str(folder / "gateway.json")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GATEWAY_TOKEN": TOKEN},
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url
        self.key = self.ask("/admin/runs", {"run": "load"}, TOKEN)["token"]

    def ask(self, path: str, body: dict[str, Any], token: str) -> Any:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        asked = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def load(self) -> Load:
        """Clients that never rest."""

        def ask(number: int, turn: int) -> str:
            body = {"model": "policy", "messages": [{"role": "user", "content": f"{number}: {turn}"}]}
            try:
                self.ask(f"/r/load/client-{number}/v1/chat/completions", body, self.key)
            except (urllib.error.URLError, OSError, ValueError) as error:
                return str(error)
            return ""

        return Load(ask)

    def versions_kept(self) -> dict[str, set[str]]:
        """For every version a node carries, who said that they answered; read after `stop`."""
        with Lake.open(self.lake, "read") as lake:
            return versions_kept(lake.nodes(run_id="load"))


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    opened = Registry.open(tmp_path / "lake", make=True)
    opened.begin("tools", base(tmp_path / "small"))
    for number in (1, 2):
        opened.register("tools", adapter(tmp_path / str(number), seed=number))
    return opened


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def gateway_before(stack: ExitStack, tmp_path: Path, kind: str) -> tuple[Gateway, list[Backend]]:
    (tmp_path / "served").write_text("tools-0")
    backends = [Backend(tmp_path / "served") for _ in range(2)]
    urls = [stack.enter_context(ServerThread(backend)).url for backend in backends]
    listed = [{"url": url, "model": "scripted", "kind": kind} for url in urls]
    route = {"backends": listed, "version": "tools-0"} | ({"renderer": "scripted"} if kind == "silva" else {})
    gateway = Gateway(tmp_path, route)
    stack.callback(gateway.stop)
    return gateway, backends


@pytest.mark.slow
async def test_adapters_are_published_under_load_without_a_failed_request(
    registry: Registry, tmp_path: Path, stack: ExitStack
) -> None:
    gateway, backends = gateway_before(stack, tmp_path, "silva")
    line = registry.line("tools")
    async with GatewayAdmin(gateway.url, TOKEN) as admin:
        with gateway.load() as load:
            for number in (1, 2, 0, 1):
                await asyncio.to_thread(load.more, 20)
                version = line.versions[number]
                folder = seen_as(materialise(registry, version, tmp_path / "adapters"), "") if number else ""
                await publish(registry, version, admin, "policy", adapter=folder, by="ann")
                assert (await admin.model("policy"))["version"] == version.name
            await asyncio.to_thread(load.more, 20)
        assert load.failed == [] and load.answered >= 100
        registry.reject("tools-2")
        with pytest.raises(UsageError, match="tools-2 was rejected"):
            await publish(registry, line.versions[2], admin, "policy", adapter="anywhere")
        with pytest.raises(UsageError, match="no model 'other'; it has policy"):
            await publish(registry, line.versions[1], admin, "other", adapter="anywhere")
        with pytest.raises(UnreachableError, match="there is no adapter at"):
            third = registry.register("tools", adapter(tmp_path / "3", seed=3))
            await publish(registry, third, admin, "policy", adapter=str(tmp_path / "gone"))
        assert (await admin.model("policy"))["version"] == "tools-1", "it goes on with what it had"
    gateway.stop()
    assert gateway.versions_kept() == {"plain": {"plain"}, "tools-1": {"tools-1"}, "tools-2": {"tools-2"}}
    assert all(sorted(backend.adapters) == ["tools-1", "tools-2"] for backend in backends)
    published = [(event.number, event.route) for event in registry.line("tools").events if event.what == "published"]
    assert published == [(1, "policy"), (2, "policy"), (0, "policy"), (1, "policy")]


@pytest.mark.slow
async def test_weights_changed_in_place_wait_for_the_drain_and_a_command_that_fails_changes_nothing(
    registry: Registry, tmp_path: Path, stack: ExitStack
) -> None:
    gateway, _ = gateway_before(stack, tmp_path, "chat")
    small, merged = str(tmp_path / "small"), tmp_path / "merged"
    writes = f"{sys.executable} -c 'import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])'"
    async with GatewayAdmin(gateway.url, TOKEN) as admin:
        with gateway.load() as load:
            for number in (1, 2):
                await asyncio.to_thread(load.more, 20)
                version = registry.line("tools").versions[number]
                command = f"{writes} {tmp_path / 'served'} {{version}}"
                change = command_change(registry, version, command, merged, small)
                await publish(registry, version, admin, "policy", change=change)
                assert (merged / version.name / "model.safetensors").is_file()
            failing = command_change(registry, registry.line("tools").versions[1], "sh -c 'echo no; exit 3'", merged)
            with pytest.raises(UnreachableError, match="sh ended with 3, the old version serves on: no"):
                await publish(registry, registry.line("tools").versions[1], admin, "policy", change=failing)
            shown = await admin.model("policy")
            assert (shown["version"], shown["paused"]) == ("tools-2", False)
            await admin.change("policy", "pause")  # as a publisher leaves it that was killed in the middle
            again = command_change(registry, registry.line("tools").versions[2], "true", merged)
            await publish(registry, registry.line("tools").versions[2], admin, "policy", change=again)
            await asyncio.to_thread(load.more, 20)
        assert load.failed == []
    gateway.stop()
    assert gateway.versions_kept() == {name: {name} for name in ("tools-0", "tools-1", "tools-2")}


def test_merged_weights_of_another_lake_are_not_served_under_the_same_name(registry: Registry, tmp_path: Path) -> None:
    small, merged = str(tmp_path / "small"), tmp_path / "merged"
    _, version = registry.find("tools-1")
    command_change(registry, version, "true", merged, small)
    command_change(registry, version, "true", merged)
    other = Registry.open(tmp_path / "other", make=True)
    other.begin("tools", tmp_path / "small")
    another = other.register("tools", adapter(tmp_path / "another", seed=7))
    with pytest.raises(UsageError, match="tools-1 is there already and is not tools-1 of this lake: move it away"):
        command_change(other, another, "true", merged, small)
    command_change(other, another, "true", tmp_path / "elsewhere", small)
    (tmp_path / "models" / "tools-1").mkdir(parents=True)  # somebody's own
    with pytest.raises(UsageError, match="is not tools-1 of this lake"):
        command_change(registry, version, "true", tmp_path / "models", small)


@pytest.mark.slow
def test_the_command_publishes_and_a_wrong_token_is_refused(
    registry: Registry, tmp_path: Path, stack: ExitStack
) -> None:
    gateway, _ = gateway_before(stack, tmp_path, "silva")

    def silva(token: str) -> subprocess.CompletedProcess[str]:
        words = ["publish", "tools-1", "--gateway", gateway.url, "--model", "policy", "--json"]
        words += ["--adapters", str(tmp_path / "adapters"), "--lake", registry.location]
        return subprocess.run(
            [sys.executable, "-m", "silva", "policy", *words],
            capture_output=True,
            text=True,
            env={**os.environ, "SILVA_ADMIN_TOKEN": token},
            check=False,
        )

    wrong = silva("wrong")
    assert wrong.returncode == 4 and "the gateway refuses: admin routes need the admin token" in wrong.stderr
    right = silva(TOKEN)
    assert right.returncode == 0, right.stderr
    assert json.loads(right.stdout)["model"] == "policy"
    assert registry.line("tools").events[-1].what == "published"
