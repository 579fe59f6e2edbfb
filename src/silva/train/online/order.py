"""Which group is of which task: a fixed order without end, so that a group's number is all one need remember of it.

number ─▶ epoch, place in the epoch's own order of the tasks ─▶ task, seeds, places in the task's tree
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from silva.rollout.slots import Slot, slots
from silva.tree import Task


class Order:
    """The groups of a run.

    Args:
        run: its name.
        tasks: each with the environment it is for; at least one.
        group: attempts a group has.
        seed: of the orders, and of the environments.
    """

    def __init__(self, run: str, tasks: Sequence[tuple[str, Task]], group: int, seed: int) -> None:
        self._run, self._tasks, self._group, self._seed = run, list(tasks), group, seed
        self._epoch, self._permuted = -1, np.arange(len(self._tasks))

    @property
    def tasks(self) -> int:
        """How many tasks an epoch has."""
        return len(self._tasks)

    def slots(self, number: int) -> list[Slot]:
        """The places of group `number`, from 0. A task that comes again goes on in its tree, at higher indices."""
        epoch, place = divmod(number, len(self._tasks))
        if epoch != self._epoch:
            self._epoch = epoch
            self._permuted = np.random.default_rng([self._seed, epoch]).permutation(len(self._tasks))
        chosen = self._tasks[int(self._permuted[place])]
        return slots(self._run, [chosen], (epoch + 1) * self._group, self._seed)[epoch * self._group :]
