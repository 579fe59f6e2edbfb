"""Any Inspect AI task as an environment: Inspect runs the sample, Silva's agent is its model.

    inspect/sums.py@sums ─▶ load the task ─▶ one Silva task per sample
    reset ─▶ eval of that one sample ─▶ its solver asks SilvaModel ─▶ Observation ─▶ … ─▶ its scorer ─▶ Evaluation

Solver, tools, sandbox, limits and scorer are Inspect's own. The score is the first scorer's value as a number (a
value of several parts: their mean), cut to [0, 1]; every scorer's value is among the metrics. Inspect evaluates one
thing at a time in a process, so a host holds one instance.
"""

from __future__ import annotations

import asyncio
import copy
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

from inspect_ai import Task as InspectTask
from inspect_ai import eval_async, task_with
from inspect_ai._eval.loader import load_tasks
from inspect_ai._util.error import PrerequisiteError
from inspect_ai._util.registry import registry_info, registry_lookup
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import GenerateConfig, Model
from inspect_ai.scorer import value_to_float
from inspect_ai.util._display import init_display_type

from silva.envs.gyms.bridge_name import BridgeName, file_of, parse
from silva.envs.gyms.bridge_talk import Talk
from silva.envs.gyms.inspect_entry import PREFIX
from silva.envs.gyms.inspect_model import SilvaModel
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UsageError
from silva.tree import Json, Message, Task, assistant

_ONE = asyncio.Lock()  # Inspect evaluates one thing at a time in a process; an abandoned sample may still be ending

MOST_TURNS = 100
"""Turns of an episode, unless the task or the run sets fewer."""


class InspectBridge:
    """Base of the classes made by `__getattr__`; `named` says which task.

    Args:
        model_roles: Inspect's model for each role but the agent's, such as {"grader": "openai/gpt-5"}.
        sandbox: A sandbox type in place of the task's own ("local": none; what runs then runs in the host process).
        message_limit: Messages after which Inspect ends a sample, in place of the task's own limit.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        tools=True, deterministic=False, parallel=1, max_turns=MOST_TURNS
    )
    named: ClassVar[BridgeName]
    name: ClassVar[str]

    def __init__(
        self, model_roles: Json | None = None, sandbox: str | None = None, message_limit: int | None = None
    ) -> None:
        self._how: Json = {"model_roles": model_roles, "sandbox": sandbox, "message_limit": message_limit}
        self._logs = tempfile.mkdtemp(prefix="silva-inspect-")
        self._talk: Talk | None = None
        self._blobs: dict[str, bytes] = {}
        self._sample: Sample | None = None
        self._log: EvalLog | None = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """The dataset's samples, in its order.

        Raises:
            UsageError: no such split, task or argument.
        """
        if split != "test":
            raise UsageError(f"{cls.name}: no split {split!r}; an Inspect task has one, test")
        for name, sample in _samples(cls.named.text).items():
            yield Task(id=f"{cls.name}/{name}", env=cls.name, instruction=_instruction(sample), data={"sample": name})

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the sample; what its solver first asks the model with is the observation."""
        await self._abandon()
        self._sample = _samples(self.named.text)[task.data["sample"]]
        self._talk, self._blobs, self._log = Talk(), {}, None
        return self._with_blobs(await self._talk.begin(self._evaluate(self._talk, seed)))

    async def step(self, action: Message) -> Observation:
        """Give the agent's message to the solver; the observation is what it asks next."""
        return self._with_blobs(await self._playing().answer(action))

    async def evaluate(self) -> Evaluation:
        """The scorer's verdict. Before the solver's end, the sample is cut off there and scored as it stands."""
        talk = self._playing()
        if not talk.over:
            await talk.cut()
        assert self._log is not None and self._log.samples is not None
        sample = self._log.samples[0]
        metrics: dict[str, float] = {"turns": float(talk.turns)}
        scores = [(name, *_numbers(score.value)) for name, score in (sample.scores or {}).items()]
        for name, value, parts in scores:
            metrics[name] = value
            metrics |= {f"{name}/{part}": number for part, number in parts.items()}
        if not scores:
            raise RuntimeError(f"{self.name}: the task gave no score")
        score = min(1.0, max(0.0, scores[0][1]))
        return Evaluation(score=score, success=score >= 1.0, metrics=metrics)

    async def null(self) -> Message:
        """Say that one does not know."""
        return assistant("I do not know.")

    async def close(self) -> None:
        """End the sample and forget its log."""
        await self._abandon()
        shutil.rmtree(self._logs, ignore_errors=True)

    async def _evaluate(self, talk: Talk, seed: int) -> None:
        assert self._sample is not None
        task = task_with(copy.copy(_task(self.named.text)), dataset=MemoryDataset([copy.deepcopy(self._sample)]))
        api = SilvaModel().asks(talk, self._blobs)  # pyright: ignore[reportAttributeAccessIssue]
        how = {key: value for key, value in self._how.items() if value is not None}
        async with _ONE:
            (log,) = await eval_async(
                task,
                model=Model(api, GenerateConfig(seed=seed & 0x7FFFFFFF)),
                log_dir=self._logs,
                log_format="json",
                log_realtime=False,
                log_level="warning",
                score_display=False,
                ctl_server=False,
                epochs=1,
                **how,
            )
        sample = log.samples[0] if log.samples else None
        if sample is not None and sample.error is not None:
            raise RuntimeError(f"in Inspect: {sample.error.message}")
        if log.status != "success" or sample is None:
            raise RuntimeError(
                f"in Inspect: {log.error.message if log.error else f'the evaluation ended as {log.status}'}"
            )
        self._log = log
        _forget(log)

    async def _abandon(self) -> None:
        if self._talk is not None:
            await self._talk.abandon()
            self._talk = None

    def _playing(self) -> Talk:
        if self._talk is None:
            raise UsageError(f"{self.name}: no task is being played: call reset first")
        return self._talk

    def _with_blobs(self, observation: Observation) -> Observation:
        if not self._blobs:
            return observation
        blobs = dict(self._blobs)
        self._blobs.clear()
        return Observation(messages=observation.messages, tools=observation.tools, done=observation.done, blobs=blobs)


