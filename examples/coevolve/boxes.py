"""Boxes: three boxes with things in them, one open, one closed, one locked; the key may be anywhere, or nowhere.

    Goal: put cup in red.  Table: key. Boxes: red open (pen), green closed, white locked.
    act(unlock white) ─▶ act(open white) ─▶ "white is open: cup." ─▶ act(take cup) ─▶ act(put red) ─▶ done

What a closed box holds is not seen, and a place allows goals in words that cannot be reached there: a thing that is not
there, or one in a locked box without a key. The environment says what actions brought about and makes it a task (port
`Synthesis`), lists the valid actions (`ListsActions`), and knows the shortest way (its expert searches it).

Tasks of `train` are as a user's first tasks are: most of them easy, few of them long. Those of `test` are of all kinds
in equal numbers; few of the `lessons` have a lock in them. Each split has places of its own, and tasks that can be
solved.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from random import Random
from typing import Any, ClassVar

from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, assistant, call, system, tool_result, user

COLOURS = ("red", "green", "blue", "white")
THINGS = ("cup", "pen", "coin", "rope", "book")
KEY, TABLE = "key", "table"
VERBS = ("open", "unlock", "take", "put")
WHATS = (*COLOURS, *THINGS, KEY, TABLE)
PLACES = {"train": range(480), "lessons": range(2000, 4800), "test": range(1000, 1120)}
KINDS = ("open", "hold", "put", "open locked", "hold locked", "put locked")
"""Kinds of tasks: what is asked, and whether a lock stands in the way."""
TAIL = {"open": 10, "hold": 8, "put": 2, "open locked": 2, "hold locked": 1, "put locked": 1}
"""How often each is among the tasks of `train`."""
TAUGHT = {"open": 6, "hold": 6, "put": 6, "open locked": 2, "hold locked": 1, "put locked": 1}
"""How often each is among the `lessons`."""
LONGEST = 12

_TOOL = Tool(
    name="act",
    description="Do one thing; returns what then is.",
    parameters={
        "type": "object",
        "properties": {"do": {"type": "string", "enum": list(VERBS)}, "what": {"type": "string", "enum": list(WHATS)}},
        "required": ["do", "what"],
    },
)

State = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
"""Boxes with their states, and things with where they are: a colour, `table` or `hand`."""


def place(number: int) -> State:
    """The place of that number as it is at the beginning."""
    draw = Random(f"boxes {number}")
    colours = draw.sample(COLOURS, 3)
    boxes = dict(zip(colours, ("open", "closed", "locked"), strict=True))
    things = {thing: draw.choice(colours) for thing in draw.sample(THINGS, 2)}
    where = draw.choice([TABLE, TABLE, colours[0], colours[1], ""])
    things |= {KEY: where} if where else {}
    return tuple(sorted(boxes.items())), tuple(sorted(things.items()))


def after(state: State, verb: str, what: str) -> State | None:
    """The state behind an action; None where it does nothing."""
    boxes, things = dict(state[0]), dict(state[1])
    held = next((thing for thing, where in things.items() if where == "hand"), None)
    if verb == "open" and boxes.get(what) == "closed":
        boxes[what] = "open"
    elif verb == "unlock" and boxes.get(what) == "locked" and held == KEY:
        boxes[what] = "closed"
    elif verb == "take" and held is None and _reachable(boxes, things.get(what, "")):
        things[what] = "hand"
    elif verb == "put" and held is not None and _reachable(boxes, what):
        things[held] = what
    else:
        return None
    return tuple(sorted(boxes.items())), tuple(sorted(things.items()))


def _reachable(boxes: dict[str, str], where: str) -> bool:
    return where == TABLE or boxes.get(where) == "open"


def holds(state: State, goal: dict[str, str]) -> bool:
    """Whether a goal is reached."""
    boxes, things = dict(state[0]), dict(state[1])
    if goal["kind"] == "open":
        return boxes.get(goal["box"]) == "open"
    return things.get(goal["thing"]) == goal.get("box", "hand")


def moves(state: State) -> Iterator[tuple[str, str]]:
    """What might do something in a state."""
    boxes, things = [box for box, _ in state[0]], [thing for thing, _ in state[1]]
    for verb, names in (("open", boxes), ("unlock", boxes), ("take", things), ("put", [*boxes, TABLE])):
        yield from ((verb, name) for name in names)


def ways(state: State) -> Iterator[tuple[State, list[tuple[str, str]]]]:
    """Every state that can be reached, the nearest first, with the shortest way there."""
    known: dict[State, list[tuple[str, str]]] = {state: []}
    waiting = deque([state])
    while waiting:
        here = waiting.popleft()
        yield here, known[here]
        for verb, what in moves(here) if len(known[here]) < LONGEST else ():
            there = after(here, verb, what)
            if there is not None and there not in known:
                known[there] = [*known[here], (verb, what)]
                waiting.append(there)


def way(state: State, goal: dict[str, str]) -> list[tuple[str, str]] | None:
    """The shortest way to a goal; None where there is none."""
    return next((found for there, found in ways(state) if holds(there, goal)), None)


@cache
def kinds(number: int) -> dict[str, str]:
    """Of each goal of a place that can be reached, in words, which kind of task it is."""
    state = place(number)
    left, found = list(listed(state)), dict[str, str]()
    for there, how in ways(state):
        for goal in [each for each in left if holds(there, each)]:
            locked = " locked" if any(verb == "unlock" for verb, _ in how) else ""
            found[words(goal)] = goal["kind"] + locked
            left.remove(goal)
    return found


def listed(state: State) -> Iterator[dict[str, str]]:
    """Every goal that can be said of a place, reachable or not, that does not hold yet."""
    colours = [colour for colour, _ in state[0]]
    goals: list[dict[str, str]] = [{"kind": "open", "box": colour} for colour in colours]
    goals += [{"kind": "hold", "thing": thing} for thing in THINGS]
    goals += [{"kind": "put", "thing": thing, "box": colour} for thing, colour in product(THINGS, colours)]
    yield from (goal for goal in goals if not holds(state, goal))


def words(goal: dict[str, str]) -> str:
    """A goal in words."""
    if goal["kind"] == "put":
        return f"put {goal['thing']} in {goal['box']}"
    return f"{goal['kind']} {goal.get('thing') or goal.get('box')}"


def task_of(number: int, goal: dict[str, str], split: str, kind: str = "") -> Task:
    """A goal in a place as a task."""
    said = words(goal)
    return Task(
        id=f"boxes/{number}/{said.replace(' ', '-')}",
        env="Boxes",
        instruction=f"Place {number}: {said}",
        split=split,
        data={"place": number, "goal": goal},
        tags=(kind or goal["kind"],),
    )


class Boxes:
    """The world. The task says everything, so the seed changes nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=LONGEST)
    own_random: ClassVar[bool] = True

    @classmethod
    def tasks(cls, split: str = "train") -> Iterable[Task]:
        """A task of each place that has one: kinds as `TAIL` or `TAUGHT` has them, or in turn (test)."""
        if split not in PLACES:
            raise UsageError(f"no split {split!r}; there are {', '.join(PLACES)}")
        draw = Random(f"tasks of {split}")
        for at, number in enumerate(PLACES[split]):
            often = {"train": TAIL, "lessons": TAUGHT}.get(split)
            wanted = draw.choices(list(often), list(often.values()))[0] if often else KINDS[at % len(KINDS)]
            found = [goal for goal in listed(place(number)) if kinds(number).get(words(goal)) == wanted]
            if found:
                yield task_of(number, draw.choice(found), split, wanted)

    async def reset(self, task: Task, seed: int) -> Observation:
        """The goal, what is seen, and the tool."""
        self._goal: dict[str, str] = task.data["goal"]
        self._state = place(int(task.data["place"]))
        self._way: list[tuple[str, str]] | None = None
        self._over = False
        return Observation(
            messages=(system("You move things."), user(f"Goal: {words(self._goal)}.\n{self._seen()}")), tools=(_TOOL,)
        )

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
        if not self._way:
            self._way = way(self._state, self._goal)
        if not self._way:
            return assistant("It cannot be done.")
        verb, what = self._way[0]
        return assistant("", call("act", {"do": verb, "what": what}))

    async def null(self) -> Message:
        """Give up."""
        return assistant("I give up.")

    async def close(self) -> None:
        """Nothing is held."""

    async def goals(self, task: Task) -> Sequence[Goal]:
        """Every goal that can be said of the place; half of them cannot be reached."""
        return [_goal(each) for each in listed(place(int(task.data["place"])))]

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """What the actions brought about, each goal once."""
        state = place(int(task.data["place"]))
        wanted = list(listed(state))
        since: dict[State, tuple[int, ...]] = {state: ()}
        found: list[Achieved] = []
        for number, action in enumerate(actions):
            before = since[state]
            for made in action.tool_calls:
                verb, what = _read(made.arguments)
                state = after(state, verb, what) or state
            since.setdefault(state, (*before, number))
            reached = [goal for goal in wanted if holds(state, goal)]
            wanted = [goal for goal in wanted if goal not in reached]
            found += [Achieved(goal=_goal(goal), turn=number + 1, kept=since[state]) for goal in reached]
        return found

    async def task(self, task: Task, goal: Goal) -> Task:
        """The goal in the task's place."""
        number = int(task.data["place"])
        if goal.data not in list(listed(place(number))):
            raise UsageError(f"place {number} has no goal {goal.words!r}")
        return task_of(number, goal.data, "synthesised")

    async def actions(self) -> Sequence[Message]:
        """What does something now."""
        return [
            assistant("", call("act", {"do": verb, "what": what}))
            for verb, what in moves(self._state)
            if after(self._state, verb, what) is not None
        ]

    def _do(self, action: tuple[str, str]) -> str:
        there = after(self._state, *action)
        if self._over or there is None:
            return "Nothing happens."
        self._state = there
        self._way = self._way[1:] if self._way and self._way[0] == action else None
        return self._seen()

    def _seen(self) -> str:
        boxes, things = self._state

        def at(where: str) -> str:
            return ", ".join(thing for thing, there in things if there == where) or "nothing"

        shown = [f"{box} {how} ({at(box)})" if how == "open" else f"{box} {how}" for box, how in boxes]
        return f"Hand: {at('hand')}. Table: {at(TABLE)}. Boxes: {', '.join(shown)}."


def _goal(data: dict[str, str]) -> Goal:
    return Goal(words=words(data), data=data, pattern=data["kind"])


def _read(arguments: str) -> tuple[str, str]:
    try:
        said: Any = json.loads(arguments)
        return str(said["do"]), str(said["what"])
    except (ValueError, KeyError, TypeError):
        return "", ""
