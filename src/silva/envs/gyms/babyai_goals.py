"""BabyAI's goals: the missions that a grid allows, each with minigrid's own verifier.

    grid ─▶ things by colour and kind ─▶ go to · open · pick up · put next to ─▶ Goal(words, data)
    actions ─▶ minigrid's step ─▶ every goal's verifier ─▶ first turn it held, loops cut by the state's digest

A goal's data is {"verb": …, "what": [colour, kind], "beside": [colour, kind]}; a task that has it under `goal` is
played under that mission in the level's own grid, with minigrid's limit of steps for a mission of that length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from minigrid.core.constants import COLOR_NAMES
from minigrid.envs.babyai.core.verifier import (
    OBJ_TYPES,
    GoToInstr,
    ObjDesc,
    OpenInstr,
    PickupInstr,
    PutNextInstr,
    pos_next_to,
)

from silva.envs.protocol import Achieved, Goal
from silva.envs.synthesis import loops_cut
from silva.errors import UsageError
from silva.tree import Json

VERBS = ("go to", "open", "pick up", "put next to")


def goals(level: Any) -> list[Goal]:
    """The missions of a level's present grid, but for those that hold already; things by colour and kind."""
    things = _things(level)
    names = sorted(things)
    datas: list[Json] = [{"verb": "go to", "what": list(name)} for name in names]
    datas += [
        {"verb": "open", "what": list(name)}
        for name in names
        if name[1] == "door" and not any(door.is_open for door, _ in things[name])
    ]
    movable = [name for name in names if name[1] != "door"]
    datas += [{"verb": "pick up", "what": list(name)} for name in movable]
    datas += [
        {"verb": "put next to", "what": list(name), "beside": list(other)}
        for name in movable
        for other in names
        if name != other and not _beside(things[name], things[other])
    ]
    return [goal(level, data) for data in datas]


def goal(level: Any, data: Json) -> Goal:
    """The goal of that data in the level's grid.

    Raises:
        UsageError: the data is no goal's, or the grid holds no such thing.
    """
    words = instruction(data, _things(level)).surface(level)
    return Goal(words=words, data=data, pattern=data["verb"])


def instruction(data: Json, there: Iterable[tuple[str, str]]) -> Any:
    """Minigrid's instruction for a goal's data.

    Args:
        data: a goal's.
        there: colours and kinds of what the grid holds.

    Raises:
        UsageError: the data is no goal's, or the grid holds no such thing.
    """
    verb, known = data.get("verb"), set(there)

    def named(field: str) -> Any:
        said = data.get(field)
        if not isinstance(said, list | tuple) or len(said) != 2 or tuple(said) not in known:
            raise UsageError(
                f"babyai: the grid holds no {' '.join(map(str, said)) if isinstance(said, list) else said}"
            )
        return ObjDesc(said[1], said[0])

    if verb == "go to":
        return GoToInstr(named("what"))
    what = data.get("what", ("", ""))
    if verb == "open" and what[-1:] == ["door"]:
        return OpenInstr(named("what"))
    if verb == "pick up" and what[-1:] != ["door"]:
        return PickupInstr(named("what"))
    if verb == "put next to" and what[-1:] != ["door"]:
        return PutNextInstr(named("what"), named("beside"))
    raise UsageError(f"{data!r} is no goal; verbs are {', '.join(VERBS)}, and doors stay where they are")


def give(level: Any, data: Json) -> str:
    """Put a goal in the place of the mission of a level that was just reset; returns its words.

    Raises:
        UsageError: as `instruction`.
    """
    level.instrs = instruction(data, _things(level))
    level.instrs.reset_verifier(level)
    level.surface = level.mission = level.instrs.surface(level)
    if not level.fixed_max_steps:
        level.max_steps = level.num_navs_needed(level.instrs) * level.room_size**2 * level.num_rows * level.num_cols
    return level.mission


def looked_back(level: Any, actions: Iterable[Iterable[int]]) -> list[Achieved]:
    """What actions bring about in a level that was just reset.

    Args:
        level: unwrapped; its own mission ends nothing here.
        actions: minigrid's action numbers, for each turn those that it took.
    """
    waiting = [(each, instruction(each.data, _things(level))) for each in goals(level)]
    for _, instr in waiting:
        instr.reset_verifier(level)
    states, found = [_state(level)], list[Achieved]()
    for turn, numbers in enumerate(actions, 1):
        held: set[int] = set()
        for number in numbers:
            level.step(number)
            for at, (_, instr) in enumerate(waiting):
                if number == level.actions.drop:
                    level.update_objs_poss(instr)
                if instr.verify(number) == "success":
                    held.add(at)
        for at in sorted(held):
            kept = (*loops_cut(states), turn - 1)  # the action that brought it about stays, whatever state it led to
            found.append(Achieved(goal=waiting[at][0], turn=turn, kept=kept))
        waiting = [each for at, each in enumerate(waiting) if at not in held]
        states.append(_state(level))
    return found


def valid(level: Any) -> list[str]:
    """The names of the actions that do something in the level's present state."""
    front, held = level.grid.get(*level.front_pos), level.carrying
    names = ["turn_left", "turn_right"]
    if front is None or front.can_overlap():
        names.append("move_forward")
    if front is not None and front.can_pickup() and held is None:
        names.append("pick_up")
    if front is None and held is not None:
        names.append("drop")
    if front is not None and front.type in ("door", "box"):
        names.append("toggle")
    return names


def _things(level: Any) -> dict[tuple[str, str], list[tuple[Any, tuple[int, int]]]]:
    found: dict[tuple[str, str], list[tuple[Any, tuple[int, int]]]] = {}
    for x in range(level.grid.width):
        for y in range(level.grid.height):
            thing = level.grid.get(x, y)
            if thing is not None and thing.type in OBJ_TYPES and thing.color in COLOR_NAMES:
                found.setdefault((thing.color, thing.type), []).append((thing, (x, y)))
    return found


def _beside(some: list[tuple[Any, tuple[int, int]]], others: list[tuple[Any, tuple[int, int]]]) -> bool:
    return any(pos_next_to(one, other) for _, one in some for _, other in others)


def _state(level: Any) -> str:
    """A digest of all that an action's outcome depends on."""
    made = hashlib.blake2b(level.grid.encode().tobytes(), digest_size=16)
    inside = [
        (x, y, _named(t.contains)) for things in _things(level).values() for t, (x, y) in things if t.type == "box"
    ]
    made.update(repr((tuple(map(int, level.agent_pos)), int(level.agent_dir), _named(level.carrying), inside)).encode())
    return made.hexdigest()


def _named(thing: Any) -> str:
    return "" if thing is None else f"{thing.color} {thing.type} {_named(getattr(thing, 'contains', None))}"
