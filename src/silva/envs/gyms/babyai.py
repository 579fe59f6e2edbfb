"""BabyAI: a grid world with a mission in words, seen through the agent's 7 x 7 window, told in words.

    act(action) ─▶ minigrid's step ─▶ what lies in view, relative to the agent ─▶ tool result

The mission is fulfilled when minigrid gives a reward. The expert is minigrid's own bot, which sees what the agent has
seen. A message without a call gives up. What else a grid allows is in `silva.envs.gyms.babyai_goals`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import gymnasium
import minigrid  # noqa: F401 - registers the levels
from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT
from minigrid.utils.baby_ai_bot import BabyAIBot

from silva.envs.gyms import babyai_goals
from silva.envs.gyms.babyai_levels import LEVELS
from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, assistant, call, system, tool_result, user

ACTIONS = ("turn_left", "turn_right", "move_forward", "pick_up", "drop", "toggle", "done")
"""In the order of minigrid's action numbers."""

_SEEDS = {"test": range(10), "train": range(1000, 1100)}
_DOORS = ("open ", "closed ", "locked ")
_RULES = system(
    "You are in a grid world of rooms. You see the cells ahead of you and to your sides; distances are in cells, "
    "relative to the way you face. Fulfil the mission with the tool act, one action at a time. toggle opens doors and "
    "boxes in front of you; pick_up and drop act on the cell in front of you. Stop calling the tool to give up."
)
_ACT = Tool(
    name="act",
    description="Take one action; returns what you then see.",
    parameters={
        "type": "object",
        "properties": {"action": {"type": "string", "enum": list(ACTIONS)}},
        "required": ["action"],
    },
)


