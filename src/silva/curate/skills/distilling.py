"""Distilling: contrasts of a source become candidates of a bank."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from silva.curate.rows import Row
from silva.curate.skills.asking import write
from silva.curate.skills.contrast import contrasts
from silva.curate.skills.extracting import WARNINGS, extract
from silva.models.connect import connect
from silva.rollout.skills import Bank, Skill
from silva.tree import NO_USAGE, Record, Usage


class Distilled(Record, frozen=True, kw_only=True):
    """What came of a source: `contrasts` that were found, the skills that are new or in a new version, how many the
    bank had already, why contrasts gave none, and what a model cost."""

    contrasts: int
    skills: tuple[Skill, ...]
    known: int
    skipped: tuple[str, ...] = ()
    usage: Usage = NO_USAGE


async def distil(
    rows: Iterable[Row],
    bank: Path,
    *,
    model: str | None = None,
    margin: float = 0.0,
    support: int = 1,
    warnings: int = WARNINGS,
    most: int = 50,
) -> Distilled:
    """Distil skills from the contrasting siblings among rows into a bank, as candidates.

    Args:
        rows: trajectories.
        bank: its folder; made where there is none.
        model: who writes them, as `silva.models.connect` names models; None for extraction by rules.
        margin: the least difference in score between siblings.
        support: the least number of tasks that must agree (extraction).
        warnings: the most worse steps that a skill warns of (extraction).
        most: the most contrasts that a model is asked about, and the most skills.

    Raises:
        UsageError, MissingError: the model cannot be used.
        ModelError: it cannot be had.
        StoreError: the bank cannot be written.
    """
    found = contrasts(rows, margin)
    skipped: tuple[str, ...] = ()
    usage = NO_USAGE
    if model is None:
        made = extract(found, support, warnings)[:most]
    else:
        async with connect(model) as writer:
            said = await write(writer, found[:most])
        made, skipped, usage = list(said.skills), said.skipped, said.usage
    opened = Bank(bank)
    before = {skill.name: skill.digest for skill in opened}
    kept = [opened.put(skill) for skill in made]
    fresh = tuple(skill for skill in kept if before.get(skill.name) != skill.digest)
    return Distilled(contrasts=len(found), skills=fresh, known=len(kept) - len(fresh), skipped=skipped, usage=usage)
