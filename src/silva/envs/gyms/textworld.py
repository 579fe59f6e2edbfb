"""TextWorld: text games made from a seed, solved by commands, scored by the game.

    task (size, seed) ─▶ make_game, compile_game (once, kept in a cache folder) ─▶ commands ─▶ score / max_score

The expert is TextWorld's own policy for the state the game is in. A message without a call gives up. A task whose data
names a `goal` (`silva.envs.gyms.textworld_goals`) is over when that fact comes to hold; the expert does not know it.

Where one thing is called `chest` and another `type K chest`, the game may ask which chest is meant, and no answer names
the first: TextWorld's policy says `take key from chest` for ever. Such a thing is taken without saying from where.
"""

from __future__ import annotations

import copyreg
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import jericho
import textworld
from textworld.generator import compile_game, make_game
from textworld.generator.game import GameOptions

from silva.envs.gyms import textworld_goals
from silva.envs.home import home
from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, assistant, call, system, tool_result, user

SIZES = {"small": (1, 4, 1), "medium": (3, 6, 4), "large": (6, 10, 8)}
"""Rooms, objects and length of the quest."""

_SEEDS = {"test": range(50), "train": range(1000, 2000)}
_BLANKS = re.compile(r"[ \t]*\n\s*\n+")
_RULES = system(
    "You play a text adventure. Type commands with the tool act, one at a time (look, inventory, go north, "
    "take lamp, open chest, unlock gate with key …). Stop calling the tool to give up."
)
_ACT = Tool(
    name="act",
    description="Type one command; returns what the game answers.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
_WANTED = textworld.EnvInfos(
    objective=True,
    description=True,
    won=True,
    lost=True,
    score=True,
    max_score=True,
    policy_commands=True,
    entities=True,
)
_TAKE = re.compile(r"take (.+) from (.+)")


class TextWorld:
    """One game at a time. The game is the task's; the seed of a reset changes nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=50)

    def __init__(self) -> None:
        self._game: Any = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """Fifty (train: a thousand) games of each size, the sizes in turn; made when first played."""
        if split not in _SEEDS:
            raise UsageError(f"no split {split!r}; there are {', '.join(_SEEDS)}")
        for seed in _SEEDS[split]:
            for size, (rooms, objects, length) in SIZES.items():
                yield Task(
                    id=f"textworld/{size}/{seed}",
                    env="textworld",
                    instruction=f"A TextWorld game: {rooms} rooms, {objects} objects, a quest of {length} commands",
                    split=split,
                    data={"size": size, "seed": seed},
                    tags=(size,),
                )

    async def reset(self, task: Task, seed: int) -> Observation:
        """The rules, the objective and the first room."""
        await self._enter(task)
        self._goal: Any = task.data.get("goal")
        self._held = False
        asked = self._state["objective"]
        if self._goal is not None:
            asked = f"Your task: {textworld_goals.goal(self._state, self._goal).words}."
        text = f"{asked}\n\n{self._state['description']}"
        return Observation(messages=(_RULES, user(_tidy(text))), tools=(_ACT,))

    async def step(self, action: Message) -> Observation:
        """Type the commands until the game ends."""
        if not action.tool_calls:
            self._ended = True
            return Observation(reward=0.0, done=True)
        before = self._share()
        answers: list[Message] = []
        for made in action.tool_calls:
            text = "The game is over."
            if not self._ended:
                try:
                    command = str(made.parsed()["command"]).strip()
                except (ValueError, KeyError) as error:
                    text = f"error: give act a command ({error})"
                else:
                    # One line, or the interpreter would take the rest for further commands.
                    self._state, _, self._ended = self._game.step(_line(command))
                    text = _tidy(self._state["feedback"])
                    if self._goal is not None and textworld_goals.holds(self._state, self._goal):
                        self._held = self._ended = True
            answers.append(tool_result(made.id, text, made.name))
        return Observation(messages=tuple(answers), reward=self._share() - before, done=self._ended)

    async def evaluate(self) -> Evaluation:
        """The game's score over its greatest, success is winning; of a goal, whether it came to hold."""
        if self._goal is not None:
            return Evaluation(score=float(self._held), success=self._held)
        metrics = {"points": float(self._state["score"]), "most_points": float(self._state["max_score"])}
        return Evaluation(score=self._share(), success=bool(self._state["won"]), metrics=metrics)

    async def expert(self) -> Message:
        """The next command of a winning policy from the present state.

        Raises:
            UsageError: the task is a goal, which that policy does not know.
        """
        if self._goal is not None:
            raise UsageError("TextWorld's policy wins the game's own quest; it knows no way to a goal")
        commands = self._state["policy_commands"]
        command = _understood(commands[0], self._state["entities"]) if commands else "look"
        return assistant("", call("act", {"command": command}))

    async def null(self) -> Message:
        """Give up."""
        return assistant("I give up.")

    async def goals(self, task: Task) -> Sequence[Goal]:
        """Facts of the game that do not hold at its beginning."""
        await self._enter(task)
        return textworld_goals.goals(self._state)

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """The facts that the commands bring about."""
        await self._enter(task)
        return textworld_goals.looked_back(self._game, self._state, map(_commands, actions))

    async def task(self, task: Task, goal: Goal) -> Task:
        """The game with that goal instead of its quest."""
        await self._enter(task)
        known = textworld_goals.goal(self._state, goal.data)
        size, seed = task.data["size"], task.data["seed"]
        return Task(
            id=f"textworld/{size}/{seed}/{'-'.join(known.data['fact'])}",
            env="textworld",
            instruction=f"A TextWorld game: {known.words}",
            split="synthesised",
            data={"size": size, "seed": seed, "goal": known.data},
            tags=(size, known.pattern),
        )

    async def actions(self) -> Sequence[Message]:
        """The commands that the game would take now."""
        return [assistant("", call("act", {"command": each})) for each in textworld_goals.valid(self._state)]

    async def close(self) -> None:
        """End the game."""
        if self._game is not None:
            self._game.close()
            self._game = None

    async def _enter(self, task: Task) -> None:
        await self.close()
        self._game = textworld.start(str(game_file(task.data["size"], task.data["seed"])), request_infos=_WANTED)
        self._state = self._game.reset()
        self._ended = False

    def _share(self) -> float:
        if self._goal is not None:
            return float(self._held)
        return max(0.0, float(self._state["score"])) / max(1.0, float(self._state["max_score"]))


def game_file(size: str, seed: int) -> Path:
    """The compiled game, made now unless it stands in the cache (`$SILVA_HOME/cache/textworld`)."""
    cache = home() / "cache" / "textworld" / textworld.__version__
    folder = cache / f"{size}-{seed}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache, prefix=f".{size}-{seed}-"))
        options = GameOptions()
        options.nb_rooms, options.nb_objects, options.quest_length = SIZES[size]
        options.seeds = seed
        options.path = str(made / "game.z8")
        compile_game(make_game(options), options)
        try:
            made.rename(folder)
        except OSError:  # another host made the same game meanwhile
            shutil.rmtree(made)
    return folder / "game.z8"


def _kept(machine: jericho.FrotzEnv) -> tuple[Any, ...]:
    """The interpreter lives in a library of C; its memory, stack and registers are all there is to it."""
    return _taken_up, (machine.story_file.decode(), machine._seed, machine.get_state())


def _taken_up(story: str, seed: int, state: tuple[Any, ...]) -> jericho.FrotzEnv:
    machine = jericho.FrotzEnv(story, seed=seed)
    machine.reset()
    machine.set_state(state)
    return machine


copyreg.pickle(jericho.FrotzEnv, _kept)


def _understood(command: str, names: Iterable[str]) -> str:
    """The command as the game understands it: without the place it takes from, where other things are called by that
    name too and none by that of what is taken."""
    said = _TAKE.fullmatch(command)
    if said is None:
        return command
    known = [(name.lower(), set(name.lower().split())) for name in names]

    def several(thing: str) -> bool:
        thing = thing.lower()
        return any(name != thing and set(thing.split()) <= words for name, words in known)

    return f"take {said[1]}" if several(said[2]) and not several(said[1]) else command


def _line(command: str) -> str:
    return " ".join(command.split()) or "look"


def _commands(action: Message) -> list[str]:
    """The commands of a message; what is none is left out, as `step` answers it in words."""
    found: list[str] = []
    for made in action.tool_calls:
        try:
            found.append(_line(str(made.parsed()["command"])))
        except (ValueError, KeyError):
            continue
    return found


def _tidy(text: str) -> str:
    return _BLANKS.sub("\n\n", text).strip()
