"""A leased instance: the protocol's calls, as the engine makes them.

    reset ─▶ host.call ─▶ Reply ─▶ Observation      (a `step` that ends the episode brings the evaluation along)
    restore ─▶ take_again … (as stored) ─▶ step ─▶ Observation, before it what the restore could not bring back

A handle whose environment failed, or whose call was cancelled half-way, is `broken`: its state is unknown, every
further call repeats the failure, and the pool discards the instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from silva.envs.errors import EnvError
from silva.envs.inline import InlineHost
from silva.envs.notice import tell
from silva.envs.process import HostProcess
from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation, Planted
from silva.envs.wire import Captured, Reply
from silva.errors import UsageError
from silva.tree import Message, Task

AnyHost = HostProcess | InlineHost


class EnvironmentHandle:
    """One instance in a host. `begun` is the task that it began last. `wait_seconds` is how long its callers waited
    on it, queueing in the host included; `host_seconds` how long its own code ran. Both grow over the instance's life:
    take differences."""

    __slots__ = (
        "_evaluation",
        "_failed",
        "_host",
        "_notice",
        "_number",
        "_timeout",
        "begun",
        "host_seconds",
        "resets",
        "wait_seconds",
    )

    def __init__(self, host: AnyHost, number: int, step_timeout: float) -> None:
        self._host = host
        self._number = number
        self._timeout = step_timeout
        self._evaluation: Evaluation | None = None
        self._failed: EnvError | None = None
        self._notice = ""
        self.wait_seconds = 0.0
        self.host_seconds = 0.0
        self.resets = 0
        self.begun: Task | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What the environment declares."""
        return self._host.capabilities

    @property
    def offers(self) -> frozenset[str]:
        """Which ports for making tasks it has: `synthesis`, `hindsight`, `actions` and whether these are `complete`
        (`silva.envs.protocol`)."""
        hello = self._host.hello
        names = ("synthesis", "hindsight", "actions", "complete")
        return frozenset(name for name in names if hello is not None and getattr(hello, name))

    @property
    def host(self) -> AnyHost:
        """The host it lives in."""
        return self._host

    @property
    def number(self) -> int:
        """Its number in that host."""
        return self._number

    @property
    def broken(self) -> bool:
        """Whether it must be discarded."""
        return self._failed is not None or self._host.dead is not None

    @property
    def failed(self) -> EnvError | None:
        """The failure that broke it."""
        return self._failed

    async def reset(self, task: Task, seed: int = 0) -> Observation:
        """Begin `task`.

        Raises:
            EnvError: the environment or its host failed (as every call here).
        """
        self.resets += 1
        self.begun = task
        self._evaluation = None
        self._notice = ""
        return _observation(await self._call("reset", task=task, seed=seed))

    async def step(self, action: Message) -> Observation:
        """Take the assistant's message. The first answer after a restore tells what could not be brought back."""
        observation = await self.take_again(action)
        if self._notice:
            told = tell(observation, self._notice)
            self._notice = self._notice if told is observation else ""
            return told
        return observation

    async def take_again(self, action: Message) -> Observation:
        """Take a stored message again on the way to a point: the answer is the environment's alone, and what a restore
        could not bring back is still to be told."""
        reply = await self._call("step", action=action)
        self._evaluation = reply.evaluation
        return _observation(reply)

    async def evaluate(self) -> Evaluation:
        """Score the episode; answered from the last step's reply where that ended it."""
        if self._evaluation is not None and not self.broken:
            return self._evaluation
        reply = await self._call("evaluate")
        assert reply.evaluation is not None
        return reply.evaluation

    async def expert(self) -> Message:
        """The expert's next action.

        Raises:
            UsageError: the environment has no expert.
        """
        return _message(await self._call("expert"))

    async def null(self) -> Message:
        """The null policy's next action.

        Raises:
            UsageError: the environment has no null policy.
        """
        return _message(await self._call("null"))

    async def plant(self, surface: str, words: str) -> Planted:
        """Put words into the environment's state; one that holds none says so."""
        reply = await self._call("plant", arguments={"surface": surface, "words": words})
        assert reply.planted is not None
        return reply.planted

    async def goals(self, task: Task) -> list[Goal]:
        """The goals that the task's place allows (`silva.envs.protocol.Synthesis`); reset afterwards.

        Raises:
            UsageError: the environment offers none, or does not know the place.
        """
        return (await self._place("goals", task)).goals or []

    async def achieved(self, task: Task, actions: Sequence[Message]) -> list[Achieved]:
        """What the actions bring about in the task's place (`silva.envs.protocol.Hindsight`); reset afterwards.

        Raises:
            UsageError: the environment cannot say, or there are too many actions.
        """
        return (await self._place("achieved", task, actions=list(actions))).achieved or []

    async def task(self, task: Task, goal: Goal) -> Task:
        """The goal as a task in the task's place (`silva.envs.protocol.Hindsight`); reset afterwards.

        Raises:
            UsageError: the environment makes none, or the place has no such goal.
        """
        made = (await self._place("task", task, goal=goal)).tasks
        assert made
        return made[0]

    async def actions(self) -> list[Message]:
        """The actions that are valid now.

        Raises:
            UsageError: the environment does not list them.
        """
        return (await self._call("actions")).actions or []

    async def snapshot(self) -> Captured:
        """The present state, to be taken up by this or another instance; the instance goes on as if not asked.

        Raises:
            EnvError: `env.snapshot` where it cannot be kept; the instance is none the worse for it.
        """
        names = list(self._host.launch.packages)
        reply = await self._call("snapshot", arguments={"packages": names})
        assert reply.captured is not None
        reply.captured.notice = self._notice
        return reply.captured

    async def restore(self, captured: Captured) -> None:
        """Take up a state, whatever this instance was doing.

        Raises:
            EnvError: `env.snapshot` where it is gone, damaged or of other versions; reset or restore again.
        """
        self.resets += 1
        self._evaluation = None
        names = list(self._host.launch.packages)
        reply = await self._call("restore", captured=captured, arguments={"packages": names})
        self._notice = reply.notice

    async def _place(self, op: str, task: Task, **fields: Any) -> Reply:
        self._evaluation, self._notice = None, ""
        return await self._call(op, task=task, **fields)

    async def _call(self, op: str, **fields: Any) -> Reply:
        if self._failed is not None:
            raise EnvError(self._failed.kind, str(self._failed), retryable=self._failed.retryable)
        began = perf_counter()
        try:
            reply = await self._host.call(op, self._number, self._timeout, **fields)
        except UsageError:
            raise
        except EnvError as error:
            if error.kind != "env.snapshot":
                self._failed = error
            raise
        except BaseException:
            message = f"{self._host.launch.name}: {op} was cancelled half-way"
            self._failed = EnvError("host.died", message)
            raise
        finally:
            self.wait_seconds += perf_counter() - began
        self.host_seconds += reply.seconds
        return reply


def _observation(reply: Reply) -> Observation:
    assert reply.observation is not None
    return reply.observation


def _message(reply: Reply) -> Message:
    assert reply.message is not None
    return reply.message
