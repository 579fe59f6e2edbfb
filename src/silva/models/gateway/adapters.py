"""Loading a LoRA adapter into a backend under a version's name, so that it holds several versions at once.

vLLM and Silva's own server share the route (`/v1/load_lora_adapter`); SGLang has its own.
"""

from __future__ import annotations

import os

import aiohttp
import msgspec

from silva.models.failure import provider_message
from silva.models.gateway.problem import Problem
from silva.models.gateway.routing.backend import Backend

SECONDS = 300.0
"""How long a backend may take to load one."""


async def load_adapter(backend: Backend, version: str, folder: str) -> None:
    """Have a backend load an adapter; one it holds already under that name is left as it is.

    Raises:
        Problem: it cannot, or holds no adapters at all.
    """
    root = backend.url.removesuffix("/v1")
    if backend.kind in ("vllm", "silva"):
        url, body = f"{root}/v1/load_lora_adapter", {"lora_name": version, "lora_path": folder}
        if backend.kind == "silva":
            body["policy_version"] = version
    elif backend.kind == "sglang":
        url, body = f"{root}/load_lora_adapter", {"lora_name": version, "lora_path": folder}
    else:
        raise Problem("conflict", f"backend {backend.name} holds no adapters: pause, change what it serves, resume")
    key = backend.token or (os.environ.get(backend.api_key_env) if backend.api_key_env else None)
    headers = {"Content-Type": "application/json", **backend.headers}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as http,
            http.post(url, data=msgspec.json.encode(body), headers=headers, allow_redirects=False) as response,
        ):
            data = await response.read()
    except (aiohttp.ClientError, OSError) as error:
        raise Problem("upstream", f"backend {backend.name} could not be asked to load {version}: {error}") from error
    if response.status != 200:
        message, _ = provider_message(data)
        if "already" in message.lower():
            return
        raise Problem("upstream", f"backend {backend.name} did not load {version}: {message[:300]}")
