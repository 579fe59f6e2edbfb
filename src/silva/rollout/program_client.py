"""How a program's own client of MCP is told where Silva serves it tools: a table, a row a program.

    command ─ client_of ─▶ Client ─ told ─▶ files in the program's home, variables in its environment

A row says which files lie where in the home, with `$url` and `$token` in the place of the address and of the token that
is good for this rollout. A program without a row finds both in its variables, and in a file of the form that most
clients read: `$SILVA_MCP_URL`, `$SILVA_MCP_TOKEN`, `$SILVA_MCP_CONFIG`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from string import Template

from silva.errors import UsageError

NAME = "silva"
"""How the server is called in a client's configuration; many clients put it before the names of tools."""
CONFIG = "mcp.json"
"""The file that is written for every program, in its home."""

_REMOTE = '{"mcpServers": {"silva": {"type": "http", "url": "$url", "headers": {"Authorization": "Bearer $token"}}}}'
_HTTP_URL = (
    '{"mcpServers": {"silva": {"httpUrl": "$url", "headers": {"Authorization": "Bearer $token"}, "trust": true}}}'
)


@dataclass(frozen=True, slots=True)
class Client:
    """One program: the names that its commands have, its configuration's files in its home, or why it has none."""

    name: str
    commands: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    why: str = ""


CLIENTS = (
    Client(
        "claude",
        ("claude", "claude-code"),
        {".claude.json": _REMOTE, ".claude/settings.json": '{"permissions": {"allow": ["mcp__silva"]}}'},
    ),
    Client(
        "codex",
        ("codex",),
        {".codex/config.toml": '[mcp_servers.silva]\nurl = "$url"\nbearer_token_env_var = "SILVA_MCP_TOKEN"\n'},
    ),
    Client(
        "opencode",
        ("opencode",),
        {
            ".config/opencode/opencode.json": '{"mcp": {"silva": {"type": "remote", "url": "$url", "enabled": true, '
            '"oauth": false, "headers": {"Authorization": "Bearer $token"}}}}'
        },
    ),
    Client(
        "openclaw",
        ("openclaw",),
        {
            ".openclaw/openclaw.json": '{"mcp": {"servers": {"silva": {"url": "$url", "transport": "streamable-http", '
            '"headers": {"Authorization": "Bearer $token"}}}}}'
        },
    ),
    Client("qwen", ("qwen", "qwen-code"), {".qwen/settings.json": _HTTP_URL}),
    Client("gemini", ("gemini", "gemini-cli"), {".gemini/settings.json": _HTTP_URL}),
    Client("mini-swe-agent", ("mini", "mini-swe-agent"), why="it acts by a shell alone"),
    Client("aider", ("aider",), why="it edits files and calls no tools"),
)
"""The programs whose configuration is known."""


def client_of(command: Sequence[str], given: str | Mapping[str, str] = "") -> Client:
    """The client of a program: the row that the configuration names, its own files, or what the command is called.

    Raises:
        UsageError: there is no such row, or the program has no client of MCP.
    """
    if not isinstance(given, str):
        return Client("its own", (), {name: Template(text).template for name, text in given.items()})
    known = {row.name: row for row in CLIENTS}
    if given and given not in known:
        raise UsageError(f"program.client {given!r}: there are {', '.join(known)}; or give its files: {{FILE: TEXT}}")
    called = [PurePosixPath(word).name.split(".")[0] for word in command if "{" not in word]
    found = known.get(given) or next((row for word in called for row in CLIENTS if word in row.commands), None)
    if found is not None and found.why:
        raise UsageError(
            f"tools: {found.name} has no client of MCP ({found.why}): use another program, or tools, react"
        )
    return found or Client("any", ())


def written(client: Client, url: str, token: str) -> dict[str, str]:
    """The files in the home of a program, by their places, that tell its client of the server."""
    texts = {CONFIG: _REMOTE, **client.files}
    return {name: Template(text).safe_substitute(url=url, token=token) for name, text in texts.items()}


def variables(home: str, url: str, token: str) -> dict[str, str]:
    """The variables that tell a program of the server."""
    return {"SILVA_MCP_URL": url, "SILVA_MCP_TOKEN": token, "SILVA_MCP_CONFIG": f"{home}/{CONFIG}"}
