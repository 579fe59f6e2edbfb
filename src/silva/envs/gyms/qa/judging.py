"""A judge before labels: one labelled reply a task, asked as in a dialogue; right is the verdict that is the label.

    labelled.yaml ─▶ Task (goal, reply, label) ─▶ the judge's words and tool of `verdicts` ─▶ verdict ─▶ right or wrong

Any run of it measures the model that played (`silva qa judges` reads recall and false alarms from the runs of a lake),
and makes data to train a judge with. The expert says the label; the rule that stands in for a judge is measured by
`ruled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import ClassVar

import msgspec

from silva.envs.gyms.qa import verdicts
from silva.envs.gyms.qa.goals import Goal, goal
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UsageError
from silva.tree import Message, Record, Task, assistant, call, user


class Labelled(Record, frozen=True, kw_only=True):
    """A reply and whether it breaks the rule of its goal (`KIND/NAME`), as a person says."""

    goal: str
    reply: str
    broken: bool

    @property
    def rule(self) -> Goal:
        """The goal whose rule it is."""
        return goal(*self.goal.split("/"))


@cache
def labelled() -> tuple[Labelled, ...]:
    """The bundled set."""
    text = (resources.files("silva.envs.gyms.qa") / "labelled.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=tuple[Labelled, ...])


def ruled() -> Iterator[tuple[str, bool, bool]]:
    """Of each labelled reply its goal, its label, and what the rule says that stands in for a judge."""
    for each in labelled():
        yield each.goal, each.broken, verdicts.rule(each.rule, each.reply).broken


class Judging:
    """One reply to judge."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=2)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """The labelled replies, in their order.

        Raises:
            UsageError: no such split.
        """
        if split != "test":
            raise UsageError(f"qa-judge: no split {split!r}: test is the only one")
        for number, each in enumerate(labelled()):
            data = msgspec.to_builtins(each)
            tags = (each.goal.partition("/")[0], "broken" if each.broken else "kept")
            yield Task(
                id=f"qa-judge/{each.goal}/{number}", env="qa-judge", instruction=each.reply, data=data, tags=tags
            )

    async def reset(self, task: Task, seed: int) -> Observation:
        """The judge is asked.

        Raises:
            UsageError: the task holds no labelled reply.
        """
        self._item, rule = self._labelled(task)
        self._said: verdicts.Verdict | None = None
        self._again = False
        asked = verdicts.asked(rule, f"Please {rule.wish}.", self._item.reply)
        return Observation(messages=(verdicts.JUDGE, asked), tools=(verdicts.VERDICT,))

    def _labelled(self, task: Task) -> tuple[Labelled, Goal]:
        """The reply of a task, and the goal whose rule it is judged by."""
        try:
            item = msgspec.convert(task.data, Labelled)
            return item, item.rule
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            raise UsageError(f"qa-judge: task {task.id}: {error}") from error

    async def step(self, action: Message) -> Observation:
        """Read the verdict; one that is none is asked for once more, as in a dialogue."""
        self._said = verdicts.verdict_in(action)
        if self._said is None and not self._again:
            self._again = True
            return Observation(messages=(user(verdicts.NO_VERDICT),))
        return Observation(done=True)

    async def evaluate(self) -> Evaluation:
        """1 where the verdict is the label. `label` and `verdict` are told; no verdict is no agreement."""
        label, said = self._item.broken, self._said
        right = said is not None and said.broken is label
        metrics = {"label": float(label), **({} if said is None else {"verdict": float(said.broken)})}
        return Evaluation(score=float(right), success=right, metrics=metrics)

    async def expert(self) -> Message:
        """Say the label."""
        evidence = self._item.reply if self._item.broken else ""
        return assistant("", call("verdict", {"broken": self._item.broken, "evidence": evidence}))

    async def null(self) -> Message:
        """Say nothing."""
        return assistant()

    async def close(self) -> None:
        """Nothing is held."""
