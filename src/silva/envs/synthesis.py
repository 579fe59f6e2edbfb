"""What an environment's goals must be like to leave its host, and the cutting of loops that environments share.

    request ─▶ offering · place · taken · wanted ─▶ the environment ─▶ checked_goals | checked_achieved | … ─▶ Reply

An environment is somebody else's code: what it offers is counted, measured and held to the shape of
`silva.envs.protocol` before it crosses to the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from silva.envs.protocol import Achieved, Goal, Hindsight, ListsActions, Synthesis
from silva.envs.wire import Request
from silva.errors import UsageError
from silva.tree import Message, Task

MOST_GOALS = 4096
"""Goals that one place may offer."""
MOST_ACTIONS = 2048
"""Actions that may be looked at in hindsight at once, and valid actions that a state may list."""
LONGEST = 4000
"""Characters of a goal's words."""
LARGEST = 256 << 10
"""Bytes of a goal's data, as msgpack."""

_OFFERS: dict[type, str] = {
    Synthesis: "no goals (port Synthesis): its tasks can be explored, and no new ones are drawn for it",
    Hindsight: "no hindsight (port Hindsight): what was brought about there cannot be made a task",
    ListsActions: "no list of valid actions (port ListsActions): let the policy or an endpoint explore",
}
Port = TypeVar("Port")


def offering(environment: Any, port: type[Port]) -> Port:
    """The environment, as one that has the port.

    Raises:
        UsageError: it has not.
    """
    if not isinstance(environment, port):
        raise UsageError(f"{type(environment).__name__} offers {_OFFERS[port]}")
    return environment


def place(request: Request) -> Task:
    """The task whose place is meant, as its environment knows it."""
    assert request.task is not None
    return request.task.given


def taken(request: Request) -> list[Message]:
    """The actions to be looked at.

    Raises:
        UsageError: there are too many.
    """
    actions = request.actions or []
    if len(actions) > MOST_ACTIONS:
        raise UsageError(f"{len(actions)} actions are too many to look back on; the limit is {MOST_ACTIONS}")
    return actions


def wanted(request: Request) -> Goal:
    """The goal to be made a task."""
    assert request.goal is not None
    return request.goal


def checked_goals(found: Any) -> list[Goal]:
    """An environment's goals.

    Raises:
        TypeError, ValueError: they are not goals, too many or too large.
    """
    return [_sized(goal) for goal in _listed(found, Goal, "goals", MOST_GOALS)]


def checked_achieved(found: Any, actions: int) -> list[Achieved]:
    """What was brought about by so many actions.

    Raises:
        TypeError, ValueError: it is not of the right shape, or names a turn that was not taken.
    """
    listed = _listed(found, Achieved, "achieved", MOST_GOALS)
    for each in listed:
        _sized(each.goal)
        if not 1 <= each.turn <= actions or any(not 0 <= number < each.turn for number in each.kept):
            raise ValueError(f"achieved: {each.goal.words[:80]!r} at turn {each.turn} of {actions}, kept {each.kept}")
    return listed


def checked_task(made: Any) -> Task:
    """The task made of a goal.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(made, Task):
        raise TypeError(f"task gave a {type(made).__name__}, not a Task")
    return made


def checked_actions(found: Any) -> list[Message]:
    """The valid actions.

    Raises:
        TypeError, ValueError: they are not assistant messages, or too many.
    """
    listed = _listed(found, Message, "actions", MOST_ACTIONS)
    if any(each.role != "assistant" for each in listed):
        raise ValueError("actions holds a message that is not the assistant's")
    return listed


def loops_cut(states: Sequence[str]) -> tuple[int, ...]:
    """Which actions are left when every way back to a state that was there before is cut out.

    Args:
        states: digests of the state before the first action and after each; one more than there are actions.

    Returns:
        Numbers of the actions that are left, from 0, in order.
    """
    last = {state: number for number, state in enumerate(states)}
    kept: list[int] = []
    at = last[states[0]]
    while at < len(states) - 1:
        kept.append(at)
        at = last[states[at + 1]]
    return tuple(kept)


def _listed(found: Any, kind: type[Any], name: str, most: int) -> list[Any]:
    listed = list(found)
    if len(listed) > most:
        raise ValueError(f"{name}: {len(listed)} are too many; the limit is {most}")
    for each in listed:
        if not isinstance(each, kind):
            raise TypeError(f"{name} holds a {type(each).__name__}, not a {kind.__name__}")
    return listed


def _sized(goal: Goal) -> Goal:
    if not goal.words.strip() or len(goal.words) > LONGEST:
        raise ValueError(f"a goal has {len(goal.words)} characters of words; 1 to {LONGEST} are possible")
    size = len(msgspec.msgpack.encode(goal.data))
    if size > LARGEST:
        raise ValueError(f"goal {goal.words[:80]!r} has {size >> 10} KB of data; the limit is {LARGEST >> 10} KB")
    return goal
