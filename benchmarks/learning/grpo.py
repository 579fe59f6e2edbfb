"""GRPO from the SFT policy: does the reward rise while it trains on its own attempts, and success on tasks held out?

    python benchmarks/learning/grpo.py --env reasoning-gym/gcd --policy local --seeds 0 1 2

Each seed's policy first sees some expert episodes, then trains online (`silva train online`, mode sync), groups of attempts at tasks it has
not seen. Before is that SFT policy, at temperature 1 as it is trained. `reward_first` and `reward_last` are the mean rewards of the first
and the last quarter of all groups grown, those without a lesson too.
"""

from __future__ import annotations

import sys
from statistics import fmean
from typing import Any

from recipes import RECIPES
from runner import Seed, main
from table import Row

GRPO: dict[str, Any] = {"name": "grpo", "parameters": {"keep_zero_variance": True}}
"""Groups without a lesson are kept: with few cores, waiting for others in their place costs more than training on them."""


def run(seed: Seed, algorithm: dict[str, Any] = GRPO) -> list[Row]:
    """One seed."""
    recipe = RECIPES[seed.policy, seed.env]
    experiment = seed.experiment
    before = experiment.measure(seed.begun, recipe.attempts)
    better = experiment.fit_online("grpo", seed.begun, algorithm, skip=recipe.begin_tasks, **recipe.grpo)
    after = experiment.measure(better, recipe.attempts)
    rewards = experiment.rewards("grpo")
    quarter = max(1, len(rewards) // 4)
    more = {
        "reward_first": fmean(rewards[:quarter]),
        "reward_last": fmean(rewards[-quarter:]),
        "episodes": float(len(rewards)),
    }
    return [Row(seed=seed.number, left="SFT", right="SFT, then GRPO", before=before, after=after, more=more)]


if __name__ == "__main__":
    sys.exit(main("grpo", __doc__, run))
