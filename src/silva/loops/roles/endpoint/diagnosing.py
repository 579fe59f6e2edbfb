"""Diagnosis by a model: it reads failed walks, and says what a curation should change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from pydantic import Field

from silva.curate.curation.profile import Profile
from silva.curate.curation.versions import FailedPoint
from silva.loops.roles.asking import Asker, Asks
from silva.loops.roles.diagnoser import Diagnosis, Walk
from silva.loops.roles.operators_told import told
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import Role
from silva.rollout.section import Section

TEMPLATE = """\
An agent was trained on walks that a program had chosen and changed. Below is one walk of it that failed, and what it
was trained on. Say which skill or habit it lacks, as one to three points on which that program can act: by dropping,
cutting, repeating or relabelling walks, or by a note that the agent is given. Say nothing of this task alone, and
not that it failed.

The program may call these operations:
{operators}

What it was trained on: {profile}

Task and walk:
{walk}

Answer with a JSON list of objects: "point" (what it lacks), "evidence" (the turn that shows it), "hint" (what the
program should change), "operators" (names of operations above that would, at most three)."""


class DiagnosingOptions(Asks):
    """`walks`: the most failed walks that a model is shown, one at a time."""

    walks: int = Field(default=12, ge=1)


class _Point(msgspec.Struct):
    point: str
    evidence: str = ""
    hint: str = ""
    operators: list[str] = []


class AskedDiagnoser(Implementation):
    """A model reads failed walks."""

    role: ClassVar[Role] = "diagnoser"
    name: ClassVar[str] = "endpoint"
    summary: ClassVar[str] = "a model reads failed walks"
    Options: ClassVar[type[Section]] = DiagnosingOptions

    async def diagnose(self, failed: Sequence[Walk], profile: Profile) -> Diagnosis:
        """See `Diagnoser`. Walks are taken evenly from those that failed; points of one wording are one."""
        options: DiagnosingOptions = self.options
        every = max(1, len(failed) // options.walks)
        chosen = list(failed)[::every][: options.walks]
        async with Asker(self.role, self.name, options) as asker:
            answers = await asyncio.gather(
                *(
                    asker.ask(
                        TEMPLATE,
                        {"operators": told(), "profile": str(profile), "walk": json.dumps(walk, ensure_ascii=False)},
                        list[_Point],
                    )
                    for walk in chosen
                )
            )
            spent = asker.spent
        points: dict[str, FailedPoint] = {}
        for walk, answer in zip(chosen, answers, strict=True):
            for each in answer.value[:3]:
                key = " ".join(each.point.lower().split())[:80]
                known = points.get(key)
                points[key] = FailedPoint(
                    point=each.point[:300],
                    evidence=(known.evidence if known else each.evidence)[:300],
                    hint=each.hint[:500],
                    tasks=(*(known.tasks if known else ()), str(walk["task"])),
                    operators=tuple(dict.fromkeys((*(known.operators if known else ()), *each.operators)))[:4],
                )
        ranked = sorted(points.values(), key=lambda point: -len(point.tasks))
        return Diagnosis(points=tuple(ranked), acted=(spent,))
