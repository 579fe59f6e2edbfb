"""A file of MCP servers and of tasks to be done with their tools.

    servers:
      shelf: {command: [python, shelf.py]}             # started in a sandbox that holds the file's folder
      far: {url: "http://127.0.0.1:8000/mcp"}          # one that runs already
    tasks:
      - id: tidy
        instruction: Put the red book on shelf 3.
        check: {after: {tool: where, arguments: {book: red}, expect: "shelf 3"}}

A check says by effect whether a task was done: `after` calls a tool when the agent has ended and looks at what it
says, `calls` must have been made, `answer` is found in the agent's last words. All that is given must hold.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from silva.errors import UsageError

_LARGEST = 8 << 20


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach a server. `command`: the program and its arguments; `python` is one that has the package mcp.
    `mounts`: folders of this machine that it may read; `network`: hosts it may reach; `variables`: its environment.
    `url`: of one that runs already; `headers` may name variables of the environment (`Bearer $TOKEN`)."""

    command: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    url: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of a tool. `arguments` that are given must be equal; `expect` is an expression found in its result."""

    tool: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    expect: str = ""


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a task is done."""

    answer: str = ""
    calls: tuple[Call, ...] = ()
    after: Call | None = None


class OneTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task. `split`: which it belongs to."""

    id: str
    instruction: str
    check: Check
    split: str = "test"


class TaskFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. Without tasks it is a set of tools for other environments (`silva rollout --tools`)."""

    servers: dict[str, Server]
    tasks: tuple[OneTask, ...] = ()


def read(path: Path) -> TaskFile:
    """The file, checked.

    Raises:
        UsageError: it cannot be read, or says what cannot be; the line says where.
    """
    import yaml

    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError(f"mcp: {path.name}: larger than {_LARGEST >> 20} MiB")
        found = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), TaskFile)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"mcp: {path.name}: cannot be read: {error}") from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise UsageError(f"mcp: {path.name}: {' '.join(str(error).split())}") from error
    for name, server in found.servers.items():
        if bool(server.command) == bool(server.url):
            raise UsageError(f"mcp: {path.name}: server {name}: give a command or a url")
        if not re.fullmatch(r"[A-Za-z0-9-]{1,32}", name):
            raise UsageError(f"mcp: {path.name}: server {name!r}: letters, digits and '-', at most 32")
    if not found.servers:
        raise UsageError(f"mcp: {path.name}: names no server")
    for task in found.tasks:
        if task.check == Check():
            raise UsageError(f"mcp: {path.name}: task {task.id}: check is empty: give answer, calls or after")
        for expression in (task.check.answer, task.check.after.expect if task.check.after else ""):
            try:
                re.compile(expression)
            except re.error as error:
                raise UsageError(
                    f"mcp: {path.name}: task {task.id}: {expression!r} is no expression: {error}"
                ) from error
    return found
