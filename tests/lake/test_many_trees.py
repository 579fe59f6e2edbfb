"""Many trees are read some at a time: what is said of them is what each alone says."""

from __future__ import annotations

import random

from lake_records import episode

from silva.lake import Lake


async def test_trees_of_any_sizes_come_in_the_order_in_which_they_are_asked_for(tmp_path):
    drawn = random.Random(7)
    sizes = [drawn.choice([1, 2, 3, 40]) for _ in range(90)]
    grown = [episode(number, turns=turns, index=index) for number, turns in enumerate(sizes) for index in range(2)]
    async with Lake.open(tmp_path / "lake") as lake:
        await lake.append([each for nodes, trajectory in grown for each in (*nodes, trajectory)])
        asked = [trajectory for _, trajectory in grown] * 2
        drawn.shuffle(asked)
        trees = list(lake.trees(each.tree_id for each in asked))
        walks = list(lake.walks(asked))
    nodes = {trajectory.id: tuple(mine) for mine, trajectory in grown}
    assert walks == [nodes[each.id] for each in asked]
    assert [{node.tree_id for node in tree} for tree in trees] == [{each.tree_id} for each in asked]
