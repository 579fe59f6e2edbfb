"""Claude Code's headless stream: what `claude -p --output-format stream-json` prints, line by line.

    {"type": "assistant", "message": {…}, "parent_tool_use_id": …, "session_id": …} ─▶ the line a session file has

A line of the stream names no line before it: it follows the last one of its agent, which `parent_tool_use_id` tells
apart. The first line says what the session is, the last how it ended and what it cost.
"""

from __future__ import annotations

from typing import Any, cast

from silva.tree.formats.calls import failed
from silva.tree.formats.values import Row
from silva.tree.message import Json
from silva.tree.outcome import Boundary, Outcome, Status

_KINDS = ("assistant", "user", "system", "result", "stream_event", "control_request", "control_response")


def is_stream(value: Any) -> bool:
    """Whether the value is a line of a stream."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    told = "message" in row or "subtype" in row or "event" in row
    return row.get("type") in _KINDS and "session_id" in row and "sessionId" not in row and told


class Stream:
    """Gives the lines of a stream the links that a session file has."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._count = 0

    def line(self, row: Row) -> Row:
        """The line as a session file would have it."""
        value = dict(row.value)
        agent = row.text("parent_tool_use_id")
        self._count += 1
        uuid = row.text("uuid") or f"line-{self._count}"
        value |= {"sessionId": row.text("session_id"), "uuid": uuid}
        if row.text("type") in ("assistant", "user"):
            value |= {"parentUuid": self._last.get(agent), "isSidechain": bool(agent), "agentId": agent or None}
            self._last[agent] = uuid
        else:
            value.pop("uuid")
        return Row(value, row.name, row.line, row.field)


def outcome_of(row: Row) -> Outcome:
    """How the session ended, by its line `result`."""
    said = row.text("subtype")
    if said == "error_max_turns":
        return Outcome(status=Status.TRUNCATED)
    if row.flag("is_error") or said.startswith("error"):
        return failed(Boundary.AGENT, row.text("result") or said)
    return Outcome(status=Status.COMPLETED)
