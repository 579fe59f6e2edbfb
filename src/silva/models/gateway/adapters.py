"""Loading a LoRA adapter into a backend under a version's name, so that it holds several versions at once, and taking
it out again.

vLLM and Silva's own server share the routes (`/v1/load_lora_adapter`); SGLang has its own.
"""

from __future__ import annotations

import aiohttp
import msgspec

from silva.models.failure import provider_message
from silva.models.gateway.problem import Problem
from silva.models.gateway.routing.backend import Backend

SECONDS = 300.0
"""How long a backend may take to load one."""
UNLOAD_SECONDS = 10.0
"""How long it may take to let go of one that nothing is in flight on."""

_PREFIX = {"vllm": "/v1", "silva": "/v1", "sglang": ""}


class NotThere(Problem):
    """A backend could not be asked at all."""


async def load_adapter(backend: Backend, version: str, folder: str) -> None:
    """Have a backend load an adapter; one it holds already under that name is left as it is.

    Raises:
        NotThere: it cannot be asked.
        Problem: it cannot load it, or holds no adapters at all.
    """
    body = {"lora_name": version, "lora_path": folder}
    if backend.kind == "silva":
        body["policy_version"] = version
    status, message = await _ask(backend, "load_lora_adapter", body, SECONDS)
    if status != 200 and "already" not in message.lower():
        raise Problem("upstream", f"backend {backend.name} did not load {version}: {message[:300]}")


async def unload_adapter(backend: Backend, version: str) -> None:
    """Have a backend let go of an adapter; one it does not hold is gone already.

    Raises:
        NotThere: it cannot be asked.
        Problem: it keeps it.
    """
    status, message = await _ask(backend, "unload_lora_adapter", {"lora_name": version}, UNLOAD_SECONDS)
    if status not in (200, 404) and "not loaded" not in message.lower():
        raise Problem("upstream", f"backend {backend.name} did not unload {version}: {message[:300]}")


async def _ask(backend: Backend, what: str, body: dict[str, str], seconds: float) -> tuple[int, str]:
    prefix = _PREFIX.get(backend.kind)
    if prefix is None:
        raise Problem("conflict", f"backend {backend.name} holds no adapters: pause, change what it serves, resume")
    url = f"{backend.url.removesuffix('/v1')}{prefix}/{what}"
    headers = {"Content-Type": "application/json", **backend.authorization()}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as http,
            http.post(url, data=msgspec.json.encode(body), headers=headers, allow_redirects=False) as response,
        ):
            data = await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        told = str(error) or type(error).__name__
        asked = f"{what.split('_', maxsplit=1)[0]} {body['lora_name']}"
        raise NotThere("upstream", f"backend {backend.name} could not be asked to {asked}: {told}") from error
    return response.status, provider_message(data)[0]
