"""Masked against unmasked SFT, on expert episodes with injected bad actions: APOLLO's ablation in small.

    python benchmarks/learning/masked.py --env babyai --policy tiny --seeds 0 1 2

The expert slips at a share of its turns (`slips`): another action of the environment is taken, and it has to find back. Those nodes are
masked in the lake by a rule, and the same base is trained twice on the same trajectories: loss on all actions, and loss on those that are
kept. Where an action is masked it still stands in the context.
"""

from __future__ import annotations

import asyncio
import sys

from recipes import RECIPES
from runner import Seed, main
from table import Row

from silva.lake import Lake
from silva.rollout.policies import SLIP
from silva.tree import Supervision, digest

SLIPS = 0.4


def run(seed: Seed) -> list[Row]:
    """One seed."""
    recipe = RECIPES[seed.policy, seed.env]
    experiment = seed.experiment
    tasks = experiment.learn[: recipe.sft_tasks]
    experiment.play("slipping", tasks, policy="expert", renderer=seed.student.base, slips=SLIPS)
    everything = experiment.samples("slipping")
    slips = asyncio.run(_mask(str(experiment.lake)))
    kept = experiment.samples("slipping")
    students = [
        experiment.fit(name, seed.student, samples, {"name": "sft"}, **recipe.sft)
        for name, samples in (("unmasked", everything), ("masked", kept))
    ]
    before, after = (experiment.measure(each, recipe.attempts) for each in students)
    actions = sum(int(sample.mask.sum()) for sample in everything)
    more = {"slips": slips, "episodes": len(tasks), "loss_kept": sum(int(each.mask.sum()) for each in kept) / actions}
    return [Row(seed=seed.number, left="SFT, unmasked", right="SFT, masked", before=before, after=after, more=more)]


async def _mask(location: str) -> int:
    """Mask every slip of the lake; how many there are."""
    async with Lake.open(location) as lake:
        slips = [node for node in lake.nodes(run_id="slipping") if node.attributes.get(SLIP)]
        judged = [
            Supervision(
                id=digest("mask", node.id)[:24],
                node_id=node.id,
                run_id=node.run_id,
                verdict="mask",
                source="rule",
                by="injected",
                reason="put in the place of the expert's action",
            )
            for node in slips
        ]
        await lake.append(judged)
    return len(slips)


if __name__ == "__main__":
    sys.exit(main("masked", __doc__, run))
