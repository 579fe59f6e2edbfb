"""What is held out, and how much a new task is like it.

    tasks held out ─▶ what an agent is shown first of each ─▶ vectors ─▶ the nearest to a new task's, by cosine

Likeness is of what an agent sees: the same words in another place are another task, and another seed that looks the
same is a copy. The paper (CoEvolve, figure 5) measures its synthesised tasks so, by embeddings of their queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from silva.envs.handle import EnvironmentHandle
from silva.envs.protocol import Observation
from silva.models.embedding import Embedder, open_embedder
from silva.tree import Record, Task, digest

_LONGEST = 8000


class Likeness(Record, frozen=True, kw_only=True):
    """The nearest held-out task, and the cosine of what an agent is shown of both; in [-1, 1], 1 for the same words."""

    similarity: float
    nearest: str


class Held:
    """Tasks that nothing may be learnt on. Make it with `await Held.of(env, tasks)`; many validations share one.

    Args:
        tasks: those held out.
        shown: what an agent is shown first of each.
        embedder: whose vectors are compared.
    """

    def __init__(self, tasks: Sequence[Task], shown: Sequence[str], embedder: Embedder) -> None:
        self._embedder = embedder
        self._ids = [task.id for task in tasks]
        self._known = {task.given.content for task in tasks}
        self._places = {_place(task) for task in tasks} - {""}
        self._vectors = embedder.embed(list(shown)) if tasks else None

    @classmethod
    async def of(cls, env: EnvironmentHandle, tasks: Sequence[Task], embedder: str = "hashed") -> Held:
        """Look at every task once.

        Args:
            env: an instance of their environment; reset it afterwards.
            tasks: those held out.
            embedder: `hashed` (words and their pieces, no weights), `minilm`, or an endpoint.

        Raises:
            UsageError, MissingError: the embedder is not known, or its weights are not installed.
            EnvError: a task cannot be begun.
        """
        shown = [opening_of(await env.reset(task)) for task in tasks]
        return cls(tasks, shown, open_embedder(embedder))

    def __len__(self) -> int:
        return len(self._ids)

    def holds(self, task: Task, place: Task) -> str:
        """Why the task is one of those held out, or made in the place of one; "" where it is not."""
        if task.given.content in self._known or task.given.id in self._ids:
            return f"it is the held-out task {task.given.id}"
        if _place(task) in self._places or place.given.id in self._ids:
            return "its place is that of a held-out task"
        return ""

    def like(self, shown: str) -> Likeness | None:
        """The held-out task that looks most like what an agent is shown; None where nothing is held out."""
        if self._vectors is None:
            return None
        cosines = self._vectors @ self._embedder.embed([shown])[0]
        nearest = int(np.argmax(cosines))
        return Likeness(similarity=round(float(cosines[nearest]), 6), nearest=self._ids[nearest])


def opening_of(observation: Observation) -> str:
    """What an agent is shown first, but for the rules that all tasks share."""
    said = [message.text for message in observation.messages if message.role != "system"]
    return "\n".join(said)[:_LONGEST]


def _place(task: Task) -> str:
    """A digest of the place a task is in: its data but for its goal; "" where that is all there is."""
    data = {name: value for name, value in task.data.items() if name != "goal"}
    return digest("place", task.env, msgspec.msgpack.encode(data, order="sorted")) if data else ""
