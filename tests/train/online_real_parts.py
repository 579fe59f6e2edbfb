"""A tiny policy, a run of it, a gateway before a model server: what the tests of whole online runs are made of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from vowels import VOWELS

TOKEN = "admin-token-of-the-tests"


def write_home(folder: Path, loud: float = 1.0) -> Path:
    """A policy in `tiny`. `loud` multiplies its embeddings: above 1 it is sure of what it says."""
    from safetensors.numpy import load_file, save_file

    from silva.models.tiny import Shape, write_tiny
    from silva.tree import assistant, user

    shape = Shape(vocabulary=320, width=64, inner=96, layers=2, heads=4, key_heads=2, context=256)
    heard = [((user(f"Say {n}."), assistant("aeiou, and sometimes y")), ()) for n in range(6)]
    write_tiny(folder / "tiny", heard, shape, seed=1)
    if loud != 1.0:
        file = folder / "tiny" / "model.safetensors"
        tensors = load_file(file)
        for name in tensors:
            if "embed_tokens" in name or "lm_head" in name:
                tensors[name] = (tensors[name] * loud).astype(tensors[name].dtype)
        save_file(tensors, file, metadata={"format": "pt"})
    return folder


def settings(home: Path, output: Path, **fields: Any) -> Path:
    """A small run's configuration, beside its output folder."""
    values: dict[str, Any] = {
        "run": output.name,
        "output": str(output),
        "policy": {"weights": str(home / "tiny"), "method": "lora", "adapter": {"rank": 4}, "dtype": "float32"},
        "algorithm": {"name": "grpo"},
        "optimiser": {"learning_rate": 1e-3},
        "steps": 3,
        "batch": 2,
        "group": 3,
        "threads": 1,
        "serve": {"threads": 1},
        "rollout": {
            "env": f"{VOWELS}:Vowels",
            "lake": str(output.parent / "lake"),
            "pool": 6,
            "tasks": {"split": "train"},
            "sampling": {"max_tokens": 8},
        },
    }
    file = output.with_suffix(".yaml")
    file.write_text(yaml.safe_dump({**values, **fields}))
    return file


class GatewayProcess:
    """A gateway in a process of its own, before a server that holds adapters. It can be killed and begun again at the
    same address. The variables it needs are set by `environ`."""

    def __init__(self, home: Path, folder: Path) -> None:
        from silva.models.local.server import start_local

        self._folder, self._home = folder, home
        self.adapters = folder / "adapters"
        self.adapters.mkdir()
        self._server = start_local(1, 8, self.adapters, home / "tiny")
        self.environ = {"SILVA_ADMIN_TOKEN": TOKEN, "BACKEND_TOKEN": self._server.token}
        self._port = 0
        self.start()

    def start(self) -> None:
        """Begin it, again perhaps."""
        backend = {"url": self._server.url, "kind": "silva", "model": "tiny", "api_key_env": "BACKEND_TOKEN"}
        route = {"backends": [backend], "renderer": str(self._home / "tiny")}
        listen = {"port": self._port, "admin_token_env": "SILVA_ADMIN_TOKEN"}
        file = self._folder / "gateway.json"
        lake = str(self._folder / "gateway-lake")
        file.write_text(json.dumps({"lake": lake, "listen": listen, "models": {"policy": route}}))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "silva", "gateway", "--config", str(file)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environ},
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self._port = int(self.url.rpartition(":")[2])

    @property
    def at(self) -> dict[str, str]:
        """What a run's configuration says of it."""
        return {"url": self.url, "model": "policy", "adapters": str(self.adapters)}

    def version(self) -> str:
        """What it serves."""
        asked = urllib.request.Request(f"{self.url}/admin/models", headers={"authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)["models"][0]["version"]

    def kill(self) -> None:
        """End it without a word."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=30)

    def close(self) -> None:
        """End it, and the server behind it."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate(timeout=120)
        self._server.stop_now()


def begun(config: Path, environ: dict[str, str], *words: str) -> subprocess.Popen[str]:
    """`silva train online` in a process of its own."""
    command = [sys.executable, "-m", "silva", "train", "online", str(config), *words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, **environ}, **pipes)


def wait_for(path: Path, process: subprocess.Popen[str], seconds: float = 300.0) -> None:
    """Until a path is there."""
    until = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None and time.monotonic() < until, process.communicate(timeout=30)
        time.sleep(0.02)
