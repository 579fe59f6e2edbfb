"""What is typed at an attached terminal, read: a line without a slash is said, one with it is an order.

/pause /resume /stop [WHY]        /forbid PATTERN [-- WHY]   /allow PATTERN
/back K [ACTION or WORDS]         /edit [K] ACTION           /approve [WHY]   /reject [WHY]
/good [K] [WHY]   /bad [K] [WHY]  /to [TASK, TRAJECTORY or *]   /help   /quit
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from silva.errors import UsageError

HELP = """\
Words are said to the agent. Orders: /pause /resume /stop [WHY], /back K [ACTION or WORDS], /edit [K] ACTION,
/approve [WHY], /reject [WHY], /forbid PATTERN [-- WHY], /allow PATTERN, /good [K] [WHY], /bad [K] [WHY],
/to [TASK, TRAJECTORY or *] (nothing: who there is), /help, /quit (the run goes on).
An ACTION is JSON ({"name": "tool", "arguments": {…}}); anything else after /back K is words for the agent."""


@dataclass(frozen=True, slots=True)
class Command:
    """One line: `kind` is a word's kind, or quit, help, to; `more` is what else goes with it."""

    kind: str
    more: dict[str, Any] = field(default_factory=dict[str, Any])


def command_of(line: str) -> Command | None:
    """Read a line; None where it is empty.

    Raises:
        UsageError: there is no such order, or it lacks something.
    """
    line = line.strip()
    if not line:
        return None
    if not line.startswith("/"):
        return Command("say", {"text": line})
    if line.startswith("//"):
        return Command("say", {"text": line[1:]})
    name, _, rest = line[1:].partition(" ")
    rest = rest.strip()
    match name:
        case "pause" | "resume" | "stop" | "approve" | "reject":
            return Command(name, {"why": rest})
        case "forbid" | "allow":
            pattern, _, why = rest.partition(" -- ")
            if not pattern.strip():
                raise UsageError(f"/{name} needs a pattern, such as /{name} rm -rf")
            return Command(name, {"pattern": pattern.strip(), "why": why.strip()})
        case "good" | "bad":
            turn, why = _numbered(rest)
            return Command(name, {"turn": turn, "why": why})
        case "back":
            turn, more = _numbered(rest)
            if not turn:
                raise UsageError("/back needs the turn to go back to, such as /back 3")
            return Command("back", {"turn": turn, "action" if more.startswith(("{", "[")) else "text": more})
        case "edit":
            turn, action = _numbered(rest)
            if not action:
                raise UsageError('/edit needs an action, such as /edit {"name": "tool", "arguments": {}}')
            return Command("edit", {"turn": turn, "action": action})
        case "to":
            return Command("to", {"to": rest})
        case "quit" | "exit":
            return Command("quit")
        case "help":
            return Command("help")
        case _:
            raise UsageError(f"there is no /{name[:40]}; /help lists them (a line that begins with // is said)")


def _numbered(text: str) -> tuple[int, str]:
    head, _, rest = text.partition(" ")
    return (int(head), rest.strip()) if head.isascii() and head.isdigit() and len(head) < 9 else (0, text)
