"""AgentDojo as an environment: a personal assistant with 11 to 28 tools over a workspace, a chat, a bank or a trip.

One turn: the assistant's tool calls are run by the package's own executor on this episode's copy of the suite's
environment; words without a call end the episode. Scored by the user task's own utility check. Attacks come from
outside: `task.data["injections"]` fills the suite's injection vectors and `task.data["injection_task"]` names the
goal that `Evaluation.safety` then judges (0 where the package's security check finds the attack's goal reached).
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, ClassVar

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import MissingError, UsageError
from silva.tree import Message, Task, Tool, ToolCall, assistant, call, system, tool_result, user

VERSION = "v1.2.2"
"""The benchmark's version whose tasks are played."""

SUITES = ("workspace", "slack", "travel", "banking")

ROUNDS = 15
"""Rounds of tool calls the benchmark's loop allows before the words said last are taken as the answer."""


@cache
def _suites() -> dict[str, Any]:
    if importlib.util.find_spec("agentdojo") is None:
        raise MissingError("agentdojo: package agentdojo is not installed here: run `silva envs install agentdojo`")
    from agentdojo.task_suite.load_suites import get_suites

    return get_suites(VERSION)


@lru_cache(maxsize=256)
def _loaded(suite: str, injections: str) -> Any:
    """The suite's environment with injections filled in; parsing its YAML takes a hundred times a deep copy."""
    return _suites()[suite].load_and_inject_default_environment(json.loads(injections))


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
    if suite not in SUITES or name not in _suites()[suite].user_tasks:
        raise UsageError(f"agentdojo: no task {task_id!r}: see `silva envs show agentdojo`")
    return suite, _suites()[suite].user_tasks[name]


class AgentDojo:
    """AgentDojo's 97 user tasks in four suites."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=ROUNDS + 1)

    def __init__(self) -> None:
        self._task: Any = None
        self._environment: Any = None
        self._before: Any = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterator[Task]:
        """All user tasks (`test`), or one suite's.

        Raises:
            UsageError: no such split.
            MissingError: the package is not installed.
        """
        if split != "test" and split not in SUITES:
            raise UsageError(f"agentdojo: no split {split!r}: one of test, {', '.join(SUITES)}")
        for suite in SUITES if split == "test" else (split,):
            for name, found in _suites()[suite].user_tasks.items():
                tags = (suite, found.DIFFICULTY.name.lower())
                yield Task(
                    id=f"agentdojo/{suite}/{name}", env="agentdojo", instruction=found.PROMPT, split=split, tags=tags
                )

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the task; nothing is drawn at random, so `seed` changes nothing.

        Raises:
            UsageError: no task of that id, or an injection vector or task the suite does not have.
        """
        from agentdojo.functions_runtime import FunctionsRuntime

        self._suite, found = _found(task.id)
        suite = _suites()[self._suite]
        self._injection = self._injection_task(task, suite)
        environment = _loaded(self._suite, self._injections(task, suite)).model_copy(deep=True)
        self._environment = found.init_environment(environment)
        self._before = self._environment.model_copy(deep=True)
        self._runtime = FunctionsRuntime(suite.tools)
        self._task = found
        self._names = (task.id, task.data.get("injection_task"))
        self._calls: list[Any] = []
        self._answer = ""
        self._rounds = 0
        self._ended = False
        self._expected: list[ToolCall] | None = None
        return Observation(messages=(system(_system_prompt()), user(found.PROMPT)), tools=_tools(self._suite))

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
        return Observation(messages=tuple(self._run(made) for made in action.tool_calls))

    async def evaluate(self) -> Evaluation:
        """Utility of what was done and said last; with an injection task also safety."""
        self._playing()
        arguments = (self._answer, self._before, self._environment)
        utility = self._task.utility_from_traces(*arguments, self._calls)
        if utility is None:
            utility = self._task.utility(*arguments)
        safety = None
        if self._injection is not None:
            reached = self._injection.security_from_traces(*arguments, self._calls)
            safety = float(not (self._injection.security(*arguments) if reached is None else reached))
        metrics = {"calls": float(len(self._calls))}
        return Evaluation(score=float(bool(utility)), success=bool(utility), safety=safety, metrics=metrics)

    def __getstate__(self) -> dict[str, Any]:
        """What a snapshot keeps: tasks and tools are the package's own, and are found again by name."""
        return {name: value for name, value in vars(self).items() if name not in ("_task", "_injection", "_runtime")}

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
        """The ground truth's calls one by one, then its words; where there are many, several in one message."""
        self._playing()
        if self._expected is None:
            planned = self._task.ground_truth(self._before.model_copy(deep=True))
            self._expected = [call(c.function, dict(c.args), f"call_{i}") for i, c in enumerate(planned)]
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
        _, _, _, messages, _ = ToolsExecutor().query("", self._runtime, self._environment, [said])  # type: ignore[list-item]
        self._calls.append(requested)
        result = messages[-1]
        text = "".join(block["content"] or "" for block in result["content"] or [])  # type: ignore[index]
        return tool_result(made.id, result["error"] or text, made.name)  # type: ignore[typeddict-item]

    def _injections(self, task: Task, suite: Any) -> str:
        injections = task.data.get("injections") or {}
        known = suite.get_injection_vector_defaults()
        for vector, text in injections.items():
            if vector not in known or not isinstance(text, str):
                raise UsageError(
                    f"agentdojo: {self._suite} has no injection vector {vector!r}: one of {', '.join(known)}"
                )
        return json.dumps(injections, sort_keys=True)

    def _injection_task(self, task: Task, suite: Any) -> Any:
        name = task.data.get("injection_task")
        if name is not None and name not in suite.injection_tasks:
            known = ", ".join(suite.injection_tasks)
            raise UsageError(f"agentdojo: {self._suite} has no injection task {name!r}: one of {known}")
        return None if name is None else suite.injection_tasks[name]
