"""What an environment is: four calls, a list of tasks, and the two policies that bound every score.

    reset(task, seed) ─▶ Observation ─▶ agent ─▶ action (an assistant Message) ─▶ step(action) ─▶ Observation ─▶ …
                                                                                    evaluate() ─▶ Evaluation

An observation is what is *added* to the conversation: messages (system, user or tool), and the tools in force when
they change. An action is the assistant message itself, so tool calls, plain text and both at once are all actions and
nothing is lost in a private action type. Environments run in host processes (`silva.envs.host`); everything that
crosses the boundary is a record of this module or of `silva.tree`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec

from silva.tree import Json, Message, Record, Risk, Task, Tool


class Capabilities(Record, frozen=True, kw_only=True):
    """What an environment can do, declared so that a scheduler or a user need not try.

    `snapshot`: none, replay, deepcopy (the instance, pickled), fork, or files (processes are not in it).
    `simulated_user`: none, scripted or model. `parallel`: instances one host process may hold at once (0: no limit).
    `deterministic`: same task, seed and actions, same observations. `roles`: the agents of an episode, first the one
    that it is about (empty: there is one agent, and it has no name); `max_turns` holds for each.
    """

    tools: bool = False
    images: bool = False
    snapshot: str = "replay"
    simulated_user: str = "none"
    deterministic: bool = True
    parallel: int = 0
    max_turns: int = 30
    roles: tuple[str, ...] = ()


FRESH = "fresh"
"""The attribute of an observation whose messages begin another conversation: of what was said before the agent sees
nothing (a session that is begun anew, in an environment that keeps its state)."""


class Observation(Record, frozen=True, kw_only=True):
    """What the environment adds to the conversation. `reward` is for the action just taken (None: none given).

    With several agents `role` says to whom it is said, and so whose turn comes next ("": the first of
    `Capabilities.roles`), and `speaker` which other role's words its last message is. Messages and tools are added to
    that role's conversation alone, and `reward` is that role's.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] | None = None
    reward: float | None = None
    done: bool = False
    truncated: bool = False
    risks: tuple[Risk, ...] = ()
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])
    attributes: Json = msgspec.field(default_factory=dict[str, Any])
    role: str = ""
    speaker: str = ""


class Evaluation(Record, frozen=True, kw_only=True):
    """The environment's own verdict. `score` in [0, 1]; `success` as its benchmark defines it; both None where what was
    to be judged did not come about or nobody could judge it. `roles`: scores of the other agents, by role."""

    score: float | None
    success: bool | None
    safety: float | None = None
    metrics: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    roles: dict[str, float] = msgspec.field(default_factory=dict[str, float])


@runtime_checkable
class Environment(Protocol):
    """One live instance; reused for many tasks, one at a time, `reset` between them.

    The methods are async so that a slow environment need not block its neighbours in the host; a synchronous
    simulator simply does its work inside them.
    """

    capabilities: ClassVar[Capabilities]

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """The environment's tasks, in a fixed order; generated ones may be endless."""
        ...

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the task afresh. The observation holds the system and user messages and the tools."""
        ...

    async def step(self, action: Message) -> Observation:
        """Take the assistant's message. A badly formed action is answered in words, not raised."""
        ...

    async def evaluate(self) -> Evaluation:
        """Score the episode so far by the benchmark's own checker; may be called before it is done."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


@runtime_checkable
class HasExpert(Protocol):
    """An environment with ground truth: the next action of a policy that scores full marks."""

    async def expert(self) -> Message:
        """The expert's next action in the current state."""
        ...


@runtime_checkable
class HasNull(Protocol):
    """An environment with a null policy: what an agent that does nothing useful would do."""

    async def null(self) -> Message:
        """The null policy's next action (most often: end the episode, or stand still)."""
        ...


@runtime_checkable
class HasSnapshot(Protocol):
    """An environment that keeps its state itself, outside its process (the files of a workspace, a saved game).

    One without these two methods whose `capabilities.snapshot` is `deepcopy` is pickled whole instead
    (`silva.envs.state`); it says what of it to keep by `__getstate__` and `__setstate__`.
    """

    async def snapshot(self) -> str:
        """Keep the present state; return the id by which any instance, in any process, can take it up."""
        ...

    async def restore(self, snapshot: str) -> str | None:
        """Take up a state that was kept; it need not be this instance's, and `reset` need not come before.

        Returns:
            What the agent is to be told of what could not be brought back, if anything; it stands before the next
            answer that is new (`silva.envs.notice`).

        Raises:
            EnvError: `env.snapshot`: it is gone, damaged, or was made by another version.
        """
        ...


