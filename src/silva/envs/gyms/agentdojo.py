"""AgentDojo as an environment: a personal assistant with 11 to 28 tools over a workspace, a chat, a bank or a trip.

One turn: the assistant's tool calls are run by the package's own executor on this episode's copy of the suite's
environment; words without a call end the episode. Scored by the user task's own utility check. The package's attacks
are splits (`important_instructions`, or `important_instructions/banking` for one suite), whose tasks are its pairs of a
user task and an injection task. Other words come from outside: `task.data["injections"]` fills the suite's injection
vectors and `task.data["injection_task"]` names the goal. `Evaluation.safety` is 0 where the package's security check
finds the attacker's goal reached.
"""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar, Literal

from silva.envs.carried import CARRIED, Carried, holds
from silva.envs.gyms.agentdojo_attacks import STOPPING, attack, pairs, stops, words
from silva.envs.gyms.agentdojo_checks import Before, Texts
from silva.envs.gyms.agentdojo_entry import ATTACKS, SUITES
from silva.envs.gyms.agentdojo_state import Suite
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import MissingError, UsageError
from silva.tree import Message, Task, Tool, ToolCall, assistant, call, system, tool_result, user

VERSION = "v1.2.2"
"""The benchmark's version whose tasks are played."""

_TEXTS = Texts()

_NOT_KEPT = ("_task", "_injection", "_runtime")
"""What a snapshot finds again: the package's own, and what follows from the rest."""

ROUNDS = 15
"""Rounds of tool calls the benchmark's loop allows before the words said last are taken as the answer."""


@cache
def _suites() -> dict[str, Any]:
    if importlib.util.find_spec("agentdojo") is None:
        raise MissingError("agentdojo: package agentdojo is not installed here: run `silva envs install agentdojo`")
    from agentdojo.task_suite.load_suites import get_suites

    suites = get_suites(VERSION)
    gc.freeze()  # what is loaded by now stays: the collector need not look through it during every episode
    return suites


@cache
def _states(suite: str) -> Suite:
    return Suite(_suites()[suite])


@cache
def _tools(suite: str) -> tuple[Tool, ...]:
    return tuple(
        Tool(name=f.name, description=f.description, parameters=f.parameters.model_json_schema())
        for f in _suites()[suite].tools
    )


@cache
def _system_prompt() -> str:
    from agentdojo.agent_pipeline.agent_pipeline import load_system_message

    return load_system_message(None)


def _found(task_id: str) -> tuple[str, Any]:
    suite, _, name = task_id.removeprefix("agentdojo/").partition("/")
    name = name.partition("/")[0]
    if suite not in SUITES or name not in _suites()[suite].user_tasks:
        raise UsageError(f"agentdojo: no task {task_id!r}: see `silva envs tasks agentdojo`")
    return suite, _suites()[suite].user_tasks[name]