class BabyAI:
    """One level at a time. The grid is the task's; the seed of a reset changes nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=128)

    def __init__(self) -> None:
        self._levels: dict[str, Any] = {}

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """Ten (train: a hundred) grids of each level, all levels in turn."""
        if split not in _SEEDS:
            raise UsageError(f"no split {split!r}; there are {', '.join(_SEEDS)}")
        for seed in _SEEDS[split]:
            for level in LEVELS:
                yield Task(
                    id=f"babyai/{level}/{seed}",
                    env="babyai",
                    instruction=f"BabyAI {level}, grid {seed}",
                    split=split,
                    data={"level": level, "seed": seed},
                    tags=(level,),
                )

    async def reset(self, task: Task, seed: int) -> Observation:
        """The rules, the mission and the first view."""
        view = self._enter(task)
        if "goal" in task.data:
            view["mission"] = babyai_goals.give(self._env.unwrapped, task.data["goal"])
        self._reward, self._ended = 0.0, False
        self._bot: Any = None
        self._since: list[int] = []
        return Observation(messages=(_RULES, user(f"Mission: {view['mission']}\n{self._told(view)}")), tools=(_ACT,))

    async def step(self, action: Message) -> Observation:
        """Carry out the calls until the episode ends."""
        if not action.tool_calls:
            self._ended = True
            return Observation(reward=0.0, done=True)
        answers: list[Message] = []
        reward, truncated = 0.0, False
        for made in action.tool_calls:
            text = "The episode is over."
            if not self._ended:
                try:
                    number = ACTIONS.index(made.parsed()["action"])
                except (ValueError, KeyError):
                    text = f"error: give act one action of {', '.join(ACTIONS)}"
                else:
                    view, gained, terminated, truncated, _ = self._env.step(number)
                    self._since.append(number)
                    reward += float(gained)
                    self._ended = terminated or truncated
                    text = ("Mission fulfilled. " if gained > 0 else "") + self._told(view)
            answers.append(tool_result(made.id, text, made.name))
        self._reward += reward
        return Observation(
            messages=tuple(answers), reward=reward, done=self._ended and not truncated, truncated=truncated
        )

    async def evaluate(self) -> Evaluation:
        """1 when the mission was fulfilled; `reward` is minigrid's own, which falls with the steps taken."""
        success = self._reward > 0
        return Evaluation(score=float(success), success=success, metrics={"reward": self._reward})

    async def expert(self) -> Message:
        """The bot's next action; a new bot takes over where others have acted since it was last asked."""
        if self._bot is None or len(self._since) != 1:
            self._bot = BabyAIBot(self._env.unwrapped)
            number = self._bot.replan()
        else:
            number = self._bot.replan(self._since[0])
        self._since.clear()
        return assistant("", call("act", {"action": ACTIONS[int(number)]}))

    async def null(self) -> Message:
        """Give up."""
        return assistant("I give up.")

    async def goals(self, task: Task) -> Sequence[Goal]:
        """The missions that the grid allows."""
        self._enter(task)
        return babyai_goals.goals(self._env.unwrapped)

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """The missions that the actions fulfil."""
        self._enter(task)
        return babyai_goals.looked_back(self._env.unwrapped, map(_numbers, actions))

    async def task(self, task: Task, goal: Goal) -> Task:
        """The grid with that mission."""
        self._enter(task)
        known = babyai_goals.goal(self._env.unwrapped, goal.data)
        level, seed = task.data["level"], task.data["seed"]
        return Task(
            id=f"babyai/{level}/{seed}/{re.sub(r'[^a-z0-9]+', '-', known.words)}",
            env="babyai",
            instruction=f"BabyAI {level}, grid {seed}: {known.words}",
            split="synthesised",
            data={"level": level, "seed": seed, "goal": known.data},
            tags=(level, known.pattern),
        )

    async def actions(self) -> Sequence[Message]:
        """The actions that do something now."""
        return [assistant("", call("act", {"action": name})) for name in babyai_goals.valid(self._env.unwrapped)]

    def __getstate__(self) -> dict[str, Any]:
        """What a snapshot keeps: of the levels the one being played alone."""
        kept = dict(vars(self))
        kept["_levels"] = {name: level for name, level in self._levels.items() if level is vars(self).get("_env")}
        return kept

    async def close(self) -> None:
        """Close the levels."""
        for level in self._levels.values():
            level.close()

    def _enter(self, task: Task) -> Any:
        """Begin the task's level with its own mission; returns the view."""
        level = task.data["level"]
        if level not in self._levels:
            self._levels[level] = gymnasium.make(f"BabyAI-{level}", disable_env_checker=True)
        self._env = self._levels[level]
        view, _ = self._env.reset(seed=task.data["seed"])
        return view

    def _told(self, view: dict[str, Any]) -> str:
        lines: list[str] = []
        image = view["image"]
        width, height = image.shape[0], image.shape[1]
        centre = width // 2
        for depth in range(height):
            for column in range(width):
                kind, colour, state = (int(v) for v in image[column, height - 1 - depth])
                name = IDX_TO_OBJECT[kind]
                if name in ("unseen", "empty", "floor") or (depth == 0 and column == centre):
                    continue
                if name == "wall":
                    if column == centre:
                        lines.append(f"wall {_steps(depth)} forward")
                    continue
                door = _DOORS[state] if name == "door" else ""
                lines.append(f"{door}{IDX_TO_COLOR[colour]} {name} {_place(depth, column - centre)}")
        held = self._env.unwrapped.carrying
        hand = f" You carry a {held.color} {held.type}." if held is not None else ""
        return f"You see: {'; '.join(lines) or 'nothing'}.{hand}"


def _numbers(action: Message) -> list[int]:
    """The minigrid actions of a message; what is none is left out, as `step` answers it in words."""
    found: list[int] = []
    for made in action.tool_calls:
        try:
            found.append(ACTIONS.index(made.parsed()["action"]))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _place(depth: int, aside: int) -> str:
    parts = [f"{_steps(depth)} forward"] if depth else []
    if aside:
        parts.append(f"{_steps(abs(aside))} {'right' if aside > 0 else 'left'}")
    return " and ".join(parts)
