"""BFCL's goals: what calls of the simulated services change in their state, found by carrying calls out.

    services ─▶ call ─▶ state before and after, flattened ─▶ changes ─▶ Goal(words, {"changes": [[path, value] …]})

Execution is the checker: a goal holds where the services' public state differs from the beginning in exactly those
places, and in nothing else, as the benchmark's own checker compares states. Which calls could be made is drawn from the
functions' schemas and from the values that stand in the state; the benchmark's ground truth is not looked at.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from silva.envs.gyms.bfcl import corpus
from silva.envs.gyms.bfcl.services import Services
from silva.envs.protocol import Achieved, Goal
from silva.envs.synthesis import loops_cut
from silva.errors import UsageError
from silva.tree import Json, Tool

Call = tuple[str, Json]
State = dict[tuple[str, ...], Any]

MOST_CHANGES, MOST_VALUE = 12, 400
"""Places that a goal may change, and characters of a value as JSON; what changes more is no goal."""
_EACH, _ALL, _PAIRS = 6, 240, 60
_ERRORS = ("Error during execution", '{"error"')


def state_of(services: Services, hidden: bool = False) -> State:
    """What stands where in the services' state; with `hidden` also what the benchmark does not compare, such as the
    working folder."""
    found: State = {}
    for name, instance in services.instances.items():
        for key, value in vars(instance).items():
            if hidden or not key.startswith("_"):
                _flatten((name, key), value, found, set())
    return found


def changes(before: State, after: State) -> list[Any]:
    """The places in which two states differ, with what stands there then (null: nothing)."""
    places = sorted(place for place in before.keys() | after.keys() if before.get(place) != after.get(place))
    return [[list(place), after.get(place)] for place in places]


def holds(first: Services, now: Services, data: Json) -> bool:
    """Whether exactly a goal's changes have been made."""
    return changes(state_of(first), state_of(now)) == data["changes"]


def goals(entry: corpus.Entry) -> list[Goal]:
    """What one or two calls would change, those of the same words once."""
    tools, first = tools_of(entry), Services(entry)
    before = state_of(first)
    singles = [(made, after) for made, after in _tried(first, tools) if changes(before, state_of(after))]
    found: dict[str, Goal] = {}
    for (name, _), after in singles:
        _take(found, before, state_of(after), name)
    pairs = 0
    for (name, _), after in singles[: _PAIRS // 4]:
        for (other, _), later in _tried(after, tools, 1):
            if other != name and pairs < _PAIRS and changes(state_of(after), state_of(later)):
                pairs += 1
                _take(found, before, state_of(later), f"{name} and {other}")
    return list(found.values())


def checked(goal: Goal) -> Goal:
    """The goal, where it is of the right shape.

    Raises:
        UsageError: it is not.
    """
    said = goal.data.get("changes")
    if not isinstance(said, list) or not 1 <= len(said) <= MOST_CHANGES:
        raise UsageError(f"{goal.words[:80]!r} is no goal: give `changes`, 1 to {MOST_CHANGES} of them")
    for each in said:
        if not (isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], list | tuple)):
            raise UsageError(f"{goal.words[:80]!r} is no goal: a change is a path and a value")
    return goal


def looked_back(entry: corpus.Entry, turns: Iterable[Sequence[Call]]) -> list[Achieved]:
    """What calls change, turn by turn."""
    services = Services(entry)
    before, states, found = state_of(services), [_digest(services)], dict[str, Achieved]()
    for turn, made in enumerate(turns, 1):
        for name, arguments in made:
            services.call(name, copy.deepcopy(arguments))
        goal = _goal(before, state_of(services), " and ".join(dict.fromkeys(name for name, _ in made)))
        if goal is not None:
            kept = (*loops_cut(states), turn - 1)
            found.setdefault(goal.words, Achieved(goal=goal, turn=turn, kept=kept))
        states.append(_digest(services))
    return list(found.values())


def valid(services: Services, tools: Sequence[Tool]) -> list[Call]:
    """Calls that the services would carry out now."""
    return [made for made, _ in _tried(services, tools, 2)]


def tools_of(entry: corpus.Entry) -> tuple[Tool, ...]:
    """All functions of a task's services, those that are held out of its first turns too."""
    return entry.tools(len(entry.turns) - 1)


def _take(found: dict[str, Goal], before: State, after: State, pattern: str) -> None:
    goal = _goal(before, after, pattern)
    if goal is not None:
        found.setdefault(goal.words, goal)