def _proof() -> type[InspectBridge]:
    place = Path(__file__).with_name("proofs") / "inspect_sums.py"

    class InspectProof(InspectBridge):
        """The bridge's own task, with its expert."""

        named = BridgeName(text=f"{place}@sums", place=f"{place}@sums", arguments={})
        name = "inspect"

        async def expert(self) -> Message:
            """The sample's own target."""
            assert self._sample is not None
            return assistant(f"The answer is {self._sample.target}")

    return InspectProof


@cache
def _task(text: str) -> InspectTask:
    init_display_type("none")
    named = parse(text)
    file_of(named.place, PREFIX)
    try:
        found = load_tasks([named.place], named.arguments)
    except (LookupError, FileNotFoundError, TypeError, PrerequisiteError) as error:
        raise UsageError(" ".join(str(error).split()) or type(error).__name__) from error
    if not found:
        raise UsageError(f"Inspect knows no task {named.place}; name FILE.py@TASK, or PACKAGE/TASK of an installed one")
    if len(found) != 1:
        names = ", ".join(sorted(task.name for task in found))
        raise UsageError(f"name one task with {named.place}@TASK; there are: {names}")
    taken = set(signature(registry_lookup("task", registry_info(found[0]).name)).parameters)
    unknown = sorted(set(named.arguments) - taken)
    if unknown:
        raise UsageError(f"the task takes no {', '.join(unknown)}; it takes {', '.join(sorted(taken)) or 'nothing'}")
    if found[0].scorer is None:
        raise UsageError("the task has no scorer, so an episode could not be scored")
    return found[0]


@cache
def _samples(text: str) -> dict[str, Sample]:
    """The samples by name: their own id, else their place from 1."""
    found: dict[str, Sample] = {}
    for place, sample in enumerate(_task(text).dataset, start=1):
        if sample.id is None:
            sample.id = place
        found[str(sample.id)] = sample
    return found


def _forget(log: EvalLog) -> None:
    Path(log.location).unlink(missing_ok=True)


def _instruction(sample: Sample) -> str:
    if isinstance(sample.input, str):
        return sample.input
    return "\n".join(message.text for message in sample.input if message.role == "user")


def _numbers(value: Any) -> tuple[float, dict[str, float]]:
    """A scorer's value as one number, and as its parts where it has several."""
    single = value_to_float()
    if not isinstance(value, dict | list | tuple):
        return single(value), {}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    parts = {str(name): single(part) for name, part in pairs if part is not None}
    return (sum(parts.values()) / len(parts) if parts else 0.0), parts


def __getattr__(attribute: str) -> type[InspectBridge]:
    """The class for one Inspect task, loaded to see that it is there."""
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    if attribute == "InspectProof":
        return _proof()
    named = parse(attribute)
    _task(attribute)
    return type("InspectBridge", (InspectBridge,), {"named": named, "name": f"{PREFIX}{attribute}"})
