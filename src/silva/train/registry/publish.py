"""Putting a version behind a running gateway: no request fails, every node says which version answered.

    adapter, where backends hold several at once      every backend loads it, the default changes in one step
    weights changed in place                          pause ─ drain ─ change ─ swap ─ resume

Requests wait meanwhile. Whatever goes wrong, the route goes on with the version it had; a publisher that was killed in
the middle leaves the route paused, and publishing again, the same version or the one before, finishes it. That it was
published is noted in the registry afterwards.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from silva.errors import UnreachableError, UsageError
from silva.train.registry.export import export_merged
from silva.train.registry.line import Line
from silva.train.registry.materialise import materialise
from silva.train.registry.registry import Registry
from silva.train.registry.version import PolicyVersion
from silva.tree import Json

Change = Callable[[], Awaitable[None]]
"""Changes what the backends serve, while nothing is in flight."""

CONNECT_SECONDS = 10.0
LOAD_SECONDS = 330.0
"""How long the backends may take to load an adapter."""


class GatewayAdmin:
    """The admin routes of a running gateway, as far as versions need them.

    Args:
        url: where it listens, without a path.
        token: its admin token.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> GatewayAdmin:
        self._http = aiohttp.ClientSession(headers=self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def models(self) -> list[Json]:
        """How every model stands.

        Raises:
            UnreachableError: the gateway cannot be reached, or refuses.
        """
        return (await self._ask("GET", "models", None, CONNECT_SECONDS))["models"]

    async def model(self, name: str) -> Json:
        """How one model stands.

        Raises:
            UsageError: there is none of that name; the message says which there are.
            UnreachableError: as `models`.
        """
        models = await self.models()
        found = next((model for model in models if model["name"] == name), None)
        if found is None:
            names = ", ".join(str(model["name"]) for model in models)
            raise UsageError(f"the gateway has no model {name!r}; it has {names or 'none'}")
        return found

    async def change(self, name: str, what: str, body: Json | None = None, seconds: float = CONNECT_SECONDS) -> Json:
        """`pause`, `drain`, `resume` or `swap` a model; how it stands then.

        Raises:
            UnreachableError: the gateway cannot be reached, refuses, or took longer than `seconds`.
        """
        return await self._ask("POST", f"models/{quote(name, safe='')}/{what}", body or {}, seconds)

    async def _ask(self, method: str, path: str, body: Json | None, seconds: float) -> Any:
        if self._http is None:
            raise RuntimeError("GatewayAdmin is used within `async with`")
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with self._http.request(method, f"{self.url}/admin/{path}", json=body, timeout=timeout) as answer:
                data = await answer.read()
        except TimeoutError as error:
            what = path.rpartition("/")[2]
            raise UnreachableError(
                f"the gateway did not answer {what} within {seconds:g} s; see its /readyz"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UnreachableError(
                f"the gateway cannot be reached ({error}); is it running, is --gateway its url?"
            ) from error
        try:
            said = msgspec.json.decode(data)
        except msgspec.DecodeError:
            said = None
        if answer.status >= 300 or not isinstance(said, dict):
            error = said.get("error") if isinstance(said, dict) else None
            message = error.get("message") if isinstance(error, dict) else f"HTTP {answer.status}"
            raise UnreachableError(f"the gateway refuses: {message}")
        return said


async def publish(
    registry: Registry,
    version: PolicyVersion,
    gateway: GatewayAdmin,
    model: str,
    *,
    adapter: str = "",
    change: Change | None = None,
    drain_seconds: float = 600.0,
    by: str = "",
    note: str = "",
) -> Line:
    """Have a gateway's model serve a version; return once it does and the registry has it noted.

    Args:
        registry: where the version is.
        version: what to serve.
        gateway: opened.
        model: the route's name.
        adapter: the adapter's folder as the backends see it; for an adapter, without `change`.
        change: changes what the backends serve, while nothing is in flight; for whole weights, or backends that hold
            no adapters. One that fails must leave what was served.
        drain_seconds: how long requests in flight may take to end.
        by: who does it.
        note: why.

    Raises:
        UsageError: no such model, the version was rejected, or neither `adapter` nor `change` can serve it.
        UnreachableError: the gateway refuses or is gone; the route goes on with what it had.
    """
    line = registry.line(version.line)
    if line.status(version) == "rejected":
        raise UsageError(f"{version.name} was rejected and cannot be published: register it anew")
    if bool(adapter) == (change is not None) and version.kind != "base":
        raise UsageError(f"{version.name} needs either an adapter's folder or a way to change the backends in place")
    await gateway.model(model)
    swap: Json = {"version": version.name, "drain_seconds": drain_seconds}
    if change is None:
        shown = await gateway.change(model, "swap", {**swap, "adapter": adapter}, drain_seconds + LOAD_SECONDS)
        if shown.get("paused"):  # a publisher before us was killed in the middle
            shown = await gateway.change(model, "resume")
    else:
        shown = await _in_place(gateway, model, swap, change, drain_seconds)
    if shown.get("version") != version.name:
        raise UnreachableError(
            f"the gateway serves {shown.get('version')!r} as {model}, not {version.name}: publish again"
        )
    return registry.note_published(version.name, model, by=by, note=note)


def seen_as(folder: Path, prefix: str) -> str:
    """A materialised folder's path as the backends see it: under `prefix` where they see it elsewhere."""
    return f"{prefix.rstrip('/')}/{folder.name}" if prefix else str(folder.resolve())


def command_change(registry: Registry, version: PolicyVersion, command: str, under: Path, base: str = "") -> Change:
    """A change that runs a command: the version is written to `under` first, merged if it is an adapter.

    The command is split as a shell would, run without one, and finds `SILVA_POLICY_FOLDER` and `SILVA_POLICY_VERSION`
    in its environment; `{folder}` and `{version}` in it are filled in.

    Raises:
        UsageError: it cannot be split, the version cannot be written, or another folder lies in its place.
        UnreachableError: when it is run: it failed; its last line says how.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--run {command!r} cannot be read as a command: {error}") from error
    if not words:
        raise UsageError("--run needs a command that changes what the backends serve")
    folder = under / version.name
    if version.kind == "full":
        materialise(registry, version, under)
    else:
        _merged(registry, version, folder, base)
    filled = [word.replace("{folder}", str(folder)).replace("{version}", version.name) for word in words]
    environment = {**os.environ, "SILVA_POLICY_FOLDER": str(folder.resolve()), "SILVA_POLICY_VERSION": version.name}

    async def change() -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *filled, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=STDOUT
            )
        except OSError as error:
            raise UnreachableError(f"{filled[0]} cannot be run: {error.strerror or error}") from error
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:  # interrupted: what it has not changed by now it shall not change later
                process.kill()
        if process.returncode:
            last = (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1][:300]
            raise UnreachableError(f"{filled[0]} ended with {process.returncode}, the old version serves on: {last}")

    return change


def _merged(registry: Registry, version: PolicyVersion, folder: Path, base: str) -> None:
    """Have the merged weights in the folder. Beside it stands which they are, written first: a folder of the same name
    from another lake, or one that was there before, must not be served as this version."""
    mark, said = folder.with_name(f".{folder.name}.version"), f"{version.base.digest} {version.digest}\n"
    if folder.exists():
        if not mark.is_file() or mark.read_text(encoding="utf-8") != said:
            raise UsageError(f"{folder} is there already and is not {version.name} of this lake: move it away")
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(said, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from error
    export_merged(registry, version, folder, base=base)


async def _in_place(gateway: GatewayAdmin, model: str, swap: Json, change: Change, drain_seconds: float) -> Json:
    resumed = False
    try:
        await gateway.change(model, "pause")
        await gateway.change(model, "drain", seconds=drain_seconds)
        await change()
        await gateway.change(model, "swap", swap, drain_seconds + CONNECT_SECONDS)
        shown = await gateway.change(model, "resume")
        resumed = True
        return shown
    finally:
        if not resumed:
            await asyncio.shield(gateway.change(model, "resume"))