def _goal(before: State, after: State, pattern: str) -> Goal | None:
    made = changes(before, after)
    if not 1 <= len(made) <= MOST_CHANGES or any(len(json.dumps(value)) > MOST_VALUE for _, value in made):
        return None
    lines = "; ".join(_said(tuple(place), before, value) for place, value in made)
    return Goal(words=f"Bring about exactly this, and nothing else: {lines}.", data={"changes": made}, pattern=pattern)


def _said(place: tuple[str, ...], before: State, value: Any) -> str:
    where = f"in {place[0]}, {' / '.join(place[1:])}"
    if value is None:
        return f"{where} is no more there"
    was = f" (it is {json.dumps(before[place])})" if place in before else " (it is not there yet)"
    return f"{where} becomes {json.dumps(value)}{was}"


def _tried(services: Services, tools: Sequence[Tool], each: int = _EACH) -> Iterator[tuple[Call, Services]]:
    """Calls that are carried out without an error, each with what it leaves, from the same state."""
    words = _values(state_of(services))
    tried = 0
    for tool in tools:
        good = 0
        for arguments in itertools.islice(_arguments(tool, words), each * 8):
            if good >= each or tried >= _ALL:
                break
            tried += 1
            after = copy.deepcopy(services)
            if not after.call(tool.name, copy.deepcopy(arguments)).startswith(_ERRORS):
                good += 1
                yield (tool.name, arguments), after


def _arguments(tool: Tool, words: dict[str, list[Any]]) -> Iterator[Json]:
    """Arguments by a function's schema, from what stands in the state; the least likely last."""
    properties: Json = tool.parameters.get("properties", {})
    required = [name for name in tool.parameters.get("required", []) if name in properties]
    choices = [_choices(name, properties[name], words) for name in required]
    size = max(map(len, choices), default=1)
    # Walking all lists at once, each by its own stride, tries unlike values early.
    for step in range(size * 4):
        chosen = [each[(step * (at + 1) + step // size * at) % len(each)] for at, each in enumerate(choices)]
        yield dict(zip(required, chosen, strict=True))
        if not required:
            return


def _choices(name: str, schema: Json, words: dict[str, list[Any]]) -> list[Any]:
    if schema.get("enum"):
        return list(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return [True, False]
        case "integer":
            return words["integer"] or [1, 2]
        case "number" | "float":
            return words["number"] or [1.0, 10.0]
        case "array":
            inner = _choices(name, schema.get("items", {}), words)
            return [inner[:1], inner[:2], inner]
        case "object":
            return [{}]
        case _:
            return words["string"] or [name]


def _values(state: State) -> dict[str, list[Any]]:
    """Texts, whole numbers and numbers that stand in a state, or name a place of it; in order, each once."""
    texts: dict[str, None] = {}
    whole: dict[int, None] = {}
    for place, value in state.items():
        texts.update(dict.fromkeys(part for part in place[2:] if not part.isdigit()))
        if isinstance(value, str) and 0 < len(value) <= 60:
            texts[value] = None
        elif isinstance(value, int) and not isinstance(value, bool):
            whole[value] = None
    numbers = [value for value in state.values() if isinstance(value, float)]
    return {
        "string": list(texts)[:60],
        "integer": list(whole)[:20],
        "number": [*dict.fromkeys(numbers), 1.0, 10.0][:20],
    }


def _flatten(place: tuple[str, ...], value: Any, found: State, seen: set[int]) -> None:
    if value is None or isinstance(value, bool | int | float | str):
        found[place] = "(none)" if value is None else value  # null means that nothing stands there
        return
    if id(value) in seen or callable(value):
        return
    seen = {*seen, id(value)}
    if isinstance(value, dict):
        parts = {str(key): each for key, each in value.items()}
    elif isinstance(value, list | tuple):
        parts = {str(number): each for number, each in enumerate(value)}
    elif isinstance(value, set | frozenset):
        parts = {str(number): each for number, each in enumerate(sorted(value, key=repr))}
    else:
        parts = {key: each for key, each in getattr(value, "__dict__", {}).items() if key != "parent"}
        parts = {key: each for key, each in parts.items() if not key.startswith("_")} or {"": repr(type(value))}
    for key, each in parts.items():
        _flatten((*place, key), each, found, seen)


def _digest(services: Services) -> str:
    state = sorted((place, repr(value)) for place, value in state_of(services, hidden=True).items())
    return hashlib.blake2b(repr(state).encode(), digest_size=16).hexdigest()
