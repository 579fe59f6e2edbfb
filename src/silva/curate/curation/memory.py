"""The memories of a curation as a bank of skills (`silva.rollout.skills`): what a rollout's stage `skills` gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from silva.curate.curation.curated import Memory
from silva.rollout.skills import Bank, Skill
from silva.tree import digest

_PLAIN = re.compile(r"[^a-z0-9]+")


def write_bank(folder: Path, memories: Sequence[Memory], curation: str, envs: Sequence[str] = ()) -> Bank:
    """Write memories as kept skills; the same ones give the same folder.

    Args:
        folder: of the bank.
        memories: of one curation.
        curation: its digest, which every skill names as its author.
        envs: the environments that they are given in; none for any.

    Raises:
        UsageError: one is not of a skill's form.
        StoreError: the disk refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bank = Bank(folder)
    for each in memories:
        stem = _PLAIN.sub("-", each.when.lower()).strip("-")[:40].strip("-") or "memory"
        bank.put(
            Skill(
                name=f"{stem}-{digest(each.when, each.text)[:8]}",
                description=each.when,
                body=each.text,
                status="kept",
                envs=tuple(envs),
                says=each.says,
                by=f"curation {curation[:12]}",
                sources=each.walks,
                evidence=max(1, len(each.walks)),
            )
        )
    return bank
