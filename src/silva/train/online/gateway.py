"""A running gateway as the one who serves the policy: versions go through the registry of the rollout's lake.

    folder ─▶ register (candidate LINE-n, by the key RUN/step/digest) ─▶ materialise ─▶ publish ─▶ nodes carry LINE-n

The same weights of a step are registered once, however often the run is killed and resumed. Promoting one is left to
who evaluates it. What the run begins with, the line's base or the adapter it goes on from, is published like any other
version, so that every turn of the run carries a name it knows; a turn that carries another was drawn by what somebody
else put behind the model.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import aiohttp
import msgspec

from silva.errors import UnreachableError, UsageError
from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.local import MODEL
from silva.models.model import Model
from silva.train.online.config import GatewayAt
from silva.train.online.publisher import ForeignVersion
from silva.train.registry import Data, PolicyVersion, Registry
from silva.train.registry.materialise import materialise
from silva.train.registry.publish import GatewayAdmin, command_change, publish, seen_as
from silva.train.registry.weights import WeightsFolder

SECONDS = 30.0


class GatewayPublisher:
    """See the module; a `Publisher`. Made by `open`.

    Args:
        run: its name; the run of the same name is opened at the gateway.
        at: which gateway, and how its backends get a version.
        registry: keeps the versions; line `line` has begun.
        line: their line.
        client: asks the gateway's route.
        token: its admin token.
        base: the folder of weights the run begins with.
        start: the adapter it goes on from; None for the base itself.
    """

    def __init__(
        self,
        run: str,
        at: GatewayAt,
        registry: Registry,
        line: str,
        client: Client,
        token: str,
        base: Path,
        start: Path | None = None,
    ) -> None:
        self._steps: dict[str, int] = {}
        self._newest: dict[int, str] = {}
        self._run, self._at, self._registry, self._line = run, at, registry, line
        self._client, self._token, self._folder = client, token, base
        known = registry.line(line)
        self._base = known.base
        self._plain = start is None
        if start is None:
            self._know(known.versions[0].name, 0)
        for version in known.versions:
            step = _step(run, version.key)
            if step is not None:
                self._know(version.name, step)
        if start is not None:
            self._know(self._register(start, 0).name, 0)

    @classmethod
    async def open(
        cls, run: str, at: GatewayAt, lake: str, base: Path, bundled: bool, start: Path | None = None
    ) -> GatewayPublisher:
        """Begin the line, open the run at the gateway.

        Args:
            run: its name.
            at: the gateway.
            lake: whose registry keeps the versions; made if missing.
            base: the folder of weights the run begins with.
            bundled: these are the bundled model's.
            start: the adapter it goes on from, if any.

        Raises:
            UsageError: no token, no such route, or the line began on another base.
            UnreachableError: the gateway cannot be reached, or refuses.
        """
        token = os.environ.get(at.admin_token_env, "")
        if not token:
            raise UsageError(f"gateway: its admin token is not in ${at.admin_token_env}: set it")
        line = at.line or run
        registry = await asyncio.to_thread(Registry.open, lake, make=True)
        name = MODEL if bundled else ""
        await asyncio.to_thread(registry.begin, line, base, name=name, by="online")
        async with GatewayAdmin(at.url, token) as admin:
            await admin.model(at.model)
        key, url = await _run_token(at.url, token, run)
        endpoint = Endpoint(url=url, model=at.model, token_ids=True, api_key_env="")
        client = Client(endpoint, api_key=key)
        return await asyncio.to_thread(cls, run, at, registry, line, client, token, base, start)

    @property
    def model(self) -> Model:
        """See `Publisher`."""
        return self._client

    async def publish(self, folder: Path, step: int) -> None:
        """See `Publisher`."""
        version = await asyncio.to_thread(self._register, folder, step)
        self._know(version.name, step)
        await self._serve(version, step)
        shutil.rmtree(folder, ignore_errors=True)

    async def restore(self, step: int) -> str:
        """See `Publisher`."""
        name = self._newest.get(step)
        if name is None:
            raise UsageError(f"run {self._run}: line {self._line} has no version of step {step}; publish one by hand")
        version = await asyncio.to_thread(lambda: self._registry.line(self._line).find(name))
        await self._serve(version, step)
        return f"{name} of model {self._at.model}"

    def number(self, version: str) -> int:
        """See `Publisher`; a backend may name its weights `NAME@DIGEST`, where NAME is the version's."""
        name, _, digest = version.partition("@")
        for known in (version, name):
            if known in self._steps:
                return self._steps[known]
        if self._plain and digest == self._base.digest:
            return 0
        raise ForeignVersion(
            f"a turn was drawn by version {version}, which run {self._run} did not publish as model {self._at.model} "
            "of its gateway"
        )

    async def confirm(self) -> None:
        """See `Publisher`."""
        async with GatewayAdmin(self._at.url, self._token) as admin:
            shown = (await admin.model(self._at.model)).get("version") or ""
        if shown not in self._steps:
            raise UsageError(
                f"run {self._run}: model {self._at.model} of the gateway serves {shown or 'none'}, which this run "
                "did not publish: another run or person changed it; give each run a model of its own, then go on with "
                "--resume"
            )

    async def close(self) -> None:
        """See `Publisher`."""
        await self._client.close()

    def _know(self, name: str, step: int) -> None:
        self._steps[name] = step
        self._newest[step] = name

    async def _serve(self, version: PolicyVersion, step: int) -> None:
        adapter, change = "", None
        if self._at.adapters is None:
            assert self._at.weights is not None
            given = (self._registry, version, self._at.command, self._at.weights, str(self._folder))
            change = await asyncio.to_thread(command_change, *given)
        elif version.kind != "base":  # which is what the backends serve where they are asked for no adapter
            placed = await asyncio.to_thread(materialise, self._registry, version, self._at.adapters)
            adapter = seen_as(placed, self._at.seen_as)
        async with GatewayAdmin(self._at.url, self._token) as admin:
            await publish(
                self._registry,
                version,
                admin,
                self._at.model,
                adapter=adapter,
                change=change,
                drain_seconds=self._at.drain_seconds,
                by="online",
                note=f"step {step} of {self._run}",
            )

    def _register(self, folder: Path, step: int) -> PolicyVersion:
        earlier = [each for each in self._registry.line(self._line).versions if _step(self._run, each.key) == step - 1]
        digest = WeightsFolder(folder).digest()
        return self._registry.register(
            self._line,
            folder,
            parent=earlier[-1].name if earlier else "",
            data=Data(runs=(self._run,)),
            by="online",
            note=f"step {step} of {self._run}",
            key=f"{self._run}/{step}/{digest}",
        )


def _step(run: str, key: str) -> int | None:
    """The step that a version's key names; None for one that this run did not register."""
    parts = key.split("/")
    return int(parts[1]) if len(parts) == 3 and parts[0] == run and parts[1].isdigit() else None


async def _run_token(url: str, token: str, run: str) -> tuple[str, str]:
    """The token of a run at the gateway, opened anew where it is there already, and where its calls go."""
    root = url.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=SECONDS)) as http,
            http.post(f"{root}/admin/runs", json={"run": run, "again": True}) as answer,
        ):
            said = msgspec.json.decode(await answer.read())
    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
        raise UnreachableError(
            f"gateway: run {run} cannot be opened ({type(error).__name__}); is it running?"
        ) from error
    if answer.status >= 300:
        message = said.get("error", {}).get("message", "") if isinstance(said, dict) else ""
        raise UnreachableError(f"gateway: run {run} cannot be opened: {message or answer.status}")
    return said["token"], said["base_url"]
