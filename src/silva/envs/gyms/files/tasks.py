"""The gym's own tasks: 72 of them in three levels, in the test's themes; and as many as wanted in those of training.

The tests are fixed: each is named by its level and number, and drawn from the generator that its name seeds. Every
quantity of the grammar stands in some task of level 1, every way of asking in some of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from silva.envs.gyms.files.grammar.asking import draft
from silva.envs.gyms.files.grammar.quantities import NUMBERS, TEXTS
from silva.envs.gyms.files.grammar.seeds import TEST, TRAIN
from silva.errors import UsageError
from silva.tree import Task

EACH = 24
"""Test tasks of each level."""
TRAINING = 300
_LEVELS = {"level1": (1,), "level2": (2,), "level3": (3,), "test": (1, 2, 3)}
_DRAWN = "1"
"""Changes when the grammar does in a way that changes the tests."""


def own(split: str) -> Iterable[Task]:
    """The tasks of a split.

    Raises:
        UsageError: there is no such split.
    """
    if split == "train":
        return (train(number) for number in range(TRAINING))
    if split not in _LEVELS:
        raise UsageError(f"no split {split!r}; there are {', '.join((*_LEVELS, 'train'))}")
    return (test(level, number, split) for level in _LEVELS[split] for number in range(EACH))


def test(level: int, number: int, split: str = "test") -> Task:
    """A task of the gym's own, by its level and number."""
    random = Random(f"files/test/{_DRAWN}/{level}/{number}")
    theme = TEST[number % len(TEST)]
    names = sorted({**NUMBERS, **TEXTS} if level == 1 else NUMBERS)
    made = draft(random, theme, level, (names[number % len(names)],))
    return made.task(f"files/{level}/{number}", "files", level, split, theme.name)


def train(number: int) -> Task:
    """A training task by its number; the levels take turns."""
    random = Random(f"files/train/{number}")
    theme = random.choice(TRAIN)
    level = number % 3 + 1
    return draft(random, theme, level).task(f"files/train/{number}", "files", level, "train", theme.name)
