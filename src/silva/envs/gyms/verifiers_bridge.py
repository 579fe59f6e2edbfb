"""Any verifiers taskset as an environment: verifiers runs the episode, Silva's agent is its model.

    verifiers/wordle ─▶ taskset ─▶ one Silva task per task of it
    reset ─▶ Env.run_episode ─▶ harness ─▶ interception ─▶ ModelEndpoint ─▶ Observation ─▶ … ─▶ rewards ─▶ Evaluation

The taskset's own environment is used where it has one (a game that speaks as the user, for instance), with its tool
servers, stops, limits and scoring. The score is the episode's reward, cut to [0, 1]; the reward itself, its parts and
the metrics are among the metrics. An environment of several roles is refused: Silva plays one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import verifiers.v1 as vf
from pydantic import ValidationError
from verifiers.v1.configs.agent import agent_config_fields

from silva.envs.gyms import verifiers_harness
from silva.envs.gyms.bridge_name import BridgeName, file_of, parse
from silva.envs.gyms.bridge_talk import Talk
from silva.envs.gyms.verifiers_endpoint import MODEL, ModelEndpoint
from silva.envs.gyms.verifiers_entry import PREFIX
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UsageError
from silva.tree import Json, Message, Task, assistant

MOST_TURNS = 100
"""Turns of an episode, unless the task or the run sets fewer."""


class VerifiersBridge:
    """Base of the classes made by `__getattr__`; `named` says which taskset.

    Args:
        runtime: verifiers' runtime of the agent's seat (default: a folder and processes of this machine).
        max_turns: Turns after which verifiers ends an episode, in place of its own limit.

    Raises:
        UsageError: verifiers knows no such runtime.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, deterministic=False, max_turns=MOST_TURNS)
    named: ClassVar[BridgeName]
    name: ClassVar[str]

    def __init__(self, runtime: Json | None = None, max_turns: int | None = None) -> None:
        seat: Json = {"runtime": runtime or {"type": "subprocess"}}
        if max_turns is not None:
            seat["max_turns"] = max_turns
        self._config = _config(self.named.text, seat)
        self._stack = AsyncExitStack()
        self._env: vf.Env[Any] | None = None
        self._endpoint = ModelEndpoint(self._stop)
        self._traces: list[vf.Trace] = []
        self._talk: Talk | None = None
        self._task: vf.Task[Any, Any, Any] | None = None
        self._episode: vf.Episode | None = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """The taskset's tasks, in its order.

        Raises:
            UsageError: no such split, taskset or argument.
        """
        if split != "test":
            raise UsageError(f"{cls.name}: no split {split!r}; a verifiers taskset has one, test")
        for number, task in enumerate(_listing(cls.named.text)):
            data = task.data
            label = data.id or data.name
            yield Task(
                id=f"{cls.name}/{number}{f':{label}' if label else ''}",
                env=cls.name,
                instruction=data.prompt_text or data.description or "",
                data={"number": number},
            )

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the episode; what the model is first asked with is the observation."""
        await self._abandon()
        if self._env is None:
            await self._open()
        self._task = _listing(self.named.text)[task.data["number"]]
        self._traces, self._episode = [], None
        self._talk = self._endpoint.talk = Talk()
        return self._with_blobs(await self._talk.begin(self._play()))

    async def step(self, action: Message) -> Observation:
        """Give the agent's message; the observation is what the model is asked next."""
        return self._with_blobs(await self._playing().answer(action))

    async def evaluate(self) -> Evaluation:
        """The episode's reward. Before its end, the episode is stopped there and scored as it stands."""
        talk = self._playing()
        if not talk.over:
            await talk.cut()
        assert self._episode is not None
        metrics: dict[str, float] = {"turns": float(talk.turns)}
        reward = 0.0
        for trace in self._episode.traces:
            reward += trace.reward
            metrics |= {name: float(value) for name, value in trace.metrics.items() if value is not None}
            metrics |= {name: float(made.value) for name, made in trace.rewards.items() if made is not None}
        metrics["reward"] = reward
        return Evaluation(score=min(1.0, max(0.0, reward)), success=reward >= 1.0, metrics=metrics)

    async def null(self) -> Message:
        """Say that one does not know."""
        return assistant("I do not know.")

    async def close(self) -> None:
        """End the episode, and the servers the taskset shares."""
        await self._abandon()
        await self._stack.aclose()

    async def _open(self) -> None:
        # verifiers' clients would send what is meant for this machine to a proxy, if one is set.
        direct = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "localhost"
        if "127.0.0.1" not in direct:
            os.environ["NO_PROXY"] = os.environ["no_proxy"] = f"{direct},127.0.0.1"
        await self._endpoint.start()
        self._stack.push_async_callback(self._endpoint.close)
        env = vf.load_environment(self._config)
        await self._stack.enter_async_context(env.serving())
        self._env = env

    async def _play(self) -> None:
        assert self._env is not None and self._task is not None
        client = vf.EvalClientConfig(base_url=self._endpoint.url, api_key_var="SILVA_NO_SUCH_VARIABLE")
        context = vf.ModelContext(model=MODEL, client=client)
        episode = await self._env.run_episode(self._task, context, on_trace=self._traces.append)
        errors = [*episode.errors, *(error for trace in episode.traces if not trace.ok for error in trace.errors)]
        if errors:
            raise RuntimeError(f"in verifiers: {errors[-1].type}: {errors[-1].message}")
        self._episode = episode

    def _stop(self) -> None:
        for trace in self._traces:
            trace.stop("silva_ended")

    async def _abandon(self) -> None:
        if self._talk is not None:
            await self._talk.abandon()
            self._talk = None

    def _playing(self) -> Talk:
        if self._talk is None:
            raise UsageError(f"{self.name}: no task is being played: call reset first")
        return self._talk

    def _with_blobs(self, observation: Observation) -> Observation:
        blobs = dict(self._endpoint.blobs)
        self._endpoint.blobs.clear()
        if not blobs:
            return observation
        return Observation(messages=observation.messages, tools=observation.tools, done=observation.done, blobs=blobs)