@runtime_checkable
class TellsFidelity(Protocol):
    """An environment whose snapshots do not all hold as much."""

    async def fidelity(self, snapshot: str) -> str:
        """What coming back to one brings back: `exact` or `files+replay`."""
        ...


class Planted(Record, frozen=True, kw_only=True):
    """What came of words that were to be put into an environment's state. `where` they stand now, in words ("": they
    stand nowhere, and `why` says why not); `look`: an action whose answer shows them to an agent (None: it will see
    them by what it does anyway)."""

    where: str = ""
    why: str = ""
    look: Message | None = None


@runtime_checkable
class HoldsPlants(Protocol):
    """An environment that lets words be put into its state, as somebody else who can write there would: into a file, a
    page, the clipboard. What an agent then reads of them is the environment's own answer."""

    async def plant(self, surface: str, words: str) -> Planted:
        """Put the words where the surface (`silva redteam list`) says; one that does not exist here is told in
        `Planted.why`, not raised."""
        ...


class Goal(Record, frozen=True, kw_only=True):
    """Something that can be brought about in a place. `words`: as an agent is told it; `data`: plain JSON by which the
    environment's checker knows it; `pattern`: its kind ("put next to"), for counting."""

    words: str
    data: Json
    pattern: str = ""


class Achieved(Record, frozen=True, kw_only=True):
    """A goal that a sequence of actions brought about. `turn`: after how many of them it first held (from 1); `kept`:
    which of those (from 0, in order) are left when every way back to a state that was there before is cut out."""

    goal: Goal
    turn: int
    kept: tuple[int, ...] = ()


@runtime_checkable
class Hindsight(Protocol):
    """An environment that can say what was brought about, and make it a task. A place is what a task's `data` says
    besides its goal: the same rooms, files or services. What the instance was playing is lost: reset it afterwards."""

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """Take the actions in the task's place from its beginning, and say which goals they brought about, each once,
        in the order of their turns. That the task's own goal is fulfilled or lost meanwhile ends nothing."""
        ...

    async def task(self, task: Task, goal: Goal) -> Task:
        """The goal as a task in that place: `reset` plays it and `evaluate` checks it like any other.

        Raises:
            UsageError: the place has no such goal.
        """
        ...


@runtime_checkable
class Synthesis(Hindsight, Protocol):
    """An environment that can also say what could be brought about in a place, before anybody acts there."""

    async def goals(self, task: Task) -> Sequence[Goal]:
        """The goals that the task's place allows, in a fixed order. That one is listed promises nothing: whether it can
        be reached is found out by acting (`silva.loops.roles.validation`)."""
        ...


@runtime_checkable
class ListsActions(Protocol):
    """An environment that knows which actions are valid now. One that knows only some of them, since arguments are
    free, says `lists_all = False`: an action that is not listed may then be as good."""

    async def actions(self) -> Sequence[Message]:
        """Assistant messages that `step` would take in the present state, in a fixed order; not those that give up."""
        ...


class EnvironmentEntry(Record, frozen=True, kw_only=True):
    """How an environment is registered (built in, or by a `silva.envs` entry point naming one of these).

    `target` is `module:Class`, imported only inside the host. `requirements` are pinned and built into a virtual
    environment of its own by `silva envs install` (empty: runs in this interpreter); `no_deps` lists requirements to
    install with `--no-deps`; `node` lists npm packages (NAME@VERSION) that go into the same folder, each after those it
    needs. `expert` and `null` are the mean scores those policies must reach on `sample` tasks in `silva envs test`
    (None: has none); `null` holds within `null_tolerance`. `machine` is `module:function`, light to import, which
    raises MissingError where the machine lacks what pip cannot bring. `patience` is how many seconds one call may take
    in `silva envs test`. `memory_mb` is what a host of it needs to be allowed at least, where hosts are limited.
    """

    name: str
    target: str
    summary: str
    requirements: tuple[str, ...] = ()
    no_deps: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    machine: str = ""
    licence: str = ""
    source: str = ""
    splits: tuple[str, ...] = ("test",)
    expert: float | None = 1.0
    null: float | None = 0.0
    null_tolerance: float = 0.0
    sample: int = 20
    patience: float = 60.0
    memory_mb: int = 0
    options: Json = msgspec.field(default_factory=dict[str, Any])

    @property
    def packages(self) -> tuple[str, ...]:
        """The names of the packages it requires, its own first: what a kept state depends on."""
        required = (*self.no_deps[-1:], *self.requirements, *self.no_deps[:-1])
        found = (re.match(r"[A-Za-z0-9._-]+", text) for text in required)
        return tuple(match[0] for match in found if match)
