"""Parcels: fetch a thing from its shelf, have it sealed where that is wanted, give it to whom it is for.

    Goal: bring lamp to Anna, sealed in wax.  lamp: window. rope: wall. cup: door.
    act(fetch red) ─▶ "You hold lamp." ─▶ act(seal north) ─▶ "You hold lamp, sealed in wax." ─▶ act(give one) ─▶ done

Which shelf stands by the window, which stamp is for wax and at which desk Anna sits is for whoever works there to find
out. The wrong shelf has another thing or none, the wrong desk is somebody else's, who keeps what is given. A goal may
name a thing that is not there: it cannot be reached. The environment says what actions brought about and makes it a
task (port `Synthesis`), and lists the valid actions (`ListsActions`).

Tasks of `train` are as those of somebody with few customers: most are to fetch things, and nearly all that is brought
goes to two people, in one seal. Those of `test` are of all kinds, people and seals in equal numbers, in places of their
own, and can be done. `elsewhere` is the same in three other depots: each name stands in one of them for what it stands
for here, and in the others for something else: who comes from there has seen what is right, and more that is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Any, ClassVar

from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, assistant, call, system, tool_result, user

THINGS = ("lamp", "rope", "cup", "book", "coat", "drum", "bell", "clock")
SHELVES = {"window": "red", "door": "green", "stairs": "blue", "wall": "white"}
STAMPS = {"wax": "north", "lead": "south", "ink": "east", "gold": "west"}
DESKS = {"Anna": "one", "Ben": "two", "Carla": "three", "David": "four", "Emma": "five", "Felix": "six"}
DEPOTS = 3
"""Other depots."""
VERBS = ("fetch", "seal", "give")
KINDS = ("hold", "bring", "sealed")
TAIL = {"hold": 6, "bring": 3, "sealed": 1}
"""How often each kind is among the tasks of `train`, and below, how often each person and seal is."""
CUSTOMERS = {"Anna": 10, "Ben": 8, "Carla": 1, "David": 1, "Emma": 1, "Felix": 1}
SEALS = {"wax": 10, "lead": 1, "ink": 1, "gold": 1}
PLACES = {"train": range(480), "test": range(1000, 1120), "elsewhere": range(2000, 2900)}
TURNS = 5

_TOOL = Tool(
    name="act",
    description="Do one thing; returns what then is.",
    parameters={
        "type": "object",
        "properties": {
            "do": {"type": "string", "enum": list(VERBS)},
            "what": {"type": "string", "enum": [*SHELVES.values(), *STAMPS.values(), *DESKS.values()]},
        },
        "required": ["do", "what"],
    },
)

State = tuple[tuple[tuple[str, str], ...], str, str, tuple[tuple[str, str, str], ...]]
"""Things on shelves with where those stand, what is held and its seal, and what was given: thing, person, seal."""


def place(number: int) -> State:
    """The place of that number as it is at the beginning: three things on three of its shelves."""
    draw = Random(f"parcels {number}")
    return tuple(zip(draw.sample(THINGS, 3), draw.sample(list(SHELVES), 3), strict=True)), "", "", ()


class Names:
    """What is called what in a depot: this one, of number 0, or another, in which most names have changed places."""

    def __init__(self, depot: int) -> None:
        self.of: dict[str, str] = {}
        for names in (SHELVES, STAMPS, DESKS):
            moved = [name for at, name in enumerate(names) if depot and at % DEPOTS != depot - 1]
            turned = zip(moved, (*moved[1:], *moved[:1]), strict=True)
            self.of |= names | {one: names[other] for one, other in turned}
        self._where = {said: name for name, said in self.of.items()}

    def after(self, state: State, verb: str, what: str) -> State | None:
        """The state behind an action; None where it does nothing. What is held goes back where the new thing lay."""
        shelves, held, seal, given = state
        name = self._where.get(what, "")
        if verb == "fetch" and name in SHELVES:
            found = next((thing for thing, where in shelves if where == name), None)
            if found is None:
                return None
            left = tuple(each for each in shelves if each[0] != found)
            return ((*left, (held, name)) if held else left), found, "", given
        if verb == "seal" and name in STAMPS and held:
            return shelves, held, name, given
        if verb == "give" and name in DESKS and held:
            return shelves, "", "", (*given, (held, name, seal))
        return None

    def way(self, goal: dict[str, str], state: State) -> list[tuple[str, str]] | None:
        """The shortest way to a goal; None where there is none."""
        shelves, held, seal, _ = state
        where = dict(shelves).get(goal["thing"])
        if held != goal["thing"] and where is None:
            return None
        made = [] if held == goal["thing"] else [("fetch", self.of[str(where)])]
        if goal["kind"] == "sealed" and (made or seal != goal["seal"]):
            made.append(("seal", self.of[goal["seal"]]))
        return made if goal["kind"] == "hold" else [*made, ("give", self.of[goal["person"]])]

    def moves(self) -> Iterator[tuple[str, str]]:
        """What might do something."""
        for verb, names in zip(VERBS, (SHELVES, STAMPS, DESKS), strict=True):
            yield from ((verb, self.of[name]) for name in names)


def holds(state: State, goal: dict[str, str]) -> bool:
    """Whether a goal is reached."""
    if goal["kind"] == "hold":
        return state[1] == goal["thing"]
    return any(
        (thing, person) == (goal["thing"], goal["person"]) and (goal["kind"] == "bring" or seal == goal["seal"])
        for thing, person, seal in state[3]
    )


def listed() -> Iterator[dict[str, str]]:
    """Every goal that can be said, reachable in a place or not."""
    yield from ({"kind": "hold", "thing": thing} for thing in THINGS)
    for thing, person in product(THINGS, DESKS):
        yield {"kind": "bring", "thing": thing, "person": person}
        yield from ({"kind": "sealed", "thing": thing, "person": person, "seal": seal} for seal in STAMPS)


def words(goal: dict[str, str]) -> str:
    """A goal in words."""
    if goal["kind"] == "hold":
        return f"fetch {goal['thing']}"
    said = f"bring {goal['thing']} to {goal['person']}"
    return said if goal["kind"] == "bring" else f"{said}, sealed in {goal['seal']}"


def task_of(number: int, goal: dict[str, str], split: str, depot: int = 0) -> Task:
    """A goal in a place of a depot as a task."""
    said = words(goal)
    return Task(
        id=f"parcels/{number}/{said.replace(',', '').replace(' ', '-').lower()}",
        env="Parcels",
        instruction=f"Place {number}: {said}",
        split=split,
        data={"place": number, "goal": goal, "depot": depot},
        tags=(goal["kind"],),
    )


class Parcels:
    """The world. The task says everything, so the seed changes nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=TURNS)
    own_random: ClassVar[bool] = True

    @classmethod
    def tasks(cls, split: str = "train") -> Iterable[Task]:
        """A task of each place, as its split has them."""
        if split not in PLACES:
            raise UsageError(f"no split {split!r}; there are {', '.join(PLACES)}")
        draw = Random(f"parcels of {split}")

        def drawn(weights: dict[str, int]) -> str:
            often = weights.values() if split == "train" else [1] * len(weights)
            return draw.choices(list(weights), list(often))[0]

        for at, number in enumerate(PLACES[split]):
            kind = drawn(TAIL) if split == "train" else KINDS[at % len(KINDS)]
            goal = {"kind": kind, "thing": draw.choice(place(number)[0])[0]}
            goal |= {"person": drawn(CUSTOMERS)} if kind != "hold" else {}
            goal |= {"seal": drawn(SEALS)} if kind == "sealed" else {}
            yield task_of(number, goal, split, 1 + at // len(KINDS) % DEPOTS if split == "elsewhere" else 0)

    async def reset(self, task: Task, seed: int) -> Observation:
        """The goal, what lies where, and the tool."""
        self._goal: dict[str, str] = task.data["goal"]
        self._names = Names(int(task.data["depot"]))
        self._state = place(int(task.data["place"]))
        self._over = False
        lies = " ".join(f"{thing}: {where}." for thing, where in self._state[0])
        opening = user(f"Goal: {words(self._goal)}.\n{lies}")
        return Observation(messages=(system("You work in a depot."), opening), tools=(_TOOL,))

    async def step(self, action: Message) -> Observation:
        """Carry out the calls; words without a call give up."""
        if not action.tool_calls:
            self._over = True
            return Observation(reward=0.0, done=True)
        answers = tuple(tool_result(each.id, self._do(_read(each.arguments)), each.name) for each in action.tool_calls)
        done = holds(self._state, self._goal)
        self._over = self._over or done
        return Observation(messages=answers, reward=float(done), done=self._over)

    async def evaluate(self) -> Evaluation:
        """1 where the goal is reached."""
        done = holds(self._state, self._goal)
        return Evaluation(score=float(done), success=done)

    async def expert(self) -> Message:
        """The next action of the shortest way; gives up where there is none."""
        way = self._names.way(self._goal, self._state)
        return assistant("", call("act", {"do": way[0][0], "what": way[0][1]})) if way else await self.null()

    async def null(self) -> Message:
        """Give up."""
        return assistant("It cannot be done.")

    async def close(self) -> None:
        """Nothing is held."""

    async def goals(self, task: Task) -> Sequence[Goal]:
        """Every goal that can be said; those of things that are not in the place cannot be reached."""
        return [_goal(each) for each in listed()]

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """What the actions brought about, each goal once."""
        names, state = Names(int(task.data["depot"])), place(int(task.data["place"]))
        since: dict[State, tuple[int, ...]] = {state: ()}
        wanted, found = list(listed()), list[Achieved]()
        for number, action in enumerate(actions):
            before = since[state]
            for made in action.tool_calls:
                state = names.after(state, *_read(made.arguments)) or state
            since.setdefault(state, (*before, number))
            reached = [goal for goal in wanted if holds(state, goal)]
            wanted = [goal for goal in wanted if goal not in reached]
            found += [Achieved(goal=_goal(goal), turn=number + 1, kept=since[state]) for goal in reached]
        return found

    async def task(self, task: Task, goal: Goal) -> Task:
        """The goal in the task's place."""
        if goal.data not in list(listed()):
            raise UsageError(f"a depot has no goal {goal.words!r}")
        return task_of(int(task.data["place"]), goal.data, "synthesised", int(task.data["depot"]))

    async def actions(self) -> Sequence[Message]:
        """What does something now."""
        return [
            assistant("", call("act", {"do": verb, "what": what}))
            for verb, what in self._names.moves()
            if self._names.after(self._state, verb, what) is not None
        ]

    def _do(self, action: tuple[str, str]) -> str:
        there = None if self._over else self._names.after(self._state, *action)
        if there is None:
            return "Nothing happens."
        self._state = there
        _, held, seal, given = there
        if held:
            return f"You hold {held}{f', sealed in {seal}' if seal else ''}."
        thing, person, _ = given[-1]
        return f"{person} has {thing}."


def _goal(data: dict[str, str]) -> Goal:
    return Goal(words=words(data), data=data, pattern=data["kind"])


def _read(arguments: str) -> tuple[str, str]:
    try:
        said: Any = json.loads(arguments)
        return str(said["do"]), str(said["what"])
    except (ValueError, KeyError, TypeError):
        return "", ""
