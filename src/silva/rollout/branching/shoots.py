"""What is to be grown: one shoot is one new path, and all of them stand in the record of the run that grows them.

point, actions, message ─▶ shoots ─▶ Run.config["branch"] ─▶ the same shoots in a resumed run
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from silva.errors import StoreError, UsageError
from silva.tree import Message, Record, Run, TextPart, ToolCall

KEY = "branch"
"""Where the record of a run of branches holds what it grows."""


class Shoot(Record, frozen=True, kw_only=True):
    """One new path. It begins after `node_id` (so its walk ends with that node), is number `index` in the tree's
    group, and takes `action` first, where given, after a person's `message`, where given. `instead_of` is the action
    it takes the place of; `reasons` say why an explorer chose the place; `turns`: new turns it may take (None: as many
    as an episode may)."""

    tree_id: str
    node_id: str
    index: int
    action: Message | None = None
    message: str = ""
    instead_of: str = ""
    reasons: tuple[str, ...] = ()
    turns: int | None = None


class Growth(Record, frozen=True, kw_only=True):
    """All that a run grows. `env`: the environment where it goes by another name; `turns`: new turns that all shoots
    together may take (None: no limit); `accept`: go on where an environment does not repeat itself; `source`: the
    trajectory or run that was explored."""

    shoots: tuple[Shoot, ...]
    env: str = ""
    turns: int | None = None
    accept: bool = False
    source: str = ""


def growth_of(run: Run) -> Growth:
    """What a stored run grows.

    Raises:
        UsageError: it is no run of branches.
        StoreError: its record cannot be read.
    """
    if KEY not in run.config:
        raise UsageError(f"run {run.id}: is no run of branches; silva rollout --run {run.id} --resume continues it")
    try:
        return msgspec.convert(run.config[KEY], Growth)
    except msgspec.ValidationError as error:
        raise StoreError(f"run {run.id}: its record of branches cannot be read ({error})") from error


def actions_of(texts: Sequence[str], depth: int) -> list[Message]:
    """The actions that a person wrote, each as JSON or as plain words.

    A JSON object is a call (`name`, `arguments`) or a message (`text`, `tool_calls`), a list is several calls, anything
    else is said as it stands.

    Raises:
        UsageError: an object that is neither a call nor a message.
    """
    return [_action(text, depth, place) for place, text in enumerate(texts)]


def _action(text: str, depth: int, place: int) -> Message:
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    if not isinstance(value, dict | list):
        return Message(role="assistant", parts=(TextPart(text=text),) if text else ())
    if isinstance(value, dict) and ("text" in value or "tool_calls" in value):
        calls, words = value.get("tool_calls", []), value.get("text", "")
        unknown = sorted(set(value) - {"text", "tool_calls"})
    else:
        calls, words, unknown = value if isinstance(value, list) else [value], "", []
    if unknown or not isinstance(calls, list) or not isinstance(words, str):
        raise UsageError(f'action {text[:80]}: give {{"name": …, "arguments": {{…}}}}, a list of them, or plain words')
    made = tuple(_call(text, value, f"branch_{depth}_{place}_{number}") for number, value in enumerate(calls))
    return Message(role="assistant", parts=(TextPart(text=words),) if words else (), tool_calls=made)


def _call(text: str, value: Any, call_id: str) -> ToolCall:
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("name"), str)
        or set(value) - {"id", "name", "arguments"}
    ):
        raise UsageError(f'action {text[:80]}: a call is {{"name": …, "arguments": {{…}}}}')
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict | str):
        raise UsageError(f"action {text[:80]}: arguments is an object")
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=str(value.get("id") or call_id), name=value["name"], arguments=raw)