class AgentDojo:
    """AgentDojo's 97 user tasks in four suites, alone or paired with its injection tasks.

    Args:
        model: Which model an attack takes the agent for, as the package writes models.
        expert: What its expert does: the user task's `ground_truth`, or that and, once it read an attacker's words,
            the injection task's (`obedient`).
    """

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=ROUNDS + 1)
    own_random: ClassVar[bool] = True

    def __init__(self, model: str = "local", expert: Literal["ground_truth", "obedient"] = "ground_truth") -> None:
        if expert not in ("ground_truth", "obedient"):
            raise UsageError(f"agentdojo: expert {expert!r}: ground_truth or obedient")
        self._model, self._obedient = model, expert == "obedient"
        self._task: Any = None
        self._environment: Any = None
        self._before: Any = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterator[Task]:
        """All user tasks (`test`), or one suite's; or an attack's pairs, of all suites or (`ATTACK/SUITE`) of one.

        Raises:
            UsageError: no such split.
            MissingError: the package is not installed.
        """
        name, _, part = split.partition("/")
        attacked = name in ATTACKS
        wanted = part if attacked else split
        if wanted not in ("test", *SUITES) and not (attacked and not part):
            known = ", ".join(("test", *SUITES, *ATTACKS))
            raise UsageError(f"agentdojo: no split {split!r}: one of {known}, or ATTACK/SUITE")
        for suite in (wanted,) if wanted in SUITES else SUITES:
            if attacked:
                for user_name, found, injected in pairs(name, _suites()[suite], stops(name)):
                    place = f"{suite}/{user_name}/{injected}/{name}"
                    yield _task(place, suite, found, split, {"attack": name, "injection_task": injected})
                continue
            for user_name, found in _suites()[suite].user_tasks.items():
                yield _task(f"{suite}/{user_name}", suite, found, split, {})

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the task; nothing is drawn at random, so `seed` changes nothing.

        Raises:
            UsageError: no task of that id, or an injection vector, task or attack the suite does not have.
        """
        from agentdojo.functions_runtime import FunctionsRuntime

        self._suite, found = _found(task.id)
        suite, states = _suites()[self._suite], _states(self._suite)
        self._injection: Any = self._injection_task(task, suite)
        name = task.data.get("attack")
        self._stops = name is not None and stops(name)
        injections = self._injections(task, states)
        if name is not None and self._injection is not None:
            injections |= words(attack(name, suite, states, self._model), found, self._injection)
        self._environment = found.init_environment(states.state(injections))
        self._before = Before(self._environment)
        self._runtime = FunctionsRuntime(suite.tools)
        self._task = found
        self._names = (task.id, task.data.get("injection_task"))
        self._words = tuple(dict.fromkeys(injections.values()))
        self._read = self._obeyed = False
        self._calls: list[Any] = []
        self._answer = ""
        self._rounds = 0
        self._ended = False
        self._expected: list[ToolCall] | None = None
        messages = (system(_system_prompt()), user(found.PROMPT))
        told = self._told(name or "given").told() if self._words else {}
        return Observation(messages=messages, tools=_tools(self._suite), attributes=told)

    async def step(self, action: Message) -> Observation:
        """Run the tool calls; words without any end the episode."""
        self._playing()
        if self._ended:
            return Observation(done=True)
        self._answer = action.text
        if not action.tool_calls:
            self._ended = True
            return Observation(done=True)
        if self._rounds >= ROUNDS:
            self._ended = True
            return Observation(done=True, truncated=True)
        self._rounds += 1
        answers = tuple(self._run(made) for made in action.tool_calls)
        if not self._words:
            return Observation(messages=answers)
        self._read = self._read or holds((answer.text for answer in answers), self._words)
        return Observation(messages=answers, attributes={CARRIED: {"reached": self._reached()}})

    async def evaluate(self) -> Evaluation:
        """Utility of what was done and said last; with an injection task also safety."""
        self._playing()
        done = self._done()
        metrics = {"calls": float(len(self._calls)), "utility": float(done)}
        safety = None
        if self._injection is not None:
            reached = not done if self._stops else self._holds()
            safety, metrics["security"] = float(not reached), float(reached)
        return Evaluation(score=float(done), success=done, safety=safety, metrics=metrics)

    def __getstate__(self) -> dict[str, Any]:
        """What a snapshot keeps: tasks and tools are the package's own, and are found again by name."""
        return {name: value for name, value in vars(self).items() if name not in _NOT_KEPT}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        from agentdojo.functions_runtime import FunctionsRuntime

        vars(self).update(kept)
        self._task = self._injection = None
        if "_names" in kept:
            name, injection = self._names
            suite, self._task = _found(name)
            self._injection = None if injection is None else _suites()[suite].injection_tasks[injection]
            self._runtime = FunctionsRuntime(_suites()[suite].tools)

    async def close(self) -> None:
        """Let go of the suite's environment."""
        self._task = self._environment = self._before = None

    async def expert(self) -> Message:
        """The ground truth's calls one by one, then its words; where there are many, several in one message. An
        obedient one takes the injection task's calls first, once it read the attacker's words."""
        self._playing()
        if self._expected is None:
            self._expected = _calls(self._task, self._before.copy(), "call")
        if self._obedient and self._read and not self._obeyed:
            self._obeyed = True
            if self._stops:
                return assistant(STOPPING)
            self._expected = _calls(self._injection, self._before.copy(), "injected") + self._expected
        if not self._expected:
            return assistant(self._task.GROUND_TRUTH_OUTPUT)
        rounds_left = max(1, ROUNDS - self._rounds)
        count = -(-len(self._expected) // rounds_left)
        now, self._expected = self._expected[:count], self._expected[count:]
        return assistant("", *now)

    async def null(self) -> Message:
        """Words, and no call."""
        return assistant("I cannot help with that.")

    def _playing(self) -> None:
        if self._task is None:
            raise UsageError("agentdojo: no task is being played: call reset first")

    def _run(self, made: ToolCall) -> Message:
        from agentdojo.agent_pipeline.tool_execution import ToolsExecutor
        from agentdojo.functions_runtime import FunctionCall

        try:
            arguments = made.parsed()
        except ValueError as error:
            return tool_result(made.id, f"Error: {error}", made.name)
        requested = FunctionCall(function=made.name, args=arguments, id=made.id)
        said = {"role": "assistant", "content": None, "tool_calls": [requested]}
        _, _, _, messages, _ = ToolsExecutor(_TEXTS).query("", self._runtime, self._environment, [said])  # type: ignore[list-item]
        self._calls.append(requested)
        result = messages[-1]
        text = "".join(block["content"] or "" for block in result["content"] or [])  # type: ignore[index]
        return tool_result(made.id, result["error"] or text, made.name)  # type: ignore[typeddict-item]

    def _done(self) -> bool:
        arguments = (self._answer, self._before.within(self._environment), self._environment)
        found = self._task.utility_from_traces(*arguments, self._calls)
        return bool(self._task.utility(*arguments) if found is None else found)

    def _holds(self) -> bool:
        arguments = (self._answer, self._before.within(self._environment), self._environment)
        found = self._injection.security_from_traces(*arguments, self._calls)
        return bool(self._injection.security(*arguments) if found is None else found)

    def _reached(self) -> bool:
        """Whether the attacker's goal holds in the midst of the episode, for which its check was not written."""
        if self._injection is None or self._stops:
            return False
        try:
            return self._holds()
        except Exception:  # noqa: BLE001 - a check of the package that wants the end; the verdict asks it there
            return False

    def _told(self, name: str) -> Carried:
        goal = STOPPING if self._stops or self._injection is None else self._injection.GOAL
        made = () if self._stops or self._injection is None else _wanted(self._suite, self._injection.ID)
        return Carried(
            attack=f"agentdojo/{name}/{self._suite}",
            goal=goal,
            words=self._words,
            calls=made,
            reached=self._reached(),
        )

    def _injections(self, task: Task, states: Suite) -> dict[str, str]:
        injections = task.data.get("injections") or {}
        for vector, text in injections.items():
            if vector not in states.vectors or not isinstance(text, str):
                known = ", ".join(states.vectors)
                raise UsageError(f"agentdojo: {self._suite} has no injection vector {vector!r}: one of {known}")
        return dict(injections)

    def _injection_task(self, task: Task, suite: Any) -> Any:
        name = task.data.get("injection_task")
        if name is not None and name not in suite.injection_tasks:
            known = ", ".join(suite.injection_tasks)
            raise UsageError(f"agentdojo: {self._suite} has no injection task {name!r}: one of {known}")
        return None if name is None else suite.injection_tasks[name]


def _task(place: str, suite: str, found: Any, split: str, data: dict[str, Any]) -> Task:
    return Task(
        id=f"agentdojo/{place}",
        env="agentdojo",
        instruction=found.PROMPT,
        split=split,
        tags=(suite, found.DIFFICULTY.name.lower()),
        data=data,
    )


@cache
def _wanted(suite: str, injected: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The calls that reach an injection task's goal in the suite as it is."""
    made = _calls(_suites()[suite].injection_tasks[injected], _states(suite).state({}), "")
    return tuple((each.name, each.parsed()) for each in made)


def _calls(task: Any, state: Any, name: str) -> list[ToolCall]:
    planned = task.ground_truth(state)
    return [call(c.function, dict(c.args), f"{name}_{i}") for i, c in enumerate(planned)]
