"""Codex: the rollout files of OpenAI's command line. Read only.

    response_item lines ─▶ thoughts, words and calls of one reply are one turn ─▶ Branches
    thread_rolled_back  ─▶ the next turn is a branch          compacted ─▶ the context that took over is a branch

Usage comes from the token counts between the items; a `turn_context` names the model. Everything that is no item of the
conversation is counted under `attributes["codex"]`, and what the session says of itself is kept there. Older files,
whose items stand without an envelope, are read too, and so is what `codex exec --json` prints (`codex_stream`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.blocks import Reading, Said
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.codex_stream import Stream, is_event
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import ROOT, Branches, Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json, Message, Part, Role, TextPart, ThinkingPart, Tool, ToolCall
from silva.tree.node import Author, Usage
from silva.tree.run import Run

KEPT = "codex"
_CALLED = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call")
_ANSWERED = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output")
_ITEMS = ("message", "reasoning", *_CALLED, *_ANSWERED)
_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_NOISE = ("internal_chat_message_metadata_passthrough", "encrypted_content")


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a line of a rollout."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    if is_event(value):
        return True
    if row.get("type") in _LINES and isinstance(row.get("payload"), dict):
        return True
    # Files of 2025's first versions begin with the session, bare.
    return {"id", "timestamp", "instructions"} <= set(row) and "messages" not in row


def read(
    lines: Iterable[str | bytes], name: str = "rollout.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle: the session's, or the stream's.

    Args:
        lines: the file's lines, newlines kept.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    session, stream = _Session(load), Stream()
    for row in rows(lines, name):
        (stream if is_event(row.value) else session).take(row)
    for each in (session, stream):
        if each.begun:
            yield each.bundle(Origin(run=Run(id=run)), name)


class _Session:
    """A session while its lines come in."""

    def __init__(self, load: Loader | None) -> None:
        self._branches = Branches()
        self._reading = Reading(load, self._branches.blobs)
        self._last = ROOT
        self._reply: int | None = None
        """The reply that is being told: its items follow each other."""
        self._billed: int | None = None
        """The last reply, which the next count of tokens is about."""
        self._prompts: list[int] = []
        """Before which place each of the user's turns began, for a roll back."""
        self._model = ""
        self._about: Json = {}
        self._came_from = ""
        """The session that this one is a fork of."""
        self._others: Counter[str] = Counter()
        self._breaks: dict[int, Json] = {}
        self._tools: tuple[Tool, ...] = ()
        self._counted = False
        self._line = 0

    @property
    def begun(self) -> bool:
        """Whether any line was an item."""
        return bool(self._branches.twigs)

    def take(self, row: Row) -> None:
        """One line.

        Raises:
            FormatError: with line and field.
        """
        self._line = self._line or row.line
        kind = row.text("type")
        bare = "payload" not in row
        item = row if bare else row.row("payload")
        if bare and kind in _ITEMS:
            kind = "response_item"
        match kind:
            case "session_meta":
                self._meta(item)
            case "" if "id" in row:
                self._meta(row)
            case "response_item":
                self._item(item, row.moment("timestamp"))
            case "event_msg":
                self._event(item)
            case "turn_context":
                self._model = item.text("model") or self._model
                self._others[kind] += 1
            case "token_usage_record":
                self._bill(item.row("usage"))
            case "compacted":
                self._compacted(item, row.moment("timestamp"))
            case _:
                self._others[kind or "without a type"] += 1

    def bundle(self, origin: Origin, name: str) -> Bundle:
        """The session's records."""
        if self._tools:
            self._branches.replace(0, tools=self._tools)
        own: Any = self._about.get("id")
        own = own if isinstance(own, str) else ""
        return self._branches.grow(origin, self._ending, name, self._line, self._came_from or own, own)

    def _ending(self, leaf: int) -> Ending:
        kept: Json = {"session": self._about}
        for place in self._branches.walk(leaf):
            if place in self._breaks:
                kept |= self._breaks[place]
        kept["branch"] = "main" if leaf == self._last else "left"
        if self._others:
            kept["other_lines"] = dict(self._others)
        return Ending(agent="codex", attributes={KEPT: kept})

    def _meta(self, item: Row) -> None:
        if self._about:  # a fork repeats the session that it came from, whose turns are the same turns
            self._others["session_meta"] += 1
            self._came_from = item.text("id") or self._came_from
            return
        self._came_from = item.text("forked_from_id")
        self._about = item.rest("base_instructions", "instructions", "dynamic_tools")
        given: Any = item.value.get("base_instructions") or item.value.get("instructions")
        words: Any = cast(Json, given).get("text") if isinstance(given, dict) else given
        if isinstance(words, str) and words:
            message = Message(role="system", parts=(TextPart(text=words),))
            self._add(message, item.moment("timestamp"), {"instructions": True})
        found: list[Tool] = []
        for tool in item.rows("dynamic_tools"):
            schema = tool.row("inputSchema" if "inputSchema" in tool else "parameters").value
            found.append(Tool(name=tool.text("name"), description=tool.text("description"), parameters=schema))
        self._tools = tuple(found)

    def _item(self, item: Row, started: float) -> None:
        kind = item.text("type")
        match kind:
            case "message":
                role = self._reading.role(item)
                if role != "assistant":
                    self._words(item, role, started)
                else:
                    said = self._reading.said(role, item, "content")
                    self._more(said[0].message.parts, (), started, self._kept(item, "content", "role"))
            case "reasoning":
                self._more(_thoughts(item), (), started, {})
            case _ if kind in _CALLED:
                self._more((), (_call(item, kind),), started, {} if kind == "function_call" else {"kind": kind})
            case _ if kind in _ANSWERED:
                self._output(item, kind, started)
            case _:
                self._others[f"response_item/{kind}"] += 1

    def _words(self, item: Row, role: Role, started: float) -> None:
        for said in self._reading.said(role, item, "content"):
            shown = said.message.text.lstrip()
            typed = role == "user" and not shown.startswith("<") and "# AGENTS.md" not in shown[:20]
            if typed:
                self._prompts.append(self._last)
            kept = {**self._kept(item, "content", "role"), **said.kept}
            self._add(said.message, started, kept, Author.PERSON if typed else None)

    def _more(self, parts: tuple[Part, ...], calls: tuple[ToolCall, ...], started: float, kept: Json) -> None:
        """More of the reply that is being told, or a new one."""
        if self._reply is None:
            self._add(Message(role="assistant"), started, {})
            self._reply = self._billed = self._last
            self._counted = False
            self._branches.replace(self._last, model=self._model)
        turn = self._branches.twigs[self._reply].turn
        before = turn.message
        message = Message(role="assistant", parts=(*before.parts, *parts), tool_calls=(*before.tool_calls, *calls))
        attributes: Json = turn.attributes
        if kept:
            given: Json = attributes.get(KEPT, {})
            attributes = {KEPT: {**given, **kept}}
        self._branches.replace(self._reply, message=message, attributes=attributes)

    def _output(self, item: Row, kind: str, started: float) -> None:
        value: Any = item.value.get("output", item.value.get("tools"))
        if isinstance(value, dict):
            inner = cast(Json, value)
            value = inner.get("content_items") or inner.get("content")
        kept = self._kept(item, "output", "call_id", "tools")
        if kind not in ("function_call_output",):
            kept["kind"] = kind
        if isinstance(value, list) and kind == "tool_search_output":
            value = json.dumps(value, ensure_ascii=False)
        told = item.inside("", {"output": value})
        parts, more = self._reading.parts(told, "output")
        message = Message(role="tool", parts=parts, tool_call_id=item.text("call_id") or None)
        self._add(message, started, {**kept, **more})

    def _add(self, message: Message, started: float, kept: Json, author: Author | None = None) -> None:
        attributes: Json = {KEPT: kept} if kept else {}
        turn = Turn(message=message, started=started, attributes=attributes)
        self._last = self._branches.add(self._last, turn, author=author)
        self._reply = None

    def _event(self, item: Row) -> None:
        kind = item.text("type")
        if kind == "token_count":
            if not self._counted:
                self._bill(item.row("info").row("last_token_usage"))
            return
        if kind == "thread_rolled_back":
            turns = item.whole("num_turns")
            if turns and self._prompts:
                self._last = self._prompts[max(0, len(self._prompts) - turns)]
                del self._prompts[-turns:]
                self._reply = self._billed = None
        elif kind == "turn_aborted":
            self._breaks.setdefault(self._last, {})["aborted"] = item.text("reason") or True
            self._reply = None
        self._others[f"event_msg/{kind}"] += 1

    def _bill(self, usage: Row) -> None:
        if self._billed is None or not usage.value:
            return
        self._counted = True
        self._branches.replace(
            self._billed,
            usage=Usage(
                prompt_tokens=usage.whole("input_tokens"),
                completion_tokens=usage.whole("output_tokens"),
                cached_tokens=usage.whole("cached_input_tokens"),
            ),
        )
        # What comes after the bill is of the next reply.
        self._reply = None

    def _compacted(self, item: Row, started: float) -> None:
        """The context that took over: what it shares with the start of the walk is shared, the rest is a branch."""
        self._others["compacted"] += 1
        before, path = self._last, self._branches.walk(self._last)
        instructed = path[:1] if path and "instructions" in self._kept_of(path[0]) else []
        self._last, self._reply, self._prompts = instructed[0] if instructed else ROOT, None, []
        history = item.rows("replacement_history")
        found: list[Said] = []
        for each in history:
            if each.text("type") == "message":
                found += self._reading.said(self._reading.role(each), each, "content")
            else:
                self._others[f"replacement_history/{each.text('type')}"] += 1
        if item.text("message") and not history:
            found.append(Said(Message(role="user", parts=(TextPart(text=item.text("message")),)), {}))
        for number, said in enumerate(found):
            known = self._branches.same(self._last, said.message)
            if known is not None and known not in path:
                known = None
            if known is None:
                last = number == len(found) - 1
                author = Author.SUMMARISER if last else None
                self._add(said.message, started, said.kept, author)
            else:
                self._last = known
        if self._last != before:
            self._breaks[self._last] = {"compacted": item.text("message") or True}

    def _kept(self, item: Row, *known: str) -> Json:
        return item.rest("type", "status", *_NOISE, *known)

    def _kept_of(self, place: int) -> Json:
        return cast(Json, self._branches.twigs[place].turn.attributes.get(KEPT, {}))


def _thoughts(item: Row) -> tuple[Part, ...]:
    said = [part.text("text") for part in (*item.rows("summary"), *item.rows("content"))]
    signature = item.text("encrypted_content") or None
    if not said:
        return (ThinkingPart(text="", signature=signature),) if signature else ()
    return tuple(
        ThinkingPart(text=text, signature=signature if place == 0 else None) for place, text in enumerate(said)
    )


def _call(item: Row, kind: str) -> ToolCall:
    own = item.text("call_id") or item.text("id") or "call"
    if kind == "custom_tool_call":
        # Free text, not JSON: the record keeps the call's words as they were sampled.
        return ToolCall(id=own, name=item.text("name"), arguments=item.text("input"))
    if kind == "function_call" or "arguments" in item:
        given: Any = item.value.get("arguments")
        said = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
        return ToolCall(id=own, name=item.text("name") or kind, arguments=said)
    return ToolCall(id=own, name=kind.removesuffix("_call"), arguments=json.dumps(item.row("action").value))
