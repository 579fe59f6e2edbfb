"""Verdict: what the tests of a task say of a sandbox as it is now.

    sandbox ─▶ checkpoint ─▶ a judge on a new sandbox from it ─▶ /tests, to be read ─▶ test.sh ─▶ /logs ─▶ reward

The agent's sandbox goes on untouched and never holds the tests. As in Harbor, test.sh says how good it is by writing a
number to /logs/verifier/reward.txt, or numbers by name to reward.json. What it starts of the agent's runs in a room of
its own (`silva.sandbox.judge`), where there are neither the tests nor the verdict nor who writes it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from silva.envs.gyms.terminal import tools_of_tests
from silva.envs.gyms.terminal.harbor import HarborFile, HarborTask, lay_out
from silva.envs.gyms.terminal.places import Places
from silva.errors import SilvaError, UsageError
from silva.sandbox.judge import Judge
from silva.sandbox.namespace import NamespaceSandbox
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Backend, Sandbox, Spec
from silva.sandbox.result import Result
from silva.tree import Record

_MOST_REWARD_BYTES = 64 << 10
_READ: dict[str, Callable[[str], Any]] = {"reward.txt": lambda text: float(text.strip()), "reward.json": json.loads}


class Verdict(Record, frozen=True, kw_only=True):
    """`reward`: 0 to 1. `rewards`: by name, where the tests name several. `killed`: why the tests were, or ""."""

    reward: float
    rewards: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    killed: str = ""


class NoReward(SilvaError):
    """The tests ended without saying how good it is: a fault of the task, not of the agent."""


async def judge(
    backend: Backend, spec: Spec, checkpoint: str, task: HarborTask, places: Places, instead: Sandbox | None = None
) -> Verdict:
    """Run a task's tests on what a checkpoint holds, where nothing that it holds can reach the verdict.

    Args:
        backend: where; one without isolation keeps nothing apart.
        spec: of the agent's sandbox.
        checkpoint: what is judged.
        task: whose tests.
        places: its paths.
        instead: the agent's sandbox, which ends by it, where its files could not be kept.

    Raises:
        NoReward: the tests wrote no reward, or none that makes sense, or their own Python was to run what is judged.
    """
    if not isinstance(backend, Namespaces):
        return await _judge_here(backend, spec, checkpoint, task, places)
    verifier = task.settings().verifier
    imports = bool(task.settings().metadata.get("silva", {}).get("imports"))
    taken = instead if isinstance(instead, NamespaceSandbox) else None
    async with await Judge.begin(backend, spec, at=checkpoint, instead=taken, imports=imports) as judging:
        tests = {path: places.file(file) for path, file in task.tests.items()}
        script = tests["test.sh"]
        tests["test.sh"] = HarborFile(content=tools_of_tests.told(script.content.decode(errors="replace")).encode())
        await asyncio.to_thread(tools_of_tests.laid_out, judging.tools)
        await asyncio.to_thread(lay_out, tests, judging.tests)
        done = await judging.run(
            ["/bin/bash", "--noprofile", "--norc", "/tests/test.sh"],
            seconds=verifier.timeout_sec,
            folder=places.folder,
            variables=verifier.env,
        )
        if done.killed:
            return Verdict(reward=0.0, killed=done.reason)
        if judging.imported:
            raise NoReward(
                f"task {task.name}: its tests' own Python imports {judging.imported}, which the agent may have written:"
                " have the tests start it as a program, or say [metadata.silva] imports = true in task.toml, and the"
                " verdict is only as true as the agent"
            )
        said = await asyncio.to_thread(_written, judging.logs / "verifier")
    return _told(task, done, said)


async def _judge_here(backend: Backend, spec: Spec, checkpoint: str, task: HarborTask, places: Places) -> Verdict:
    """Run them where nothing is isolated, so that nothing can be kept apart either."""
    verifier = task.settings().verifier
    async with await backend.create(spec, at=checkpoint) as copy:
        # Its own places lie elsewhere where nothing isolates it.
        own = Places(task=places.task, root=places.root, folder=places.folder, seen=await _seen(copy, places))
        base = f"/tmp/{secrets.token_hex(8)}"
        words = {"/tests": f"{base}/tests", "/logs/verifier": f"{base}/verifier", "/logs": f"{base}/logs"}
        with tempfile.TemporaryDirectory(prefix="silva-tests-") as scratch:
            lay_out({path: own.file(file, words) for path, file in task.tests.items()}, Path(scratch))
            await copy.put(Path(scratch), f"{base}/tests")
        made = await copy.exec(["mkdir", "-p", own.named(f"{base}/verifier"), own.named(f"{base}/logs")], seconds=30)
        if not made.ok:
            return Verdict(reward=0.0, killed=made.reason or "the sandbox has no room for the tests")
        # What the agent left in its home must not be imported by the tests' Python.
        environ = {"PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1", **verifier.env}
        done = await copy.exec(
            ["bash", "--noprofile", "--norc", own.named(f"{base}/tests/test.sh")],
            seconds=verifier.timeout_sec,
            folder=places.folder,
            variables=environ,
        )
        if done.killed:
            return Verdict(reward=0.0, killed=done.reason)
        said = await _reward(copy, f"{base}/verifier")
    return _told(task, done, said)


def _told(task: HarborTask, done: Result, said: Any) -> Verdict:
    if said is None:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = f"exit code {done.code}{f', {lines[-1][:200]}' if lines else ''}"
        raise NoReward(f"task {task.name}: tests/test.sh wrote no reward to /logs/verifier/reward.txt ({why})")
    return _verdict(task.name, said)


def _written(folder: Path) -> Any:
    """The reward that the tests wrote to a folder of this machine, as they wrote it; None for none. Raises NoReward."""
    for name, read in _READ.items():
        try:
            file = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with open(file, "rb") as reading:  # noqa: PTH123 - by its descriptor
            if stat.S_ISREG(os.fstat(file).st_mode):
                return _parsed(name, reading.read(_MOST_REWARD_BYTES), read)
    return None


def _parsed(name: str, content: bytes, read: Callable[[str], Any]) -> Any:
    try:
        return read(content.decode())
    except ValueError as error:
        raise NoReward(f"tests/test.sh: {name} is no reward: {error}") from error


async def _seen(sandbox: Sandbox, places: Places) -> dict[str, str]:
    if not places.seen:
        return {}
    said = (await sandbox.exec('printf "%s\\n" "$PWD" "$HOME" "$TMPDIR"', seconds=30)).text.splitlines()
    return dict(zip(("/workspace", "/home/agent", "/tmp"), said, strict=True))


async def _reward(sandbox: Sandbox, folder: str) -> Any:
    for name, read in _READ.items():
        try:
            content = await sandbox.get(f"{folder}/{name}", most=_MOST_REWARD_BYTES)
        except UsageError:
            continue
        return _parsed(name, content, read)
    return None


def _verdict(task: str, said: Any) -> Verdict:
    named = said if isinstance(said, dict) else {"reward": said}
    good = {
        name: float(value)
        for name, value in named.items()
        if isinstance(value, int | float) and math.isfinite(float(value))
    }
    if not named or len(good) != len(named):
        raise NoReward(f"task {task}: the reward {str(said)[:100]!r} is no number")
    overall = good["reward"] if "reward" in good else sum(good.values()) / len(good)
    return Verdict(reward=min(1.0, max(0.0, overall)), rewards=good if isinstance(said, dict) else {})
