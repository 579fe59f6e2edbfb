"""Retrieval: which of a bank's skills fit a task, by how much alike the task and their descriptions are.

task's words ─ embed ─▶ cosine with each description ─▶ the best few above a bar; fewer, or none, where none fits
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from silva.models.embedding import Embedder
from silva.rollout.skills.skill import Skill
from silva.tree import Record


class Found(Record, frozen=True, kw_only=True):
    """A skill that was retrieved, and how much alike the task and its description are (cosine, -1 to 1)."""

    skill: Skill
    score: float


class Retrieval:
    """The skills of a bank, ready to be held against tasks.

    Args:
        skills: those that may be given.
        embedder: what says how much alike two texts are.
        top: the most that are given.
        least: the least cosine.
        shuffled: a seed: as many skills are given as would be, but other ones, drawn by it and by the task. A control.
    """

    def __init__(
        self,
        skills: Sequence[Skill],
        embedder: Embedder,
        *,
        top: int = 3,
        least: float = 0.1,
        shuffled: int | None = None,
    ) -> None:
        self.skills = list(skills)
        self._embedder, self._top, self._least, self._shuffled = embedder, top, least, shuffled
        self._vectors = embedder.embed([f"{each.description}\n{' '.join(each.envs)}" for each in self.skills])

    def find(self, env: str, task: str) -> list[Found]:
        """The skills for a task, best first: of those that name no other environment and no word that the task lacks.

        Args:
            env: the environment.
            task: what is asked, in words.
        """
        words = set(re.findall(r"\w+", task))
        of_env = [n for n, each in enumerate(self.skills) if not each.envs or env in each.envs]
        allowed = [n for n in of_env if not self.skills[n].says or self.skills[n].says in words]
        if not allowed:
            return []
        scores = self._vectors @ self._embedder.embed([f"{task}\n{env}"])[0]
        ranked = sorted(allowed, key=lambda n: (-scores[n], self.skills[n].name))
        chosen = [n for n in ranked[: self._top] if scores[n] >= self._least]
        if self._shuffled is not None:
            others = [n for n in of_env if n not in chosen] or of_env
            drawn = Random(f"{self._shuffled} {env} {task}")
            chosen = drawn.sample(others, min(len(chosen), len(others)))
        return [Found(skill=self.skills[n], score=round(float(scores[n]), 4)) for n in chosen]
