"""What an agent did to its world, read from its turns: terminals, files changed, searches made.

walk ─▶ turns (silva.curate.turn) ─▶ calls by kind (silva.curate.mask.kinds) ─┬▶ terminal: command, what it printed
                                                                             ├▶ file: a diff
                                                                             └▶ search: what for, what was found

A diff has the lines' numbers in the file where what the file held is known: it was written in an earlier turn. Where it
is not, an edit shows what it replaced, without numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from silva.console.diff import changes
from silva.console.marking import ansi
from silva.curate.mask.kinds import PATHS, Kinds, command_of
from silva.curate.turn import Call, Turn, read_walk
from silva.tree import Node

MOST = 20_000
"""Characters of one entry."""
_KINDS = Kinds()
_SEARCH = re.compile(r"(^|[_-])(search|grep|find|query|lookup)([_-]|$)|search", re.IGNORECASE)
_SHELL_SEARCH = re.compile(r"^\s*(?:\w+=\S+\s+)*(grep|rg|find|ag|ack|git\s+grep)\b")
_TERMINAL = re.compile(r"session|shell|bash|terminal|command|exec", re.IGNORECASE)


def work(nodes: Iterable[Node], after: int = 0) -> dict[str, Any]:
    """What was done in a walk (root first), in its turns after `after`.

    Returns:
        `turns`, how many there are, and the entries of `terminals`, `files` and `searches`, each with its turn.
    """
    terminals: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []
    searches: list[dict[str, Any]] = []
    contents: dict[str, str] = {}
    turns = read_walk(nodes).turns
    for turn in turns:
        for call, made in zip(turn.calls, turn.action.message.tool_calls, strict=True):
            answer = _answer(turn, made.id)
            place = {"turn": turn.number, "node": turn.action.id, "failed": answer.lower().startswith("error")}
            changed = _changed(call, contents, place)
            if turn.number <= after:
                continue
            files += changed
            command = command_of(call)
            if _SEARCH.search(call.name) or (_KINDS.of(call.name) == "run" and _SHELL_SEARCH.match(command)):
                searches.append({**place, "what": _what(call, command), "tool": call.name, "found": _cut(answer)})
            if _KINDS.of(call.name) == "run" or _TERMINAL.search(call.name):
                session = str((call.arguments or {}).get("session", "main"))
                typed = command or str((call.arguments or {}).get("key", ""))
                terminals.append(
                    {
                        **place,
                        "session": session,
                        "tool": call.name,
                        "command": _cut(typed),
                        "output": _cut(answer),
                        "lines": ansi(_cut(answer)),
                        "at": turn.action.started,
                    }
                )
    return {"turns": len(turns), "terminals": terminals, "files": files, "searches": searches}


def _changed(call: Call, contents: dict[str, str], place: dict[str, Any]) -> list[dict[str, Any]]:
    arguments = call.arguments or {}
    kind = _KINDS.of(call.name)
    path = next((str(arguments[name]) for name in PATHS if isinstance(arguments.get(name), str)), "")
    if kind == "write" and path:
        text = next((str(arguments[n]) for n in ("text", "content", "contents", "file_text") if n in arguments), "")
        before = contents.get(path, "")
        if not place["failed"]:
            contents[path] = text
        return [{**place, "path": path, "how": "written", "numbered": True, "diff": changes(before, text)}]
    if kind == "edit" and path:
        old = next((str(arguments[n]) for n in ("old", "old_str", "old_string", "search") if n in arguments), "")
        new = next((str(arguments[n]) for n in ("new", "new_str", "new_string", "replace") if n in arguments), "")
        before = contents.get(path)
        numbered = before is not None and bool(old) and old in before
        if numbered:
            after = str(before).replace(old, new, -1 if arguments.get("replace_all") else 1)
            if not place["failed"]:
                contents[path] = after
            old, new = str(before), after
        else:
            contents.pop(path, None)
        return [{**place, "path": path, "how": "edited", "numbered": numbered, "diff": changes(old, new, numbered)}]
    if kind == "run":
        paths = sorted(_KINDS.edited(call) | _KINDS.written(call))
        command = _cut(command_of(call))
        for each in paths:
            contents.pop(each, None)  # what it holds now is not known
        return [{**place, "path": each, "how": "by a command", "command": command, "diff": []} for each in paths]
    return []


def _answer(turn: Turn, id: str) -> str:
    for node in turn.answers:
        if node.message.tool_call_id == id:
            return node.message.text
    return turn.observation if len(turn.action.message.tool_calls) == 1 else ""


def _what(call: Call, command: str) -> str:
    arguments = call.arguments or {}
    named = next((str(arguments[n]) for n in ("pattern", "query", "q", "term", "text") if n in arguments), "")
    where = next((f" in {arguments[name]}" for name in PATHS if isinstance(arguments.get(name), str)), "")
    return _cut(f"{named}{where}" if named else command or call.name)


def _cut(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}\n… {len(text) - MOST:,} characters more"
