"""SFT from experts: does a policy that has seen an expert's episodes solve tasks nobody showed it?

    python benchmarks/learning/sft.py --env babyai --policy local --seeds 0 1 2

Each seed draws its own tasks for the expert, its own order and first weights; all are measured on the same held-out tasks, before and
after, at temperature 1.
"""

from __future__ import annotations

import sys

from recipes import RECIPES
from runner import Seed, main
from table import Row


def run(seed: Seed) -> list[Row]:
    """One seed."""
    recipe = RECIPES[seed.policy, seed.env]
    experiment = seed.experiment
    before = experiment.measure(seed.student, recipe.attempts)
    samples = experiment.expert("expert", recipe.sft_tasks, seed.student)
    student = experiment.fit("sft", seed.student, samples, {"name": "sft"}, **recipe.sft)
    after = experiment.measure(student, recipe.attempts)
    more = {"episodes": recipe.sft_tasks, "last_loss": experiment.curve("sft", "loss")[-1]}
    return [Row(seed=seed.number, left="untrained", right="SFT", before=before, after=after, more=more)]


if __name__ == "__main__":
    sys.exit(main("sft", __doc__, run))
