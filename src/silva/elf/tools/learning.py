"""Skills distilled from trajectories (`silva.curate.skills`)."""

from __future__ import annotations

from silva.elf.artefact import Skills, Trajectories
from silva.elf.tool import Cost, Permission, tool
from silva.errors import MissingError

_MISSING = "the room silva.curate.skills is not whole in this version"


@tool(
    Permission.READ,
    asks=(
        "skill",
        "extract skill",
        "extract reusable skill",
        "skill extraction",
        "skill bank",
        "skillrl_skill_extraction",
    ),
    cost=Cost(seconds=5.0),
    missing=_MISSING,
)
def extract_skills(trajectories: Trajectories) -> Skills:
    """Distil short, retrievable skills from trajectories of one task that went differently."""
    raise MissingError(_MISSING)
