"""Skills distilled from trajectories (`silva.curate.skills`)."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from silva.curate.skills import distil
from silva.elf.artefact import Rows, Skills
from silva.elf.tool import Cost, tool
from silva.elf.work import Work


@tool(
    asks=(
        "skill",
        "extract skill",
        "extract reusable skill",
        "skill extraction",
        "skill bank",
        "skillrl_skill_extraction",
        "extract experience",
    ),
    cost=Cost(seconds=5.0, row_seconds=0.01),
)
def extract_skills(
    rows: Rows,
    work: Work,
    margin: Annotated[float, Meta(ge=0, description="least difference in score between siblings")] = 0.0,
    support: Annotated[int, Meta(ge=1, description="least number of tasks that agree")] = 1,
) -> Skills:
    """Distil skills by rules from attempts at one task that ended differently; they are candidates until a trial."""
    bank = work.folder / "bank"
    made = asyncio.run(distil(rows.rows, bank, margin=margin, support=support))
    found = [msgspec.to_builtins(each) for each in made.skills]
    texts = [
        f"### {each.name}\n\n{path.read_text()}"
        for each in made.skills
        if (path := bank / each.name / "SKILL.md").is_file()
    ]
    short = tuple({key: each.get(key) for key in ("name", "description", "version", "evidence")} for each in found)
    none = () if made.contrasts else ("no two attempts at one task ended differently; run with --group 4, or more",)
    notes = (*rows.notes, f"{made.contrasts} contrasts between siblings", *none, *made.skipped[:5])
    return Skills(bank=str(bank), skills=short, text="\n\n".join(texts[:5]), notes=notes)
