"""Evolution by a model: it is given a curation's source and what is wrong, and answers with the whole new source."""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

import msgspec

from silva.curate.curation.source import Curation, curation
from silva.errors import UsageError
from silva.loops.roles.asking import Answer, Asker, Asks, RoleError
from silva.loops.roles.evolver import Evolving, Revision, Wanted, unlike
from silva.loops.roles.operators_told import told
from silva.rollout.acted import plus
from silva.rollout.section import Section

TEMPLATE = """\
Below is a Python program that makes training data of walks of agents: its function curate(raw) gets a list of walks
(dicts, as in the sample) and returns output(sft=rows, rl=rows, memory=texts). An agent is trained on what it
returns, always in the same way, and measured. Revise the program. Aim of this revision: {aim}

Rules: standard library and the operations below only; no network, files, clock or chance; the same data every time;
rows name walks and turns of raw; nothing about single tasks or answers. Revision number {number}: try something that
the others would not.

Operations (`from operators import *`):
{operators}

What was wrong with agents that it trained:
{points}

What it gives now: {profile}

A sample of raw:
{sample}

The program:
{source}

Answer with a JSON object: "source" (the whole new program), "note" (what you changed, in at most twelve words)."""

AIMS = {
    "effect": "the agent should succeed more often; act on what was wrong.",
    "efficiency": "as few turns to train on as possible, without the agent succeeding less often.",
}


class EvolvingOptions(Asks):
    """Whom to ask; a whole program needs room."""

    max_tokens: int = 4096


class _Program(msgspec.Struct):
    source: str
    note: str = ""


class AskedEvolver(Evolving):
    """A model rewrites source."""

    name: ClassVar[str] = "endpoint"
    summary: ClassVar[str] = "a model rewrites the source"
    Options: ClassVar[type[Section]] = EvolvingOptions

    async def revise(self, parent: Curation, wanted: Wanted) -> list[Revision]:
        """See `Evolver`. A program that is none is no revision, and neither is an answer that cannot be read as long as
        another can."""
        points = [{"point": p.point, "evidence": p.evidence, "hint": p.hint} for p in wanted.points]
        fields = {
            "aim": AIMS[wanted.phase],
            "operators": told(),
            "points": json.dumps(points, ensure_ascii=False) if points else "nobody looked",
            "profile": str(wanted.profile),
            "sample": json.dumps(list(wanted.sample)[:2], ensure_ascii=False),
            "source": parent.source,
        }
        async with Asker(self.role, self.name, self.options) as asker:
            answers = await asyncio.gather(
                *(asker.ask(TEMPLATE, {**fields, "number": str(n)}, _Program) for n in range(1, wanted.count + 1)),
                return_exceptions=True,
            )
            self.spent = plus(self.spent, asker.spent)
        failed = [each for each in answers if isinstance(each, BaseException)]
        for each in failed:
            if not isinstance(each, RoleError) or len(failed) == len(answers):
                raise each
        made: list[Revision] = []
        for answer in (each for each in answers if isinstance(each, Answer)):
            try:
                revised = curation(f"{answer.value.source.rstrip()}\n", "revision")
            except UsageError:
                continue  # no program: what it cost is in `spent`, and there is one candidate less
            made.append(Revision(curation=revised, note=answer.value.note[:200], acted=(answer.acted,)))
        return list(unlike(made, parent, wanted))
