"""SWE-agent and mini-SWE-agent: the trajectory file of one task (`.traj`, `.traj.json`). Read only.

    history (else trajectory: response, observation) ─▶ messages ─▶ one walk       info ─▶ outcome, cost, patch

Both count calls and dollars in `info.model_stats`; mini keeps each provider's reply under `extra.response`, so there
every turn has its own usage. A run that was submitted is complete, one that a limit ended is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.calls import failed
from silva.tree.formats.dialogue import Utterance, grow_dialogue
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json
from silva.tree.node import Usage
from silva.tree.outcome import Boundary, Outcome, Status

KEPT = "swe-agent"
_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "tool_call_ids", "name", "reasoning_content")
_LIMITS = ("limit", "cost", "context", "timeout", "exceeded", "budget")


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a trajectory of SWE-agent or of mini-SWE-agent."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    if isinstance(row.get("trajectory"), list) and ("history" in row or "info" in row):
        return True
    info: Any = row.get("info")
    return isinstance(row.get("messages"), list) and isinstance(info, dict) and "exit_status" in info


def read(
    lines: Iterable[str | bytes], name: str = "task.traj", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each trajectory.

    Args:
        lines: the file's lines.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    for row in rows(lines, name):
        key = "messages" if "messages" in row else "history" if "history" in row else "trajectory"
        if key not in row:
            raise row.error("trajectory", "required field is missing")
        said = _steps(row) if key == "trajectory" else [_message(each) for each in row.rows(key)]
        info = row.row("info")
        stats = info.row("model_stats")
        total = sum((each.usage for each in said), Usage())
        spent = stats.number("instance_cost") or 0.0
        usage = Usage(
            prompt_tokens=stats.whole("tokens_sent") or total.prompt_tokens,
            completion_tokens=stats.whole("tokens_received") or total.completion_tokens,
            cached_tokens=total.cached_tokens,
            usd=spent or total.usd,
        )
        kept = {**row.rest("messages", "history", "trajectory", "info"), "info": info.value}
        agent = "mini-swe-agent" if key == "messages" else "swe-agent"
        ending = Ending(agent=agent, outcome=_outcome(info), usage=usage, attributes={KEPT: kept})
        yield grow_dialogue(said, ending, row, KEPT, run, load, row.text("instance_id"))


def _outcome(info: Row) -> Outcome:
    said = info.text("exit_status")
    lower = said.lower()
    if not said or lower.startswith("submitted"):
        return Outcome(status=Status.COMPLETED)
    if any(word in lower for word in _LIMITS):
        return Outcome(status=Status.TRUNCATED)
    return failed(Boundary.AGENT, said)


def _message(row: Row) -> Utterance:
    role = row.text("role")
    message: Json = {key: row.value[key] for key in _FIELDS if row.value.get(key) is not None}
    answered = message.pop("tool_call_ids", None)
    if isinstance(answered, list) and answered and "tool_call_id" not in message:
        message["tool_call_id"] = cast(list[Any], answered)[0]
    if role == "exit":  # mini says at the end what was submitted
        message["role"] = "user"
    extra = row.row("extra") if isinstance(row.value.get("extra"), dict) else row.inside("extra", {})
    reply = extra.row("response") if isinstance(extra.value.get("response"), dict) else extra.inside("response", {})
    told = reply.row("usage")
    usage = Usage(
        prompt_tokens=told.whole("prompt_tokens"),
        completion_tokens=told.whole("completion_tokens"),
        cached_tokens=told.row("prompt_tokens_details").whole("cached_tokens"),
        usd=extra.number("cost") or 0.0,
    )
    kept = row.rest(*_FIELDS, "extra", "response")
    kept |= {"extra": extra.rest("response")} if extra.rest("response") else {}
    model = str(reply.value.get("model") or "")
    return Utterance(message, usage, extra.moment("timestamp"), model, kept=kept)


def _steps(row: Row) -> list[Utterance]:
    found: list[Utterance] = []
    for step in row.rows("trajectory"):
        kept = step.rest("response", "observation", "query", "messages")
        found.append(Utterance({"role": "assistant", "content": step.text("response")}, kept=kept))
        found.append(Utterance({"role": "user", "content": step.text("observation")}))
    return found
