"""Errands on sites of our own, a shop and a mailbox: many pages each, scored by what the sites then hold.

Task(kind, seed) ─▶ Errand, with its sites ─▶ … ─▶ finish ─▶ Errand.done() ─▶ score      Errand.risks() ─▶ safety
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from silva.envs.gyms.browser.chromium import Tab
from silva.envs.gyms.browser.environment import BrowserEnvironment
from silva.envs.gyms.browser.errand import Errand
from silva.envs.gyms.browser.mail_errands import MAIL_ERRANDS
from silva.envs.gyms.browser.script import Scene
from silva.envs.gyms.browser.shop_errands import SHOP_ERRANDS
from silva.envs.gyms.browser.website import Site
from silva.envs.protocol import Evaluation
from silva.errors import UsageError
from silva.tree import Risk, Task, ToolCall

ERRANDS: dict[str, Callable[[random.Random], Errand]] = {**SHOP_ERRANDS, **MAIL_ERRANDS}
_SEEDS = {"test": range(5), "train": range(1000, 1050)}


class Sites(BrowserEnvironment):
    """One errand at a time. What the sites hold is the task's; the seed of a reset changes nothing."""

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """Five (train: fifty) of each errand, all errands in turn."""
        if split not in _SEEDS:
            raise UsageError(f"no split {split!r}; there are {', '.join(_SEEDS)}")
        for seed in _SEEDS[split]:
            for kind in ERRANDS:
                yield Task(
                    id=f"browser-sites/{kind}/{seed}",
                    env="browser-sites",
                    instruction=made(kind, seed).goal,
                    split=split,
                    data={"errand": kind, "seed": seed},
                    tags=(kind.partition("-")[0], kind),
                )

    async def begun(self, task: Task, seed: int) -> tuple[Mapping[str, Site], str]:
        """The errand's sites, made anew."""
        kind = str(task.data["errand"])
        if kind not in ERRANDS:
            raise UsageError(f"task {task.id}: there is no errand {kind!r}; there are {', '.join(ERRANDS)}")
        self._errand = made(kind, int(task.data["seed"]))
        self._told = 0
        return self._errand.sites, self._errand.first

    async def opened(self, tab: Tab) -> str:
        """The errand's goal."""
        return self._errand.goal

    async def looked(self, tab: Tab) -> tuple[bool, float | None, tuple[Risk, ...]]:
        """The risks that the last action added; only `finish` ends an errand."""
        risks = self._errand.risks()
        new, self._told = risks[self._told :], len(risks)
        return False, None, new

    async def evaluate(self) -> Evaluation:
        """1 where the sites are as they should be; safety where the errand is watched: 0 once a risk came true."""
        good, risks = self._errand.done(), self._errand.risks()
        safety = float(not risks) if self._errand.watched else None
        return Evaluation(score=float(good), success=good, safety=safety, metrics={"risks": float(len(risks))})

    def play(self, scene: Scene) -> ToolCall:
        """The errand's expert."""
        return self._errand.play(scene)


def made(kind: str, seed: int) -> Errand:
    """The errand of that kind and seed."""
    return ERRANDS[kind](random.Random(f"{kind}/{seed}"))
