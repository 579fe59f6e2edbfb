"""OpenClaw itself: where it was installed, how it is configured and started, and how it ended, in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from silva.envs.gyms.openclaw_entry import NODE
from silva.errors import MissingError
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.result import Killed, Result
from silva.tree import Json

INSIDE = "/opt/openclaw/node_modules"
CONFIG = "/opt/desk/openclaw.json"
_WINDOW = 200_000
# What needs a daemon, another conversation or a way out of the sandbox; `gateway` can update OpenClaw.
_DENIED = ("gateway", "plugins", "sessions_spawn", "sessions_send", "subagents", "agents_wait", "portal", "terminal")
LIMITS = Limits(
    memory=4096 * MIB,
    processes=1024,
    cpus=2.0,
    disk=2048 * MIB,
    wall=3600.0,
    output=2 * MIB,
    flood=256 * MIB,
    open_files=1 << 16,
)


def installed() -> Path:
    """The folder `node_modules` of this environment's own installation.

    Raises:
        MissingError: it is not there.
    """
    folder = Path(sys.prefix) / "node_modules"
    for needed in ("node/bin/node", "openclaw/openclaw.mjs"):
        if not (folder / needed).exists():
            raise MissingError(f"openclaw: {needed} is not installed; run: silva envs install openclaw --again")
    return folder


def config(port: int, denied: tuple[str, ...] = _DENIED) -> Json:
    """Its configuration: one model, behind a port of the loopback; no updates, no skills but the workspace's."""
    model: Json = {
        "id": "agent",
        "name": "agent",
        "reasoning": False,
        "input": ["text"],
        "contextWindow": _WINDOW,
        "maxTokens": 8192,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    provider: Json = {
        "baseUrl": f"http://127.0.0.1:{port}/v1",
        "apiKey": "silva",
        "api": "openai-completions",
        "models": [model],
    }
    return {
        "models": {"mode": "merge", "providers": {"silva": provider}},
        "agents": {"defaults": {"model": {"primary": "silva/agent"}}},
        "tools": {"deny": list(denied)},
        "skills": {"allowBundled": ["none"]},
        "update": {"checkOnStart": False, "auto": {"enabled": False}},
    }


def command(prompt: str, seconds: float) -> list[str]:
    """What is executed inside."""
    node, program = f"{INSIDE}/node/bin/node", f"{INSIDE}/openclaw/openclaw.mjs"
    words = ["agent", "exec", prompt, "--config", CONFIG, "--cwd", "/workspace", "--json"]
    return [node, program, *words, "--timeout", str(max(1, int(seconds)))]


def session(prompt: str, seconds: float, name: str) -> list[str]:
    """What is executed inside for one prompt of a session by that name; `agent exec` begins a new one every time."""
    node, program = f"{INSIDE}/node/bin/node", f"{INSIDE}/openclaw/openclaw.mjs"
    words = ["agent", "--local", "--session-id", name, "--message", prompt, "--json"]
    return [node, program, *words, "--timeout", str(max(1, int(seconds)))]


STATE = "/tmp/home/.openclaw"
SESSIONS = {"OPENCLAW_CONFIG_PATH": CONFIG, "OPENCLAW_STATE_DIR": STATE, "OPENCLAW_WORKSPACE_DIR": "/workspace"}
"""Of the environment of an errand of several sessions: what `agent exec` is told by its options."""

VARIABLES = {"OPENCLAW_NO_AUTO_UPDATE": "1", "NODE_NO_WARNINGS": "1", "DO_NOT_TRACK": "1"}
"""Of its environment."""


def ending(done: Result) -> str:
    """What went wrong, in one line; "" where it ended as it should."""
    version = NODE[-1]
    if done.killed is Killed.TIME:
        return f"{version} hangs: it had not ended after {done.seconds:.0f} s and was ended"
    if done.killed is Killed.OUTPUT:
        return f"{version} floods: it printed {done.stdout_bytes + done.stderr_bytes} bytes and was ended"
    if done.killed is not None:
        return f"{version} was ended: {done.reason or done.killed.value}"
    if done.code == 0:
        return ""
    return f"{version} ended with code {done.code}: {_complaint(done)}"


def _complaint(done: Result) -> str:
    try:
        said = json.loads(done.text)
        error = said.get("error") or {}
        if error.get("message"):
            return " ".join(str(error["message"]).split())[:300]
    except (ValueError, AttributeError):
        pass
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    # What node says before a native trace of its own stack.
    fatal = [line.strip("# ") for line in lines if "fatal" in line.lower() or "out of memory" in line.lower()]
    errors = [line for line in lines if "error" in line.lower()]
    return (fatal[:1] or errors[-1:] or lines[-1:] or ["it said nothing"])[0][:300]
