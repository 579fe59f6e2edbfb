"""Whether an errand was done, and what harm was done: a task's own Python, run in a judge's sandbox.

    grade(transcript, workspace_path[, services]) ─▶ criteria in [0, 1]      risk(…) ─▶ harms in [0, 1]

The judge's sandbox holds the workspace as the agent left it; the checks, the transcript and the services' state are
where the agent never was, and its own Pythons import nothing of what the agent wrote.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from silva.envs.gyms.openclaw.task import Errand
from silva.sandbox.judge import LOGS, TESTS, Judge
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import WORKSPACE, Spec
from silva.tree import Json, Message, Record

SECONDS = 120.0
_MOST = 1 << 20
_RUNNER = """
import inspect, json, sys, traceback
def told(name):
    with open("TESTS/" + name + ".json", encoding="utf-8") as file:
        return json.load(file)
transcript, services, result = told("transcript"), told("services"), {}
for part in ("grade", "risk"):
    with open("TESTS/" + part + "_checks.py", encoding="utf-8") as file:
        source = file.read()
    if not source.strip():
        continue
    try:
        known = {"__name__": part}
        exec(compile(source, f"{part}.py", "exec"), known)
        function = known[part]
        given = [transcript, "/workspace", services][: len(inspect.signature(function).parameters)]
        result[part] = {str(name): float(value) for name, value in function(*given).items()}
    except Exception:
        result["error"] = part + "(): " + traceback.format_exc().strip().splitlines()[-1]
with open("LOGS/result.json", "w") as file:
    json.dump(result, file)
"""


class Verdict(Record, frozen=True, kw_only=True):
    """What the checks said: the criteria, the harms, and what went wrong in a check ("" where nothing)."""

    criteria: dict[str, float]
    harms: dict[str, float]
    error: str = ""


def transcript(messages: list[Message]) -> list[Json]:
    """The conversation as PinchBench's checks read it."""
    names = {made.id: made.name for message in messages for made in message.tool_calls}
    lines: list[Json] = []
    for message in messages:
        if message.role == "system":
            continue
        content: list[Json] = [{"type": "text", "text": message.text}] if message.text else []
        said: Json = {"role": "toolResult" if message.role == "tool" else message.role, "content": content}
        if message.role == "tool":
            said |= {"toolCallId": message.tool_call_id, "toolName": names.get(message.tool_call_id or "", "")}
        for made in message.tool_calls:
            try:
                arguments: Any = made.parsed()
            except ValueError:
                arguments = {}
            # Both names are used, by one version of OpenClaw and another.
            content.append(
                {"type": "toolCall", "id": made.id, "name": made.name, "arguments": arguments, "params": arguments}
            )
        lines.append({"type": "message", "message": said})
    return lines


async def judged(
    backend: Namespaces, errand: Errand, workspace: Path, messages: list[Message], services: Json
) -> Verdict:
    """Run the checks of an errand.

    Raises:
        MissingError: no judge can be had here.
    """
    async with await Judge.begin(backend, Spec(writable={workspace: WORKSPACE}), imports=False) as judge:
        given = {
            "grade_checks.py": errand.grade,
            "risk_checks.py": errand.risk,
            "transcript.json": json.dumps(transcript(messages)),
            "services.json": json.dumps(services),
            "run_checks.py": _RUNNER.replace("TESTS", TESTS).replace("LOGS", LOGS),
        }
        for name, text in given.items():
            await asyncio.to_thread((judge.tests / name).write_text, text, "utf-8")
        done = await judge.run(["/usr/bin/python3", f"{TESTS}/run_checks.py"], seconds=SECONDS)
        said = await asyncio.to_thread(_read, judge.logs / "result.json")
        imported = judge.imported
    if imported:
        return Verdict(criteria={}, harms={}, error=f"a check imports what the agent wrote ({imported})")
    if said is None:
        why = done.reason or done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"code {done.code}"
        return Verdict(criteria={}, harms={}, error=f"the checks gave no result: {why[:200]}")
    criteria = {name: min(1.0, max(0.0, value)) for name, value in (said.get("grade") or {}).items()}
    harms = {name: min(1.0, max(0.0, value)) for name, value in (said.get("risk") or {}).items()}
    return Verdict(criteria=criteria, harms=harms, error=said.get("error", ""))


def _read(path: Path) -> Json | None:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST:
        return None
    try:
        said = json.loads(path.read_text("utf-8"))
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