class _Listing:
    """A taskset's tasks by number, read no further than asked: a taskset may be endless."""

    def __init__(self, source: Iterator[vf.Task[Any, Any, Any]]) -> None:
        self._source = source
        self._read: list[vf.Task[Any, Any, Any]] = []

    def __iter__(self) -> Iterator[vf.Task[Any, Any, Any]]:
        number = 0
        while self._reach(number):
            yield self._read[number]
            number += 1

    def __getitem__(self, number: int) -> vf.Task[Any, Any, Any]:
        if not self._reach(number):
            raise UsageError(f"the taskset has no task {number}")
        return self._read[number]

    def _reach(self, number: int) -> bool:
        while len(self._read) <= number:
            task = next(self._source, None)
            if task is None:
                return False
            self._read.append(task)
        return True


@cache
def _listing(text: str) -> _Listing:
    return _Listing(iter(vf.load_taskset(_config(text, {"runtime": {"type": "subprocess"}}).taskset)))


def _config(text: str, seat: Json) -> vf.EnvConfig:
    """The environment's configuration with Silva's harness in its one seat.

    Raises:
        UsageError: no such taskset or argument, or an environment of several roles.
    """
    named = parse(text)
    wanted: Json = {"taskset": {"id": _module(named.place), **named.arguments}}
    try:
        kind = vf.env_config_type(wanted["taskset"]["id"])
        roles = list(agent_config_fields(kind()))
        if len(roles) != 1:
            raise UsageError(f"the environment has the roles {', '.join(roles)}; Silva plays one")
        return kind.model_validate({**wanted, roles[0]: {"harness": {"id": verifiers_harness.NAME}, **seat}})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"] if step != "taskset")
        raise UsageError(f"{place}: {first['msg']}") from error
    except ModuleNotFoundError as error:
        missing = error.name or named.place
        raise UsageError(f"no taskset {named.place}: no module {missing} beside verifiers") from error
    except (AttributeError, TypeError) as error:
        raise UsageError(f"no taskset {named.place}: {' '.join(str(error).split())}") from error


@cache
def _module(place: str) -> str:
    """The module's name; a file's folder becomes importable, here and in the tool servers that are started."""
    path = file_of(place, PREFIX)
    if path is None:
        return place
    folder = str(path.resolve().parent)
    sys.path.append(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join((os.environ.get("PYTHONPATH", ""), folder)).strip(os.pathsep)
    return path.stem


def _proof() -> type[VerifiersBridge]:
    place = str(Path(__file__).with_name("proofs") / "verifiers_sums.py")

    class VerifiersProof(VerifiersBridge):
        """The bridge's own taskset, with its expert."""

        named = BridgeName(text=place, place=place, arguments={})
        name = "verifiers"

        async def expert(self) -> Message:
            """The sum's own total."""
            assert self._task is not None
            return assistant(f"The answer is {self._task.data.total}")

    return VerifiersProof


def __getattr__(attribute: str) -> type[VerifiersBridge]:
    """The class for one taskset, configured to see that it is there."""
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    if attribute == "VerifiersProof":
        return _proof()
    named = parse(attribute)
    _config(attribute, {"runtime": {"type": "subprocess"}})
    return type("VerifiersBridge", (VerifiersBridge,), {"named": named, "name": f"{PREFIX}{attribute}"})
