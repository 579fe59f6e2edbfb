"""A small environment that can say what could be, and what was, brought about: a walker along cells, two of which hold
a cup. One of the goals it lists cannot be reached; its own checker is what tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.envs.synthesis import loops_cut
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, assistant, call, system, tool_result, user

ACTIONS = ("left", "right", "take", "drop")
_ACT = Tool(
    name="act",
    description="Do one thing.",
    parameters={"type": "object", "properties": {"action": {"type": "string", "enum": list(ACTIONS)}}},
)


class Shelf:
    """Cells 0 to 4; `data`: {"seed": where the cup stands, "goal": {"stand": cell} or {"hold": true}}."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, max_turns=20)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        for seed in range(1, 5):
            yield Task(
                id=f"shelf/{seed}", env="shelf", instruction=f"hold cup {seed}", split=split, data={"seed": seed}
            )

    def _enter(self, task: Task) -> None:
        self.cell, self.cup, self.held = 0, int(task.data["seed"]), False
        self.goal = task.data.get("goal", {"hold": True})

    async def reset(self, task: Task, seed: int) -> Observation:
        self._enter(task)
        return Observation(messages=(system("You walk along a shelf."), user(_words(self.goal))), tools=(_ACT,))

    def _do(self, action: Message) -> str:
        name = action.tool_calls[0].parsed().get("action") if action.tool_calls else ""
        if name not in ACTIONS:
            return "error: no such action"
        if name in ("left", "right"):
            self.cell = min(4, max(0, self.cell + (1 if name == "right" else -1)))
            self.cup = self.cell if self.held else self.cup
        if name == "take" and self.cup == self.cell:
            self.held = True
        if name == "drop":
            self.held = False
        return f"You are at cell {self.cell}, the cup at {self.cup}, {'held' if self.held else 'standing'}."

    async def step(self, action: Message) -> Observation:
        if not action.tool_calls:
            return Observation(reward=0.0, done=True)
        text = self._do(action)
        done = _holds(self.goal, self)
        made = action.tool_calls[0]
        return Observation(messages=(tool_result(made.id, text, made.name),), reward=float(done), done=done)

    async def evaluate(self) -> Evaluation:
        done = _holds(self.goal, self)
        return Evaluation(score=float(done), success=done)

    async def expert(self) -> Message:
        if "stand" in self.goal:
            return assistant("", call("act", {"action": "right" if self.cell < self.goal["stand"] else "left"}))
        side = "right" if self.cell < self.cup else "left"
        return assistant("", call("act", {"action": "take" if self.cell == self.cup else side}))

    async def null(self) -> Message:
        return assistant("I give up.")

    async def goals(self, task: Task) -> Sequence[Goal]:
        self._enter(task)
        return [_goal({"stand": cell}) for cell in (0, 1, 2, 3, 4, 9)] + [_goal({"hold": True})]

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        self._enter(task)
        states, found = [self._state()], dict[str, Achieved]()
        waiting = [goal for goal in await self.goals(task) if not _holds(goal.data, self)]
        for turn, action in enumerate(actions, 1):
            self._do(action)
            for goal in waiting:
                if _holds(goal.data, self):
                    kept = (*loops_cut(states), turn - 1)
                    found.setdefault(goal.words, Achieved(goal=goal, turn=turn, kept=kept))
            states.append(self._state())
        return list(found.values())

    async def task(self, task: Task, goal: Goal) -> Task:
        if set(goal.data) - {"stand", "hold"} or not goal.data:
            raise UsageError(f"{goal.data} is no goal of a shelf")
        seed = task.data["seed"]
        slug = goal.words.replace(" ", "-")
        return Task(
            id=f"shelf/{seed}/{slug}",
            env="shelf",
            instruction=f"shelf {seed}: {goal.words}",
            split="synthesised",
            data={"seed": seed, "goal": goal.data},
        )

    async def actions(self) -> Sequence[Message]:
        names = [name for name in ACTIONS if name != ("take" if self.held else "drop")]
        return [assistant("", call("act", {"action": name})) for name in names]

    def _state(self) -> str:
        return f"{self.cell} {self.cup} {self.held}"

    async def close(self) -> None: ...


class Plain(Shelf):
    """The same, without any of the ports."""

    goals = achieved = actions = None  # type: ignore[assignment]


class Careless(Shelf):
    """One whose offers are not what they should be."""

    async def goals(self, task: Task) -> Sequence[Goal]:
        return [Goal(words="x" * 5000, data={})] if task.data["seed"] == 1 else ["no goal"]  # type: ignore[list-item]

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        return [Achieved(goal=_goal({"stand": 1}), turn=len(actions) + 1)]


def _goal(data: dict[str, int | bool]) -> Goal:
    return Goal(words=_words(data), data=dict(data), pattern=next(iter(data)))


def _words(data: dict[str, int | bool]) -> str:
    return f"stand at cell {data['stand']}" if "stand" in data else "hold the cup"


def _holds(goal: dict[str, int | bool], shelf: Shelf) -> bool:
    return shelf.cell == goal["stand"] if "stand" in goal else shelf.held
