"""What was found of curations, into the lake and the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from silva.curate.curation.versions import FailedPoint, Judgement, Verdict
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.judging import Judged
from silva.loops.curateevo.state import curations
from silva.loops.kernel.loop import Loop
from silva.tree import Json


def keep(
    loop: Loop[CurateEvoConfig],
    judged: Judged,
    *,
    epoch: int,
    verdict: Verdict,
    why: str,
    failed: Sequence[FailedPoint] = (),
) -> None:
    """Write a judgement into the lake."""
    curations(loop).judge(
        judged.curation.digest,
        Judgement(
            loop=loop.config.line,
            p=judged.p,
            c=judged.c(loop.config),
            j=judged.j(loop.config),
            turns=judged.profile.turns,
            seeds=tuple(range(len(judged.rates))),
            runs=judged.runs,
            epoch=epoch,
            verdict=verdict,
            why=why,
            profile=judged.profile,
            failed=tuple(failed),
        ),
    )


def told(loop: Loop[CurateEvoConfig], judged: Judged) -> Json:
    """What the ledger says of a judged curation."""
    values: dict[str, Any] = {
        "digest": judged.curation.digest,
        "data": judged.data.digest,
        "p": judged.p,
        "c": judged.c(loop.config),
        "j": judged.j(loop.config),
        "turns": judged.profile.turns,
        "by_seed": [sum(each.values()) / len(each) if each else 0.0 for each in judged.rates],
        "versions": list(judged.versions),
        "runs": list(judged.runs),
        "turns_played": judged.turns_played,
        "profile": msgspec.to_builtins(judged.profile),
    }
    return values
