"""How long and how fast each experiment trains, for each policy and environment: chosen by trying, on other seeds.

An adapter bears a learning rate of 1e-3, a tiny policy from nothing 3e-3; policies that are good already are moved gently.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """`attempts` at each held-out task; the other numbers are tasks, or what `Experiment.fit` and `fit_online` take.
    `begin_tasks` are the expert's episodes that GRPO and DPO's policy has seen before, `opd_begin_tasks` OPD's, which plays `opd_rounds` and
    is measured on `opd_held_out` tasks after each sum of them that is in `opd_counts`; `teacher_slips` is the share of turns at which the expert slips for the teacher's lessons, which
    it gets `teacher_parts` times, with other slips each."""

    attempts: int
    sft_tasks: int
    sft: dict[str, Any]
    begin_tasks: int
    begin: dict[str, Any]
    grpo: dict[str, Any]
    dpo_tasks: int
    dpo_group: int
    dpo: dict[str, Any]
    teacher_tasks: int
    teacher: dict[str, Any]
    opd_counts: tuple[int, ...]
    opd: dict[str, Any]
    opd_sft: dict[str, Any]
    opd_begin_tasks: int
    opd_held_out: int
    opd_rounds: tuple[int, ...]
    opd_begin: dict[str, Any] = field(default_factory=dict[str, Any])
    teacher_slips: float = 0.0
    teacher_parts: int = 1


def changed(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with other values: `NAME=JSON` each.

    Raises:
        ValueError: there is no such name, or its value is no JSON.
        msgspec.ValidationError: the value is of another kind.
    """
    given = asdict(recipe)
    for change in changes:
        name, _, text = change.partition("=")
        if name not in given:
            raise ValueError(f"{name}: a recipe has no such value; there are {', '.join(given)}")
        try:
            given[name] = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{change}: after = comes JSON ({error})") from error
    return msgspec.convert(given, Recipe)


QUESTIONS = Recipe(
    attempts=2,
    sft_tasks=240,
    sft={"batch": 8, "rate": 1e-3},
    begin_tasks=160,
    begin={"batch": 8, "rate": 1e-3},
    grpo={"steps": 12, "batch": 16, "group": 8, "rate": 2e-4},
    dpo_tasks=240,
    dpo_group=6,
    dpo={"batch": 8, "rate": 2e-4, "epochs": 2},
    teacher_tasks=800,
    teacher={"batch": 8, "rate": 1e-3},
    opd_counts=(100, 400),
    opd={"batch": 8, "rate": 5e-4, "epochs": 3},
    opd_sft={"batch": 8, "rate": 5e-4, "epochs": 3},
    opd_begin_tasks=160,
    opd_held_out=240,
    opd_rounds=(100, 300),
    opd_begin={"batch": 4, "rate": 1e-3},
)

BABYAI = Recipe(
    attempts=2,
    sft_tasks=72,
    sft={"batch": 4, "rate": 1e-3},
    begin_tasks=24,
    begin={"batch": 4, "rate": 1e-3},
    grpo={"steps": 8, "batch": 6, "group": 6, "rate": 2e-4},
    dpo_tasks=24,
    dpo_group=6,
    dpo={"batch": 4, "rate": 1e-4, "epochs": 2},
    teacher_tasks=160,
    teacher={"batch": 4, "rate": 1e-3},
    teacher_slips=0.3,
    teacher_parts=2,
    opd_counts=(12, 24),
    opd={"batch": 4, "rate": 5e-4, "epochs": 6},
    opd_sft={"batch": 4, "rate": 5e-4, "epochs": 6},
    opd_begin_tasks=24,
    opd_held_out=40,
    opd_rounds=(4, 4, 4, 12),
    opd_begin={"batch": 4, "rate": 1e-3},
)

RECIPES = {
    ("local", "reasoning-gym/number_sequence"): QUESTIONS,
    ("local", "reasoning-gym/family_relationships"): replace(
        QUESTIONS, opd_held_out=200, opd_counts=(100, 300, 500), opd_rounds=(100, 200, 200)
    ),
    ("local", "reasoning-gym/gcd"): QUESTIONS,
    ("local", "babyai"): BABYAI,
    ("local", "babyai-rooms"): replace(BABYAI, teacher_tasks=240, teacher_slips=0.25, teacher_parts=1),
    ("tiny", "babyai"): Recipe(
        attempts=2,
        sft_tasks=160,
        sft={"batch": 8, "rate": 3e-3, "epochs": 8},
        begin_tasks=80,
        begin={"batch": 8, "rate": 3e-3, "epochs": 10},
        grpo={"steps": 4, "batch": 8, "group": 8, "rate": 3e-4},
        dpo_tasks=16,
        dpo_group=8,
        dpo={"batch": 8, "rate": 2e-4, "epochs": 2},
        teacher_tasks=160,
        teacher={"batch": 8, "rate": 3e-3, "epochs": 10},
        opd_counts=(32, 96),
        opd={"batch": 8, "rate": 1e-3, "epochs": 4},
        opd_sft={"batch": 8, "rate": 1e-3, "epochs": 4},
        opd_begin_tasks=48,
        opd_held_out=40,
        opd_rounds=(32, 64),
        opd_begin={"batch": 8, "rate": 3e-3, "epochs": 8},
    ),
}
RECIPES["tiny", "babyai-acts"] = RECIPES["tiny", "babyai"]  # apollo.py has its own numbers
RECIPES["tiny", "babyai-steps"] = RECIPES["tiny", "depot-steps"] = RECIPES["tiny", "babyai"]  # sport.py, too
RECIPES["tiny", "errands"] = RECIPES["tiny", "babyai"]  # safety.py, too
RECIPES["tiny", "houses"] = RECIPES["tiny", "babyai"]  # and skills.py
RECIPES["tiny", "depot"] = RECIPES["tiny", "babyai"]  # and curateevo.py
RECIPES["tiny", "boxes"] = RECIPES["tiny", "babyai"]  # and coevolve.py
RECIPES["tiny", "workshop"] = RECIPES["tiny", "babyai"]  # and coevolve.py
RECIPES["tiny", "halls"] = RECIPES["tiny", "babyai"]  # and coevolve.py
