"""Workshop: things are made of one another; which of six materials makes which of what is to be found out.

    Missing: iron. Turns: 4.  Your hands are empty. To make: brick, wall, arch.
    act(add glass) ─▶ "Made: brick. To make: wall, arch." ─▶ act(add rope) ─▶ "Nothing comes of it. …"

    plank ─▶ frame ─▶ crate ─▶ cart ─▶ wagon ─▶ caravan
    brick ─▶ wall ─▶ arch ─▶ bridge ─▶ viaduct ─▶ aqueduct

A thing is to be made in as many turns as the way to it has, and one more: who does not know a material seldom has the
time to find it out on the way to what is made of that. Who is late may go on, and see what comes of it. So what can be
brought about grows with what a policy has learnt: who tries things at the beginning seldom makes what lies deep. Each
place lacks a material, so that a goal may need what is not there: it cannot be reached. The environment says what
actions brought about and makes it a task (port `Synthesis`), and lists the valid actions (`ListsActions`).

Tasks of `train` are as a user's first tasks are: most are of wood, and few take many turns. Those of `test` are of all
things in equal numbers, in places of their own, and can be done. `elsewhere` is the same in three other workshops: each
thing is made there of what it is made of here, in one of them of the same material, in the others of another one. There
one has time for all that one may do.
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
LACKS = 1
"""Materials that a place is without."""
MADE_OF = {
    "plank": "",
    "frame": "plank",
    "crate": "frame",
    "cart": "crate",
    "wagon": "cart",
    "caravan": "wagon",
    "brick": "",
    "wall": "brick",
    "arch": "wall",
    "bridge": "arch",
    "viaduct": "bridge",
    "aqueduct": "viaduct",
}
"""Each thing, and what it is made of: empty hands, or another thing."""
LINES = {"plank": 8, "brick": 1}
"""How often what begins with each is among the tasks of `train`, and below, how often what takes so many turns is."""
TURNS_OF = {1: 16, 2: 8, 3: 1}
WORKSHOPS = 3
"""Other workshops."""
TRIES = 0.35
"""How often an expert elsewhere tries any material first."""
PLACES = {"train": range(480), "test": range(1000, 1128), "elsewhere": range(2000, 4500)}
TURNS = 8
SPARE = 1
"""Turns that are granted besides those that the way takes."""

_TOOL = Tool(
    name="act",
    description="Do one thing; returns what then is.",
    parameters={
        "type": "object",
        "properties": {
            "do": {"type": "string", "enum": ["add", "drop"]},
            "what": {"type": "string", "enum": [*MATERIALS, "all"]},
        },
        "required": ["do", "what"],
    },
)


def chain(thing: str) -> list[str]:
    """What is made on the way to a thing, itself at the end; of empty hands nothing."""
    return [*chain(MADE_OF[thing]), thing] if thing else []


def missing(number: int) -> list[str]:
    """The materials that are not there in the place of that number."""
    return sorted(Random(f"workshop {number}").sample(MATERIALS, LACKS))


def _materials() -> list[dict[str, str]]:
    """What each thing takes: here, and in the other workshops, where it takes the same in one of them. What is made of
    one thing takes different materials everywhere."""
    draw = Random("materials of the workshop")
    here, others = dict[str, str](), [dict[str, str]() for _ in range(WORKSHOPS)]
    for number, thing in enumerate(MADE_OF):
        before = [each for each in here if MADE_OF[each] == MADE_OF[thing]]
        here[thing] = draw.choice([each for each in MATERIALS if each not in [here[one] for one in before]])
        for at, other in enumerate(others):
            free = [each for each in MATERIALS if each not in [here[thing], *(other[one] for one in before)]]
            other[thing] = draw.choice(free)
            if at == number % WORKSHOPS and all(other[one] != here[thing] for one in before):
                other[thing] = here[thing]
    return [here, *others]


TAKES = _materials()


class Bench:
    """What actions do in a place of a workshop, 0 being this one."""

    def __init__(self, number: int, workshop: int) -> None:
        takes, lacks = TAKES[workshop], missing(number)
        self._makes = {(MADE_OF[each], takes[each]): each for each in MADE_OF if takes[each] not in lacks}
        self._takes = {thing: takes[thing] for thing in self._makes.values()}

    def after(self, thing: str, verb: str, what: str) -> str | None:
        """What an action leaves in one's hands; None where it does nothing."""
        if verb == "drop":
            return "" if thing else None
        return self._makes.get((thing, what)) if verb == "add" else None

    def way(self, thing: str, goal: str) -> list[tuple[str, str]] | None:
        """The shortest way to a thing; None where there is none."""
        whole = chain(goal)
        first = [] if thing in ("", *whole) else [("drop", "all")]
        left = whole[whole.index(thing) + 1 if thing in whole else 0 :]
        return (
            None
            if any(each not in self._takes for each in left)
            else [*first, *(("add", self._takes[each]) for each in left)]
        )


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
        for at, number in enumerate(PLACES[split]):
            workshop = 1 + at % WORKSHOPS if split == "elsewhere" else 0
            bench = Bench(number, workshop)
            things = [each for each in MADE_OF if bench.way("", each)]
            fewest = min((had[each] for each in things), default=0)
            often = [_often(each) if split == "train" else had[each] == fewest for each in things]
            if any(often):
                thing = draw.choices(things, often)[0]
                had[thing] += 1
                yield task_of(number, thing, split, workshop)

    async def reset(self, task: Task, seed: int) -> Observation:
        """What is missing, the goal, and the tool."""
        number, workshop = int(task.data["place"]), int(task.data["workshop"])
        self._goal = str(task.data["thing"])
        self._knows, self._draw = not workshop, Random(f"expert of {task.id}")
        self._bench, self._thing, self._made = Bench(number, workshop), "", False
        self._left = TURNS if workshop else len(chain(self._goal)) + SPARE
        opening = f"Missing: {', '.join(missing(number))}. Turns: {self._left}.\nYour hands are empty. {self._ahead()}"
        return Observation(messages=(system("You work in a workshop."), user(opening)), tools=(_TOOL,))

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
        verb, what = found[0]
        if verb == "add" and not self._knows and self._draw.random() < TRIES:
            what = self._draw.choice(MATERIALS)
        return _act(verb, what)

    async def null(self) -> Message:
        """Give up."""
        return assistant("It cannot be done.")

    async def close(self) -> None:
        """Nothing is held."""

    async def goals(self, task: Task) -> Sequence[Goal]:
        """Every thing; those that need what is missing cannot be made."""
        return [_goal(thing) for thing in MADE_OF]

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """The things that the actions made, each once."""
        bench, thing = Bench(int(task.data["place"]), int(task.data["workshop"])), ""
        since: dict[str, tuple[int, ...]] = {thing: ()}
        found: list[Achieved] = []
        for at, action in enumerate(actions):
            before = since[thing]
            for made in action.tool_calls:
                after = bench.after(thing, *_read(made.arguments))
                thing = thing if after is None else after
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
        """What does something now: the right material is among what might."""
        further = self._thing in MADE_OF.values()
        return [*([_act("drop", "all")] if self._thing else ()), *(_act("add", each) for each in MATERIALS if further)]

    def _do(self, action: tuple[str, str]) -> str:
        made = None if self._made else self._bench.after(self._thing, *action)
        said = "Nothing comes of it."
        if made is not None:
            self._thing, self._made = made, made == self._goal and self._left >= 0
            said = f"Made: {made}." if made else "Your hands are empty."
        return f"{said} {self._ahead()}"

    def _ahead(self) -> str:
        """What is to be made from here on, one thing of the other."""
        whole = chain(self._goal)
        left = whole[whole.index(self._thing) + 1 if self._thing in whole else 0 :]
        return f"To make: {', '.join(left) or 'nothing more'}."


def _often(thing: str) -> int:
    way = chain(thing)
    return LINES[way[0]] * TURNS_OF.get(len(way), 0)


def _act(verb: str, what: str) -> Message:
    return assistant("", call("act", {"do": verb, "what": what}))


def _goal(thing: str) -> Goal:
    return Goal(words=f"make {thing}", data={"thing": thing}, pattern=chain(thing)[0])


def _read(arguments: str) -> tuple[str, str]:
    try:
        said: Any = json.loads(arguments)
        return str(said["do"]), str(said["what"])
    except (ValueError, KeyError, TypeError):
        return "", ""
