"""Halls: two wings of six halls, one behind the other; which of six keys opens which door is to be found out.

    Walled: east 4, west 5.  Goal: reach west 2 in 4 turns.
    act(go west) ─▶ act(use red) ─▶ "You are in west 1." ─▶ act(use blue) ─▶ "You are in west 2." ─▶ done

A hall is to be reached in as many turns as the way has, and one more: who does not know a door's key seldom has the
time to find it out on the way to what lies behind. Who is late may go on, and see what there is. So what can be brought
about grows with what a policy has learnt: who explores at the beginning seldom finds what lies deep. A goal may lie
behind a wall: it cannot be reached. The environment says what actions brought about and makes it a task (port
`Synthesis`), and lists the valid actions (`ListsActions`).

Tasks of `train` are as a user's first tasks are: most lie in the east, and not deep. Those of `test` are of all halls
in equal numbers, in places of their own, and can be done. `elsewhere` is the same in three other buildings: each door
has the key that it has here in one of them, and other keys in the others. There one has time for all that one may do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from random import Random
from typing import Any, ClassVar

from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, assistant, call, system, tool_result, user

KEYS = ("red", "green", "blue", "white", "black", "brown")
WINGS = {"east": 8, "west": 1}
"""How often each is among the tasks of `train`, and below, how often each depth is."""
DEPTHS = {1: 16, 2: 8, 3: 1, 4: 0, 5: 0, 6: 0}
HALLS = tuple(product(WINGS, DEPTHS))
WALLS = 2
"""Halls of a place that are walled up."""
BUILDINGS = 3
"""Other buildings."""
TRIES = 0.35
"""How often an expert elsewhere tries any key first."""
VERBS = ("go", "use")
PLACES = {"train": range(480), "test": range(1000, 1120), "elsewhere": range(2000, 4500)}
TURNS = 8
SPARE = 1
"""Turns that are granted besides those that the way takes."""

_TOOL = Tool(
    name="act",
    description="Do one thing; returns what then is.",
    parameters={
        "type": "object",
        "properties": {
            "do": {"type": "string", "enum": list(VERBS)},
            "what": {"type": "string", "enum": [*WINGS, *KEYS]},
        },
        "required": ["do", "what"],
    },
)

Hall = tuple[str, int]
"""Wing and depth; depth 0 stands before its first door, and the gate is ("", 0)."""


def walls(number: int) -> frozenset[Hall]:
    """The halls that are walled up in the place of that number."""
    return frozenset(Random(f"halls {number}").sample(HALLS, WALLS))


def open_halls(number: int) -> list[Hall]:
    """The halls that can be reached there."""
    shut = walls(number)
    return [hall for hall in HALLS if not any((hall[0], depth) in shut for depth in range(1, hall[1] + 1))]


def _keys() -> list[dict[Hall, str]]:
    """The key of each door: here, and in the other buildings, where each is the same in one of them."""
    draw = Random("keys of halls")
    here = {hall: draw.choice(KEYS) for hall in HALLS}
    others = [dict(here) for _ in range(BUILDINGS)]
    for number, hall in enumerate(HALLS):
        wrong = draw.sample([key for key in KEYS if key != here[hall]], BUILDINGS - 1)
        for building in range(BUILDINGS):
            if building != number % BUILDINGS:
                others[building][hall] = wrong.pop()
    return [here, *others]


OPENS = _keys()


class Building:
    """What actions do in a place of a building, 0 being this one."""

    def __init__(self, number: int, building: int) -> None:
        self._walls, self._opens = walls(number), OPENS[building]

    def after(self, hall: Hall, verb: str, what: str) -> Hall | None:
        """Where an action leads; None where it does nothing."""
        wing, depth = hall
        if verb == "go" and what in WINGS and hall != (what, 0):
            return what, 0
        there = (wing, depth + 1)
        return there if verb == "use" and there not in self._walls and self._opens.get(there) == what else None

    def way(self, hall: Hall, goal: Hall) -> list[tuple[str, str]] | None:
        """The shortest way to a hall; None where there is none."""
        first = [] if hall[0] == goal[0] and hall[1] <= goal[1] else [("go", goal[0])]
        passed = [(goal[0], depth) for depth in range(1 if first else hall[1] + 1, goal[1] + 1)]
        return None if self._walls & set(passed) else [*first, *(("use", self._opens[each]) for each in passed)]


def task_of(number: int, hall: Hall, split: str, building: int = 0) -> Task:
    """A goal in a place of a building as a task."""
    wing, depth = hall
    return Task(
        id=f"halls/{number}/{wing}-{depth}",
        env="Halls",
        instruction=f"Place {number}: reach {wing} {depth}",
        split=split,
        data={"place": number, "wing": wing, "depth": depth, "building": building},
        tags=(f"{wing} {depth}",),
    )


class Halls:
    """The world. The task says everything, so the seed changes nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=TURNS)
    own_random: ClassVar[bool] = True

    @classmethod
    def tasks(cls, split: str = "train") -> Iterable[Task]:
        """A task of each place: halls as `WINGS` and `DEPTHS` have them (train), or each time one of those that had the
        fewest tasks."""
        if split not in PLACES:
            raise UsageError(f"no split {split!r}; there are {', '.join(PLACES)}")
        draw, had = Random(f"halls of {split}"), Counter[Hall]()
        for at, number in enumerate(PLACES[split]):
            halls = open_halls(number)
            fewest = min((had[hall] for hall in halls), default=0)
            often = [WINGS[w] * DEPTHS[d] if split == "train" else had[w, d] == fewest for w, d in halls]
            if any(often):
                hall = draw.choices(halls, often)[0]
                had[hall] += 1
                yield task_of(number, hall, split, 1 + at % BUILDINGS if split == "elsewhere" else 0)

    async def reset(self, task: Task, seed: int) -> Observation:
        """What is walled up, the goal, and the tool."""
        number, building = int(task.data["place"]), int(task.data["building"])
        self._goal: Hall = (task.data["wing"], task.data["depth"])
        self._knows, self._draw = not building, Random(f"expert of {task.id}")
        self._building, self._hall, self._reached = Building(number, building), ("", 0), False
        self._left = TURNS if building else 1 + self._goal[1] + SPARE
        shut = ", ".join(f"{wing} {depth}" for wing, depth in sorted(walls(number)))
        goal = f"Goal: reach {self._goal[0]} {self._goal[1]} in {self._left} turns."
        opening = user(f"Walled: {shut}.\nYou are at the gate. {goal}")
        return Observation(messages=(system("You work in a house of many halls."), opening), tools=(_TOOL,))

    async def step(self, action: Message) -> Observation:
        """Carry out the calls; the goal in time ends it, and so do words without a call."""
        if not action.tool_calls:
            return Observation(reward=0.0, done=True)
        self._left -= 1
        answers = tuple(tool_result(each.id, self._do(_read(each.arguments)), each.name) for each in action.tool_calls)
        return Observation(messages=answers, reward=float(self._reached), done=self._reached)

    async def evaluate(self) -> Evaluation:
        """1 where one has been in the hall in time."""
        return Evaluation(score=float(self._reached), success=self._reached)

    async def expert(self) -> Message:
        """The next action of the shortest way; gives up where there is none. Elsewhere it does not know each key by
        heart, and tries another one at times."""
        found = self._building.way(self._hall, self._goal)
        if not found:
            return await self.null()
        verb, what = found[0]
        if verb == "use" and not self._knows and self._draw.random() < TRIES:
            what = self._draw.choice(KEYS)
        return _act(verb, what)

    async def null(self) -> Message:
        """Give up."""
        return assistant("It cannot be done.")

    async def close(self) -> None:
        """Nothing is held."""

    async def goals(self, task: Task) -> Sequence[Goal]:
        """Every hall; those behind a wall cannot be reached."""
        return [_goal(hall) for hall in HALLS]

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """The halls that the actions led to, each once."""
        building, hall = Building(int(task.data["place"]), int(task.data["building"])), ("", 0)
        since: dict[Hall, tuple[int, ...]] = {hall: ()}
        found: list[Achieved] = []
        for at, action in enumerate(actions):
            before = since[hall]
            for made in action.tool_calls:
                hall = building.after(hall, *_read(made.arguments)) or hall
            if hall not in since and hall[1]:
                found.append(Achieved(goal=_goal(hall), turn=at + 1, kept=(*before, at)))
            since.setdefault(hall, (*before, at))
        return found

    async def task(self, task: Task, goal: Goal) -> Task:
        """The goal in the task's place."""
        hall: Any = (goal.data.get("wing"), goal.data.get("depth"))
        if hall not in HALLS:
            raise UsageError(f"there is no goal {goal.words!r}")
        return task_of(int(task.data["place"]), hall, "synthesised", int(task.data["building"]))

    async def actions(self) -> Sequence[Message]:
        """What does something now: a door's key is among what might."""
        keys = KEYS if self._hall[0] and (self._hall[0], self._hall[1] + 1) in HALLS else ()
        return [*(_act("go", wing) for wing in WINGS if self._hall != (wing, 0)), *(_act("use", key) for key in keys)]

    def _do(self, action: tuple[str, str]) -> str:
        there = None if self._reached else self._building.after(self._hall, *action)
        if there is None:
            return "Nothing happens."
        self._hall, self._reached = there, there == self._goal and self._left >= 0
        return f"You are in {there[0]} {there[1]}."


def _act(verb: str, what: str) -> Message:
    return assistant("", call("act", {"do": verb, "what": what}))


def _goal(hall: Hall) -> Goal:
    wing, depth = hall
    return Goal(words=f"reach {wing} {depth}", data={"wing": wing, "depth": depth}, pattern=wing)


def _read(arguments: str) -> tuple[str, str]:
    try:
        said: Any = json.loads(arguments)
        return str(said["do"]), str(said["what"])
    except (ValueError, KeyError, TypeError):
        return "", ""
