"""The turns that solve a task: `solution/turns.json`, or solve.sh in three.

turns.json is a list of turns, each `{"say": text, "calls": [{"tool": name, "arguments": {…}}]}`. It is for branching: a
task solved in one command has no turn in the middle to go back to.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from silva.envs.gyms.terminal.harbor import HarborTask
from silva.envs.gyms.terminal.places import Places
from silva.errors import UsageError
from silva.tree import Message, Record, assistant, call

_SCRIPT = "/tmp/solution"
_WAIT = 45


class Call(Record, frozen=True, kw_only=True):
    """One tool call of a turn."""

    tool: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Turn(Record, frozen=True, kw_only=True):
    """One turn: words, and calls."""

    say: str = ""
    calls: tuple[Call, ...] = ()


def turns(task: HarborTask, places: Places) -> tuple[Message, ...]:
    """The expert's messages, in order; the last one ends the episode.

    Raises:
        UsageError: the task has no solution, or its turns.json is badly formed.
    """
    file = task.solution.get("turns.json")
    if file is None:
        return _by_script(task, places)
    try:
        planned = msgspec.convert(json.loads(places.text(file.content.decode())), tuple[Turn, ...])
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(f"task {task.name}: solution/turns.json: {error}") from error
    return tuple(
        assistant(turn.say, *(call(each.tool, each.arguments, f"call_{n}_{i}") for i, each in enumerate(turn.calls)))
        for n, turn in enumerate(planned)
    )


def _by_script(task: HarborTask, places: Places) -> tuple[Message, ...]:
    if "solve.sh" not in task.solution:
        raise UsageError(f"task {task.name}: it has no solution/solve.sh, so there is no expert for it")
    words = {"/solution": _SCRIPT, "/oracle": _SCRIPT}
    written = []
    for number, (path, file) in enumerate(sorted(task.solution.items())):
        try:
            text = places.file(file, words).content.decode()
        except UnicodeDecodeError:
            raise UsageError(f"task {task.name}: solution/{path} is no text: the expert cannot write it") from None
        written.append(call("file_write", {"path": f"{_SCRIPT}/{path}", "text": text}, f"call_0_{number}"))
    script = places.named(f"{_SCRIPT}/solve.sh")
    run = call("session_run", {"command": f"bash '{script}'", "wait": _WAIT}, "call_1_0")
    return assistant("", *written), assistant("", run), assistant("", call("finish", {}, "call_2_0"))
