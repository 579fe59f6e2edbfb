"""DPO from pairs of the SFT policy's own attempts: those that succeeded against those that failed, cut where they part.

    python benchmarks/learning/dpo.py --env reasoning-gym/gcd --policy local --seeds 0 1 2

The policy sees expert episodes first, then plays tasks it has not seen, several attempts each; a task's best attempt makes a pair with its
worst. Before is the SFT policy, after the one that DPO has trained, both at temperature 1.
"""

from __future__ import annotations

import sys

from recipes import RECIPES
from runner import Seed, main
from table import Row

from silva.train.pairs import pairs

DPO = {"name": "dpo", "parameters": {"nll": 1.0}}
"""Where many answers are wrong, making one less likely makes others likelier: without the chosen side's likelihood success fell."""


def run(seed: Seed) -> list[Row]:
    """One seed."""
    recipe = RECIPES[seed.policy, seed.env]
    experiment = seed.experiment
    before = experiment.measure(seed.begun, recipe.attempts)
    tasks = experiment.learn[recipe.begin_tasks : recipe.begin_tasks + recipe.dpo_tasks]
    attempts = experiment.attempts("attempts", seed.begun, tasks, recipe.dpo_group)
    found = len(pairs(attempts))
    better = experiment.fit("dpo", seed.begun, attempts, DPO, groups=found, **recipe.dpo)
    after = experiment.measure(better, recipe.attempts)
    more: dict[str, float] = {"pairs": found, "episodes": len(attempts)}
    return [Row(seed=seed.number, left="SFT", right="SFT, then DPO", before=before, after=after, more=more)]


if __name__ == "__main__":
    sys.exit(main("dpo", __doc__, run))
