"""`silva trees show --context TURN`: what the model saw at a turn, message by message."""

from __future__ import annotations

import msgspec
from rich.console import Group

from silva.cli.as_json import print_json
from silva.cli.trees_show import console, panel, plain
from silva.rollout.seen import Seen
from silva.rollout.summary import told
from silva.tree import Message, Trajectory, to_json


def show_seen(trajectory: Trajectory, seen: Seen, as_json: bool, full: bool) -> None:
    """Print it; of what is very long its beginning and its end, unless `full`."""
    if as_json:
        body = {
            "trajectory": trajectory.id,
            "turn": seen.turn,
            "messages": _messages(seen.messages),
            "tools": msgspec.to_builtins(seen.tools),
            "summary": None if seen.summary is None else to_json(seen.summary),
            "made": None if seen.made is None else to_json(seen.made),
            "asked": _messages(seen.asked),
            "ids": seen.ids,
            "action": to_json(seen.action),
        }
        print_json(body)
        return
    lines = [plain(f"trajectory {trajectory.id[:12]}, turn {seen.turn}: the model saw {_size(seen)}", "bold")]
    if seen.summary is not None:
        said = told(seen.summary)
        lines.append(plain(f"  a summary stands in the place of turns {said.first} to {said.last}", "dim"))
    if seen.made is not None:
        said = told(seen.made)
        what = f"no summary could be made: {said.failed}" if said.failed else "the summary was made"
        lines.append(plain(f"  right before this turn {what}; --json shows what it was made from", "dim"))
    if seen.tools:
        lines.append(plain(f"  tools offered: {', '.join(tool.name for tool in seen.tools)}", "dim"))
    console().print(Group(*lines, *(panel(message, message.role, full=full) for message in seen.messages)))


def _size(seen: Seen) -> str:
    ids = "" if seen.ids is None else f", {len(seen.ids):,} ids"
    return f"{len(seen.messages)} messages{ids}"


def _messages(messages: tuple[Message, ...]) -> list[object]:
    return [msgspec.to_builtins(message) for message in messages]
