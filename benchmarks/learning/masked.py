"""Masked against unmasked SFT, on expert episodes with injected bad actions: APOLLO's ablation in small.

    python benchmarks/learning/masked.py --env babyai --policy tiny --seeds 0 1 2

The expert slips at a share of its turns (`slips`): another action of the environment is taken, and it has to find back. Those nodes are
masked in the lake by a rule, and the same base is trained twice on the same trajectories: loss on all actions, and loss on those that are
kept. Where an action is masked it still stands in the context.
"""

from __future__ import annotations

import sys

from recipes import RECIPES
from runner import Seed, main
from table import Row

SLIPS = 0.4


def run(seed: Seed) -> list[Row]:
    """One seed."""
    recipe = RECIPES[seed.policy, seed.env]
    experiment = seed.experiment
    everything, kept, slips = experiment.slipping("slipping", recipe.sft_tasks, seed.student, SLIPS)
    students = [
        experiment.fit(name, seed.student, samples, {"name": "sft"}, **recipe.sft)
        for name, samples in (("unmasked", everything), ("masked", kept))
    ]
    before, after = (experiment.measure(each, recipe.attempts) for each in students)
    actions = sum(int(sample.mask.sum()) for sample in everything)
    more = {
        "slips": slips,
        "episodes": recipe.sft_tasks,
        "loss_kept": sum(int(each.mask.sum()) for each in kept) / actions,
    }
    return [Row(seed=seed.number, left="SFT, unmasked", right="SFT, masked", before=before, after=after, more=more)]


if __name__ == "__main__":
    sys.exit(main("masked", __doc__, run))
