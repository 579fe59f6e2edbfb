"""BFCL multi-turn as an environment: the user speaks in fixed turns, the agent calls functions of simulated services.

One turn: the assistant's tool calls are run on this episode's own services and their results come back; an assistant
message without tool calls ends the user's turn, and the next one follows (with held-out functions added to the tools
where the task says so) until none is left. The verdict is the benchmark's multi-turn checker: after every turn the
services' state must equal the ground truth's and every ground-truth result must have been seen. In the categories
with a missing function or parameter the benchmark's irrelevance checker must agree too (no call in a turn that cannot
be served); `metrics["multi_turn_checker"]` is the first checker's word alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import ClassVar

from silva.envs.gyms.bfcl import corpus, goals
from silva.envs.gyms.bfcl.services import Services, irrelevance_verdict, official_verdict
from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.errors import UsageError
from silva.tree import Json, Message, Task, ToolCall, assistant, call, system, tool_result, user

STEPS_PER_TURN = 20
"""The benchmark ends the whole episode, unscored, when one user turn takes more steps than this."""


def _system_prompt() -> str:
    from bfcl_eval.constants.default_prompts import PROMPT_STYLE_TEMPLATES

    style = PROMPT_STYLE_TEMPLATES["classic"]
    return f"{style['persona']} {style['task']}\n\n{style['multiturn_behavior']}"


class Bfcl:
    """BFCL v4 multi-turn (base, miss_func, miss_param, long_context; 200 tasks each)."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        tools=True, snapshot="deepcopy", simulated_user="scripted", max_turns=100
    )

    lists_all: ClassVar[bool] = False
    """Arguments are free: the calls that are listed are those that its state suggests."""

    def __init__(self) -> None:
        corpus.data_folder()
        self._entry: corpus.Entry | None = None
        self._goal: Json | None = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterator[Task]:
        """All 800 tasks (`test`), or one category's 200.

        Raises:
            UsageError: no such split.
            MissingError: the package is not installed.
        """
        if split != "test" and split not in corpus.CATEGORIES:
            raise UsageError(f"bfcl: no split {split!r}: one of test, {', '.join(corpus.CATEGORIES)}")
        for category in corpus.CATEGORIES if split == "test" else (split,):
            for entry in corpus.category(category).values():
                yield Task(
                    id=f"bfcl/{entry.id}",
                    env="bfcl",
                    instruction="\n".join(text for text in entry.turns if text),
                    split=split,
                    tags=(category, *entry.involved_classes),
                )

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the task; the benchmark draws nothing at random, so `seed` changes nothing.

        Raises:
            UsageError: no task of that id.
        """
        self._entry = entry = _entry(task)
        self._goal = task.data.get("goal")
        self._services = Services(entry)
        self._turns: list[list[list[tuple[str, str]]]] = [[]]
        self._steps = 0
        self._ended = False
        self._forced = False
        if self._goal is not None:
            words = user(str(task.data["words"]))
            return Observation(messages=(system(_system_prompt()), words), tools=goals.tools_of(entry))
        return Observation(messages=(system(_system_prompt()), *self._user_turn()), tools=entry.tools(0))

    async def step(self, action: Message) -> Observation:
        """Run the tool calls, or, when there are none, go on to the user's next turn."""
        entry = self._playing()
        if self._ended:
            return Observation(done=True)
        if action.tool_calls:
            return self._run(action.tool_calls)
        if self._goal is not None or len(self._turns) == len(entry.turns):
            self._ended = True
            return Observation(done=True)
        self._turns.append([])
        self._steps = 0
        turn = len(self._turns) - 1
        return Observation(messages=self._user_turn(), tools=entry.tools(turn) if turn in entry.held_out else None)

    async def evaluate(self) -> Evaluation:
        """The benchmark's verdict; an episode that has not reached its last turn's end fails."""
        entry = self._playing()
        if self._goal is not None:
            success = not self._forced and goals.holds(Services(entry), self._services, self._goal)
            return Evaluation(score=float(success), success=success, metrics={"calls": float(self._calls)})
        finished = self._ended and not self._forced
        official = finished and official_verdict(entry, self._turns)
        success = official and (not entry.category.startswith("miss_") or irrelevance_verdict(entry, self._turns))
        metrics = {
            "multi_turn_checker": float(official),
            "turns": float(len(self._turns)),
            "calls": float(self._calls),
        }
        return Evaluation(score=float(success), success=success, metrics=metrics)

    async def close(self) -> None:
        """Let go of the services."""
        self._entry = None

    async def expert(self) -> Message:
        """The ground truth's calls of this turn in one message, then words that end the turn.

        Raises:
            UsageError: the task is a goal, for which there is no ground truth.
        """
        if self._goal is not None:
            raise UsageError("the benchmark's ground truth is for its own requests, not for a goal")
        turn = len(self._turns) - 1
        calls = self._playing().ground_truth[turn]
        if not calls or self._steps:
            return assistant("That is all I can do for this request.")
        return assistant("", *(call(c.name, c.arguments, f"call_{turn}_{i}") for i, c in enumerate(calls)))

    async def null(self) -> Message:
        """Words and no call; scores 0 on every task."""
        return assistant("I cannot help with that.")

    async def goals(self, task: Task) -> Sequence[Goal]:
        """What one or two calls would change in the services' state."""
        return goals.goals(_entry(task))

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """What the calls change in the services' state."""
        return goals.looked_back(_entry(task), map(_calls, actions))

    async def task(self, task: Task, goal: Goal) -> Task:
        """A request for those changes, in the goal's own words."""
        known, entry = goals.checked(goal), _entry(task)
        name = hashlib.blake2b(json.dumps([known.words, known.data]).encode(), digest_size=6).hexdigest()
        return Task(
            id=f"bfcl/{entry.id}/{name}",
            env="bfcl",
            instruction=known.words,
            split="synthesised",
            data={"entry": f"bfcl/{entry.id}", "words": known.words, "goal": known.data},
            tags=("synthesised", *entry.involved_classes),
        )

    async def actions(self) -> Sequence[Message]:
        """Calls that the services would carry out now, drawn from their state."""
        made = goals.valid(self._services, goals.tools_of(self._playing()))
        return [assistant("", call(name, arguments)) for name, arguments in made]

    @property
    def _calls(self) -> int:
        return sum(len(step) for turn in self._turns for step in turn)

    def _playing(self) -> corpus.Entry:
        if self._entry is None:
            raise UsageError("bfcl: no task is being played: call reset first")
        return self._entry

    def _user_turn(self) -> tuple[Message, ...]:
        from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC

        # A turn without words is the one at which held-out functions appear.
        return (user(self._playing().turns[len(self._turns) - 1] or DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC),)

    def _run(self, calls: tuple[ToolCall, ...]) -> Observation:
        results: list[Message] = []
        made: list[tuple[str, str]] = []
        for made_call in calls:
            try:
                arguments = made_call.parsed()
            except ValueError as error:
                results.append(tool_result(made_call.id, f"Error: {error}", made_call.name))
                continue
            made.append((made_call.name, made_call.arguments))
            answer = self._services.call(made_call.name, arguments)
            results.append(tool_result(made_call.id, answer, made_call.name))
        if made:
            self._turns[-1].append(made)
        self._steps += 1
        self._forced = self._ended = self._steps > STEPS_PER_TURN
        return Observation(messages=tuple(results), done=self._forced, truncated=self._forced)


def _entry(task: Task) -> corpus.Entry:
    return corpus.entry(str(task.data.get("entry", task.id)))


def _calls(action: Message) -> list[goals.Call]:
    """The calls of a message; what is none is left out, as `step` answers it in words."""
    found: list[goals.Call] = []
    for made in action.tool_calls:
        try:
            found.append((made.name, made.parsed()))
        except ValueError:
            continue
    return found
