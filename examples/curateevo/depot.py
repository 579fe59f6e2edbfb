"""A depot: look up where a thing is, fetch it, give it to whom it is for, say so; and say so where there is no such
thing.

    Bring "lamp" to "Anna".   look_up ─▶ "lamp: window" ─▶ fetch red ─▶ "You hold lamp." ─▶ give one ─▶ "Anna has lamp."
                              ─▶ "Done."
                              look_up ─▶ "lamp: nowhere" ─▶ "It cannot be done."

Which shelf stands by the window, and at which desk Anna sits, is for whoever works there to learn; in another depot
(the split `elsewhere`) the work is the same, and two of four shelves and five of six desks are called otherwise.

A small world for CurateEvo: some goals are infeasible, and its logs are as logs are. A task of a raw corpus says by
whom it is worked on (`data.worker`): a `careful` one; a `mistaken` one, who carries out another errand than the one
under which the log files it, and is told that it was right; a `quitter`, who gives up halfway; a `wanderer`, who does
anything but. With the share of `slips` of a rollout's expert, their logs have wrong turns in them besides. The split
`log` is such a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from random import Random
from typing import Any, ClassVar

import msgspec

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.tree import Message, Task, Tool, ToolCall, assistant, call, system, tool_result, user

THINGS = ("lamp", "rope", "cup", "book", "coat", "drum", "key", "map", "bell", "clock", "pen", "hat")
PEOPLE = ("Anna", "Ben", "Carla", "David", "Emma", "Felix")
SHELVES = {"window": "red", "door": "green", "stairs": "blue", "wall": "white"}
"""Where a shelf stands, and what it is called."""
DESKS: dict[str, str] = dict(zip(PEOPLE, ("one", "two", "three", "four", "five", "six"), strict=True))
NOWHERE = "nowhere"
DONE, CANNOT = "Done.", "It cannot be done."
TURNS = 8


def _tool(name: str, what: str, argument: str = "", values: Sequence[str] = ()) -> Tool:
    properties = {argument: {"type": "string", "enum": list(values)}} if argument else {}
    return Tool(
        name=name,
        description=what,
        parameters={"type": "object", "properties": properties, "required": list(properties)},
    )


TOOLS = (
    _tool("look_up", "Look up where the thing is."),
    _tool("fetch", "Fetch what is wanted from a shelf.", "shelf", list(SHELVES.values())),
    _tool("give", "Give what you hold to somebody.", "desk", list(DESKS.values())),
)


def errand(thing: str, shelf: str, person: str, worker: str = "careful", meant: str = "", number: int = 0) -> Task:
    """One errand: a thing that is on `shelf` (or nowhere) is for `person`. `meant` is whom a mistaken worker brings it
    to; `number` tells the errands of a log apart."""
    log = f"-{worker}-{number}" if number else ""
    return Task(
        id=f"depot/{thing}-{shelf}-{person.lower()}{log}",
        env="Depot",
        instruction=f'Bring "{thing}" to "{person}".',
        data={"thing": thing, "shelf": shelf, "person": person, "worker": worker, "meant": meant},
        tags=("infeasible" if shelf == NOWHERE else "feasible",),
    )


def errands() -> list[Task]:
    """Every errand: each thing, from every shelf and from nowhere, for everybody."""
    return [errand(*each) for each in product(THINGS, (*SHELVES, NOWHERE), PEOPLE)]


def logged(tasks: Sequence[Task], count: int, seed: int, infeasible: float = 0.06) -> list[Task]:
    """A raw corpus as a depot's log would give it: `count` errands of those given, worked on by whoever was there.

    Args:
        tasks: errands.
        count: how many.
        seed: of what is drawn.
        infeasible: the share of errands for a thing that is nowhere: few are written down.
    """
    draw = Random(f"log {seed}")
    can = [task for task in tasks if task.data["shelf"] != NOWHERE]
    cannot = [task for task in tasks if task.data["shelf"] == NOWHERE]
    made: list[Task] = []
    for number in range(1, count + 1):
        known: Any = draw.choice(cannot if draw.random() < infeasible else can).data
        worker = draw.choices(("careful", "mistaken", "quitter", "wanderer"), (0.4, 0.2, 0.2, 0.2))[0]
        others = [person for person in PEOPLE if person != known["person"]]
        meant = draw.choice(others) if worker == "mistaken" else ""
        made.append(errand(known["thing"], known["shelf"], known["person"], worker, meant, number))
    return made


def elsewhere(depot: int = 1) -> list[Task]:
    """Every errand in another depot, for a policy to learn the work there and nothing of this place."""
    return [
        msgspec.structs.replace(task, id=f"{task.id}-elsewhere", data={**task.data, "depot": depot})
        for task in errands()
    ]


def _standing(names: dict[str, str], depot: int) -> dict[str, str]:
    """What is called what in a depot; 0 is this one."""
    words = list(names.values())
    return names if not depot else dict(zip(names, Random(f"depot {depot}").sample(words, len(words)), strict=True))


class Depot:
    """The world. The task says everything; a wanderer's steps are drawn by the seed."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=TURNS)
    own_random: ClassVar[bool] = True

    @classmethod
    def tasks(cls, split: str = "train") -> Iterable[Task]:
        """Every errand; of the split `log`, a raw corpus; of `elsewhere`, every errand in another depot."""
        if split == "elsewhere":
            return elsewhere()
        return logged(errands(), 900, 0) if split == "log" else errands()

    async def reset(self, task: Task, seed: int) -> Observation:
        """The errand, and the tools."""
        self._data: Any = task.data
        depot = self._data.get("depot", 0)
        self._shelves, self._desks = _standing(SHELVES, depot), _standing(DESKS, depot)
        self._draw = Random(f"{task.id} {seed}")
        self._looked, self._holds, self._given, self._said, self._turns = False, False, False, "", 0
        return Observation(messages=(system("You work in a depot."), user(task.instruction)), tools=TOOLS)

    async def step(self, action: Message) -> Observation:
        """Carry out the calls; words without a call end the errand."""
        self._turns += 1
        if not action.tool_calls:
            self._said = action.text.strip()
            return Observation(reward=float(self._done()), done=True)
        answers = tuple(tool_result(each.id, self._do(each), each.name) for each in action.tool_calls)
        return Observation(messages=answers)

    async def evaluate(self) -> Evaluation:
        """1 where the thing was given and that was said; or there was none, and that was looked up and said."""
        return Evaluation(score=float(self._done()), success=self._done())

    async def expert(self) -> Message:
        """What the task's worker would do next."""
        worker = self._data.get("worker", "careful")
        if worker == "wanderer":
            return self._any()
        if worker == "quitter" and self._turns >= 2:
            return assistant(CANNOT)
        if not self._looked:
            return assistant("", call("look_up", {}, "look"))
        if self._data["shelf"] == NOWHERE:
            return assistant(CANNOT)
        if self._given:
            return assistant(DONE)
        if not self._holds:
            return assistant("", call("fetch", {"shelf": self._shelves[self._data["shelf"]]}, "fetch"))
        return assistant("", call("give", {"desk": self._desks[self._for]}, "give"))

    async def null(self) -> Message:
        """Say nothing."""
        return assistant()

    async def close(self) -> None:
        """Nothing is held."""

    @property
    def _for(self) -> str:
        return self._data.get("meant") or self._data["person"]

    def _any(self) -> Message:
        steps: list[tuple[str, dict[str, str]]] = [("look_up", {})]
        steps += [("fetch", {"shelf": shelf}) for shelf in SHELVES.values()]
        steps += [("give", {"desk": desk}) for desk in DESKS.values()]
        return assistant("", call(*self._draw.choice(steps), "any"))

    def _do(self, made: ToolCall) -> str:
        try:
            value = str(next(iter(made.parsed().values()), ""))
        except ValueError as error:
            return f"error: {error}"
        thing, shelf = self._data["thing"], self._data["shelf"]
        match made.name:
            case "look_up":
                self._looked = True
                return f"{thing}: {shelf}"
            case "fetch" if value in SHELVES.values() and not self._holds and not self._given:
                self._holds = value == self._shelves.get(shelf)
                return f"You hold {thing}." if self._holds else "error: that is not here"
            case "give" if value in DESKS.values() and self._holds:
                if value != self._desks[self._for]:
                    return "error: not for me"
                self._holds, self._given = False, True
                return f"{self._for} has {thing}."
            case _:
                return "error: that cannot be done here"

    def _done(self) -> bool:
        if self._data["shelf"] == NOWHERE:
            return self._said == CANNOT and self._looked
        return self._said == DONE and self._given
