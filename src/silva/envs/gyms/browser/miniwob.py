"""MiniWoB++: small pages with one wish each, from the package's own files, scored by the pages' own reward.

    reset ─▶ miniwob/NAME.html ─▶ Math.seedrandom(seed) ─▶ core.startEpisodeReal() ─▶ the wish, from #query
    step  ─▶ … ─▶ WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL

The raw reward is taken, so that what the machine's speed takes off it is not counted, and the pages' time limit is
lifted: an agent thinks longer than ten seconds. Moving parts of jQuery are still, so that a page's state depends on
actions alone. The tasks are those whose wish and answer stand in the page as text or as fields, no two alike in what
they ask for; those of shapes, colours, dragging and drawing are left out.
Source: Liu et al., Reinforcement Learning on Web Interfaces using Workflow-Guided Exploration (2018), and the
package `miniwob` (MIT).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from silva.envs.gyms.browser.chromium import Tab
from silva.envs.gyms.browser.environment import BrowserEnvironment
from silva.envs.gyms.browser.miniwob_forms import FORMS
from silva.envs.gyms.browser.miniwob_pages import PAGES
from silva.envs.gyms.browser.miniwob_puzzles import PUZZLES
from silva.envs.gyms.browser.script import Expert, Scene
from silva.envs.gyms.browser.website import Folder, Site
from silva.envs.protocol import Evaluation
from silva.errors import MissingError, UsageError
from silva.tree import Risk, Task, ToolCall

EXPERTS: dict[str, Expert] = {**FORMS, **PAGES, **PUZZLES}
HOST = "miniwob.test"
_SEEDS = {"test": range(10), "train": range(1000, 1100)}
_BEGIN = """seed => {
  core.EPISODE_MAX_TIME = 2147483647;
  core.countdownTimer = () => {};
  if (window.jQuery) jQuery.fx.off = true;
  const hidden = document.createElement('style');
  hidden.textContent = '#reward-display, #click-canvas { display: none !important }';
  document.head.append(hidden);
  Math.seedrandom(String(seed));
  core.startEpisodeReal();
}"""
_LOOK = "() => [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]"


class MiniWob(BrowserEnvironment):
    """One page at a time. The page's contents are the task's; the seed of a reset changes nothing."""

    width: ClassVar[int] = 320
    height: ClassVar[int] = 320
    plants: ClassVar[bool] = False

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """Ten (train: a hundred) contents of each page, all pages in turn."""
        if split not in _SEEDS:
            raise UsageError(f"no split {split!r}; there are {', '.join(_SEEDS)}")
        for seed in _SEEDS[split]:
            for name in sorted(EXPERTS):
                yield Task(
                    id=f"browser-miniwob/{name}/{seed}",
                    env="browser-miniwob",
                    instruction=f"MiniWoB++ {name}, seed {seed}",
                    split=split,
                    data={"page": name, "seed": seed},
                    tags=(name,),
                )

    async def begun(self, task: Task, seed: int) -> tuple[Mapping[str, Site], str]:
        """The package's pages."""
        root = _pages()
        self._name, self._seed = str(task.data["page"]), int(task.data["seed"])
        if not (root / "miniwob" / f"{self._name}.html").is_file():
            raise UsageError(f"task {task.id}: the package miniwob has no page {self._name!r}")
        self._over, self._reward = False, 0.0
        return {HOST: Folder(root)}, f"http://{HOST}/miniwob/{self._name}.html"

    async def opened(self, tab: Tab) -> str:
        """Start the page's episode; its wish is the goal."""
        await tab.page.evaluate(_BEGIN, self._seed)
        return str(await tab.page.evaluate("() => core.getUtterance()"))

    async def looked(self, tab: Tab) -> tuple[bool, float | None, tuple[Risk, ...]]:
        """Over when the page says so, with the page's reward before any decay."""
        if "miniwob" not in tab.page.url:
            return False, None, ()
        over, reward = await tab.page.evaluate(_LOOK)
        if over and not self._over:
            self._over, self._reward = True, float(reward)
            return True, self._reward, ()
        return self._over, None, ()

    async def evaluate(self) -> Evaluation:
        """The page's raw reward, which runs from -1 to 1, where above 0; success is a full 1."""
        score = min(1.0, max(0.0, self._reward))
        return Evaluation(score=score, success=score == 1.0, metrics={"raw_reward": self._reward})

    def play(self, scene: Scene) -> ToolCall:
        """The page's expert."""
        return EXPERTS[self._name](scene)


def _pages() -> Path:
    # Found, not imported: importing it would want gymnasium and selenium.
    spec = importlib.util.find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise MissingError("the package miniwob is not here; run: silva envs install browser-miniwob")
    return Path(spec.origin).parent / "html"
