"""Workshop: things are made of one another; which of six materials makes which of what is to be found out.

    No tools for: cart, wall. Turns: 4.  Make crate, of wood. You hold: nothing.
    work(wood with sand) ─▶ "You hold: plank." ─▶ work(plank with iron) ─▶ "Nothing comes of it. You hold: plank." ─▶ …

    wood ─▶ plank ─▶ frame ─▶ crate ─▶ cart ─▶ wagon ─▶ caravan
    stone ─▶ brick ─▶ wall ─▶ arch ─▶ bridge ─▶ viaduct ─▶ aqueduct

A thing is to be made in as many turns as the way to it has, and one more: who does not know a material seldom has the
time to find it out on the way to what is made of that. Who is late may go on, and see what comes of it. So what can be
brought about grows with what a policy has learnt: who tries things at the beginning seldom makes what lies deep. Each
place lacks the tools for some things, so that a goal may need what cannot be made there: it cannot be reached. The
environment says what actions brought about and makes it a task (port `Synthesis`), and lists the valid actions
(`ListsActions`).

Tasks of `train` are as a user's first tasks are: most are of wood, and few take many turns. Those of `test` are of all
things in equal numbers, in places of their own, and can be done. `elsewhere` is the same in other workshops: a thing is
made there of what it is made of here, and takes one of three materials, which is drawn for each workshop; one of the
three is what it takes here. There one has time for all that one may do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, ClassVar

from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, assistant, call, system, tool_result, user

MATERIALS = ("iron", "rope", "sand", "glue", "cloth", "glass")
LACKS = 2
"""Things for which a place has no tools."""
MADE_OF = {
    "plank": "wood",
    "frame": "plank",
    "crate": "frame",
    "cart": "crate",
    "wagon": "cart",
    "caravan": "wagon",
    "brick": "stone",
    "wall": "brick",
    "arch": "wall",
    "bridge": "arch",
    "viaduct": "bridge",
    "aqueduct": "viaduct",
}
"""Each thing, and what it is made of: another thing, or what there is enough of."""
LINES = {"wood": 8, "stone": 1}
"""How often what is made of each is among the tasks of `train`, and below, how often what takes so many turns is."""
TURNS_OF = {1: 16, 2: 8, 3: 1}
MIGHT = 3
"""Materials that a thing takes in some workshop."""
TRIES = 0.35
"""How often an expert elsewhere tries any material first."""
PLACES = {"train": range(480), "test": range(1000, 1128), "elsewhere": range(2000, 4500)}
TURNS = 8
SPARE = 1
"""Turns that are granted besides those that the way takes."""

_TOOL = Tool(
    name="work",
    description="Work on what you hold, or on wood or stone anew; returns what you hold then.",
    parameters={
        "type": "object",
        "properties": {
            "on": {"type": "string", "enum": [*LINES, *MADE_OF]},
            "with": {"type": "string", "enum": list(MATERIALS)},
        },
        "required": ["on", "with"],
    },
)


def chain(thing: str) -> list[str]:
    """What is made on the way to a thing, itself at the end."""
    return [*chain(MADE_OF[thing]), thing] if thing in MADE_OF else []


def line(thing: str) -> str:
    """What a thing is made of in the end."""
    return MADE_OF[chain(thing)[0]]


def missing(number: int) -> list[str]:
    """The things for which there are no tools in the place of that number."""
    return sorted(Random(f"workshop {number}").sample(list(MADE_OF), LACKS))


def _materials() -> dict[str, list[str]]:
    """What each thing might take; here it takes the first."""
    draw = Random("materials of the workshop")
    return {thing: draw.sample(MATERIALS, MIGHT) for thing in MADE_OF}


MIGHT_TAKE = _materials()


def takes(workshop: int) -> dict[str, str]:
    """What each thing takes in a workshop, 0 being this one."""
    draw = Random(f"materials of workshop {workshop}")
    return {thing: draw.choice(might) if workshop else might[0] for thing, might in MIGHT_TAKE.items()}


class Bench:
    """What actions do in a place of a workshop, 0 being this one."""

    def __init__(self, number: int, workshop: int) -> None:
        lacks = missing(number)
        self._takes = {thing: material for thing, material in takes(workshop).items() if thing not in lacks}
        self._makes = {(MADE_OF[thing], material): thing for thing, material in self._takes.items()}

    def after(self, thing: str, on: str, material: str) -> str | None:
        """What one holds who held a thing and worked on something; None where nothing comes of it."""
        return self._makes.get((on, material)) if on == thing or on in LINES else None

    def way(self, thing: str, goal: str) -> list[tuple[str, str]] | None:
        """The shortest way to a thing; None where there is none."""
        whole = chain(goal)
        left = whole[whole.index(thing) + 1 if thing in whole else 0 :]
        if any(each not in self._takes for each in left):
            return None
        return [(MADE_OF[each], self._takes[each]) for each in left]


def task_of(number: int, thing: str, split: str, workshop: int = 0) -> Task:
    """A goal in a place of a workshop as a task."""
    return Task(
        id=f"workshop/{number}/{thing}",
        env="Workshop",
        instruction=f"Place {number}: make {thing}",
        split=split,
        data={"place": number, "thing": thing, "workshop": workshop},
        tags=(thing,),
    )


class Workshop:
    """The world. The task says everything, so the seed changes nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=TURNS)
    own_random: ClassVar[bool] = True

    @classmethod
    def tasks(cls, split: str = "train") -> Iterable[Task]:
        """A task of each place: things as `LINES` and `TURNS_OF` have them (train), or each time one of those that had
        the fewest tasks."""
        if split not in PLACES:
            raise UsageError(f"no split {split!r}; there are {', '.join(PLACES)}")
        draw, had = Random(f"workshop of {split}"), Counter[str]()
        for number in PLACES[split]:
            workshop = number if split == "elsewhere" else 0
            bench = Bench(number, workshop)
            things = [each for each in MADE_OF if bench.way("", each)]
            fewest = min((had[each] for each in things), default=0)
            often = [_often(each) if split == "train" else had[each] == fewest for each in things]
            if any(often):
                thing = draw.choices(things, often)[0]
                had[thing] += 1
                yield task_of(number, thing, split, workshop)

    async def reset(self, task: Task, seed: int) -> Observation:
        """For what there are no tools, the goal, and the tool to act with."""
        number, workshop = int(task.data["place"]), int(task.data["workshop"])
        self._goal = str(task.data["thing"])
        self._knows, self._draw = not workshop, Random(f"expert of {task.id}")
        self._bench, self._thing, self._made = Bench(number, workshop), "", False
        self._left = TURNS if workshop else len(chain(self._goal)) + SPARE
        goal = f"Make {self._goal}, of {line(self._goal)}."
        opening = f"No tools for: {', '.join(missing(number))}. Turns: {self._left}.\n{goal} {self._holds()}"
        return Observation(messages=(system("You make things in a workshop."), user(opening)), tools=(_TOOL,))

    async def step(self, action: Message) -> Observation:
        """Carry out the calls; the goal in time ends it, and so do words without a call."""
        if not action.tool_calls:
            return Observation(reward=0.0, done=True)
        self._left -= 1
        answers = tuple(tool_result(each.id, self._do(_read(each.arguments)), each.name) for each in action.tool_calls)
        return Observation(messages=answers, reward=float(self._made), done=self._made)

    async def evaluate(self) -> Evaluation:
        """1 where one has made the thing in time."""
        return Evaluation(score=float(self._made), success=self._made)

    async def expert(self) -> Message:
        """The next action of the shortest way; gives up where there is none. Elsewhere it does not know each material
        by heart, and tries another one at times."""
        found = self._bench.way(self._thing, self._goal)
        if not found:
            return await self.null()
        on, material = found[0]
        tries = not self._knows and self._draw.random() < TRIES
        return _work(on, self._draw.choice(MATERIALS) if tries else material)

    async def null(self) -> Message:
        """Give up."""
        return assistant("It cannot be done.")

    async def close(self) -> None:
        """Nothing is held."""

    async def goals(self, task: Task) -> Sequence[Goal]:
        """Every thing; what is behind one without tools cannot be made."""
        return [_goal(thing) for thing in MADE_OF]

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """The things that the actions made, each once."""
        bench, thing = Bench(int(task.data["place"]), int(task.data["workshop"])), ""
        since: dict[str, tuple[int, ...]] = {thing: ()}
        found: list[Achieved] = []
        for at, action in enumerate(actions):
            before = since[thing]
            for made in action.tool_calls:
                on, material = _read(made.arguments)
                if (after := bench.after(thing, on, material)) is not None:
                    before, thing = () if on in LINES else before, after
            if thing not in since:
                found.append(Achieved(goal=_goal(thing), turn=at + 1, kept=(*before, at)))
            since.setdefault(thing, (*before, at))
        return found

    async def task(self, task: Task, goal: Goal) -> Task:
        """The goal in the task's place."""
        thing = str(goal.data.get("thing"))
        if thing not in MADE_OF:
            raise UsageError(f"there is no goal {goal.words!r}")
        return task_of(int(task.data["place"]), thing, "synthesised", int(task.data["workshop"]))

    async def actions(self) -> Sequence[Message]:
        """What might bring something about: work on what one holds, or on what there is with empty hands."""
        return [_work(on, material) for on in ([self._thing] if self._thing else LINES) for material in MATERIALS]

    def _do(self, action: tuple[str, str]) -> str:
        made = None if self._made else self._bench.after(self._thing, *action)
        if made is None:
            return f"Nothing comes of it. {self._holds()}"
        self._thing, self._made = made, made == self._goal and self._left >= 0
        return self._holds()

    def _holds(self) -> str:
        return f"You hold: {self._thing or 'nothing'}."


def _often(thing: str) -> int:
    way = chain(thing)
    return LINES[line(thing)] * TURNS_OF.get(len(way), 0)


def _work(on: str, material: str) -> Message:
    return assistant("", call("work", {"on": on, "with": material}))


def _goal(thing: str) -> Goal:
    return Goal(words=f"make {thing}", data={"thing": thing}, pattern=line(thing))


def _read(arguments: str) -> tuple[str, str]:
    try:
        said: Any = json.loads(arguments)
        return str(said["on"]), str(said["with"])
    except (ValueError, KeyError, TypeError):
        return "", ""
