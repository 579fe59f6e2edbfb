"""Codex's headless stream: what `codex exec --json` prints, one event a line.

    item.completed (reasoning, agent_message, command_execution, …) ─▶ a reply and what came of it ─▶ Branches
    turn.completed (usage) ─▶ the last reply of the turn bears its cost          turn.failed, error ─▶ the outcome

The stream tells what Codex did, not what it was asked: there is no prompt, no tool definition and no model in it.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.calls import failed
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.twigs import ROOT, Branches, Ending
from silva.tree.formats.values import Row
from silva.tree.message import Json, Message, TextPart, ThinkingPart, ToolCall
from silva.tree.node import Author, Usage
from silva.tree.outcome import Boundary, Outcome, Status

KEPT = "codex"
_EVENTS = ("thread.", "turn.", "item.")
_ANSWERS = {"command_execution": "aggregated_output", "mcp_tool_call": "result"}
_CALLS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "todo_list", "collab_tool_call")


def is_event(value: Any) -> bool:
    """Whether the value is a line of the stream."""
    kind: Any = cast(Json, value).get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind.startswith(_EVENTS) and "payload" not in cast(Json, value)


class Stream:
    """The session while its events come in."""

    def __init__(self) -> None:
        self._branches = Branches()
        self._last = ROOT
        self._reply = ROOT
        """The reply that is being told; ROOT where the next item begins another."""
        self._thoughts: list[str] = []
        self._thread = ""
        self._outcome = Outcome(status=Status.COMPLETED)
        self._open: dict[str, Row] = {}
        """Items that were begun and not completed yet."""
        self._others: Counter[str] = Counter()
        self._line = 0

    @property
    def begun(self) -> bool:
        """Whether any event told of a turn."""
        return bool(self._branches.twigs or self._open)

    def take(self, row: Row) -> None:
        """One event.

        Raises:
            FormatError: with line and field.
        """
        self._line = self._line or row.line
        kind, item = row.text("type"), row.row("item")
        match kind:
            case "thread.started":
                self._thread = row.text("thread_id")
            case "item.started" | "item.updated":
                self._open[item.text("id")] = item
            case "item.completed":
                self._open.pop(item.text("id"), None)
                self._item(item)
            case "turn.completed":
                self._bill(row.row("usage"))
            case "turn.failed" | "error":
                said = row.row("error").text("message") if "error" in row else row.text("message")
                self._outcome = failed(Boundary.AGENT, said)
            case _:
                self._others[kind] += kind != "turn.started"

    def bundle(self, origin: Origin, name: str) -> Bundle:
        """The session's records; what was begun and never completed is told as it stood."""
        for item in self._open.values():
            self._item(item)
        self._open = {}
        if self._thoughts:
            self._said((), ())
        kept: Json = {"session": {"id": self._thread}, "branch": "main"}
        if self._others:
            kept["other_lines"] = dict(self._others)
        ending = Ending(agent="codex", outcome=self._outcome, attributes={KEPT: kept})
        return self._branches.grow(origin, lambda _leaf: ending, name, self._line, self._thread)

    def _item(self, item: Row) -> None:
        kind = item.text("type") or item.text("item_type")
        if kind == "reasoning":
            self._thoughts.append(item.text("text"))
        elif kind in ("agent_message", "assistant_message"):
            self._said((TextPart(text=item.text("text")),), ())
        elif kind in _CALLS:
            self._called(item, kind)
        else:
            self._others[f"item/{kind}"] += 1

    def _called(self, item: Row, kind: str) -> None:
        told = _ANSWERS.get(kind, "")
        rest = item.rest("id", "type", "item_type", "status", "exit_code", "error", told)
        own = item.text("id") or f"call_{len(self._branches.twigs)}"
        name = item.text("tool") if kind == "mcp_tool_call" and item.text("tool") else kind
        self._said((), (ToolCall(id=own, name=name, arguments=json.dumps(rest, ensure_ascii=False)),))
        answer: Any = item.value.get(told) if told else None
        kept: Json = item.rest("id", "type", "item_type", "aggregated_output", "result", *rest)
        if answer is None and not kept:
            return
        words = answer if isinstance(answer, str) else "" if answer is None else json.dumps(answer, ensure_ascii=False)
        message = Message(role="tool", parts=(TextPart(text=words),) if words else (), tool_call_id=own)
        self._last = self._branches.add(self._last, Turn(message=message, attributes={KEPT: kept} if kept else {}))
        self._reply = ROOT

    def _said(self, parts: tuple[TextPart, ...], calls: tuple[ToolCall, ...]) -> None:
        thoughts = tuple(ThinkingPart(text=text) for text in self._thoughts)
        self._thoughts = []
        if self._reply == ROOT or thoughts:
            message = Message(role="assistant", parts=(*thoughts, *parts), tool_calls=calls)
            self._last = self._reply = self._branches.add(self._last, Turn(message=message), author=Author.POLICY)
            return
        before = self._branches.twigs[self._reply].turn.message
        message = Message(role="assistant", parts=(*before.parts, *parts), tool_calls=(*before.tool_calls, *calls))
        self._branches.replace(self._reply, message=message)

    def _bill(self, usage: Row) -> None:
        path = self._branches.walk(self._last)
        reply = next((place for place in reversed(path) if self._branches.twigs[place].author is Author.POLICY), None)
        self._reply = ROOT
        if reply is None:
            return
        cached = usage.whole("cached_input_tokens")
        cost = Usage(
            prompt_tokens=usage.whole("input_tokens"),
            completion_tokens=usage.whole("output_tokens"),
            cached_tokens=cached,
        )
        self._branches.replace(reply, usage=cost)
