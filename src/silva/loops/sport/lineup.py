"""Which version plays a round, and which its training begins from.

    SFT ─▶ round 1: SFT plays ─▶ version 1 ─▶ round 2: version 1 plays ─▶ version 2, from SFT on all pairs ─▶ …

A version need not be proven better to play the next round of its arm: it only must not be proven worse than SFT, so
that one that training broke is passed over. Who serves is another matter, and the judge's.
"""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage, seed_of
from silva.loops.line.head import head_of
from silva.loops.line.stages.measure import compared
from silva.loops.sport.config import SportConfig


def sft_of(loop: Loop[SportConfig]) -> str:
    """The version that stood before the first round of preferences.

    Raises:
        StoreError: there is no base yet.
    """
    first = loop.config.first_preferring
    return head_of(loop, next((stage for stage in loop.plan if stage.round == first), None))


def player(loop: Loop[SportConfig], stage: Stage) -> str:
    """The version that plays a round's search, or its tries."""
    config = loop.config
    if config.search_of(stage.round).by == "head":
        return head_of(loop, stage)
    sft = sft_of(loop)
    for number in reversed(config.of_arm(config.rounds[stage.round - 1].arm)):
        judged = loop.outputs(f"round-{number}.judge") if number < stage.round else None
        if judged is None:
            continue
        candidate = str(judged["candidate"])
        if not compared(loop, sft, candidate, "dev").proven_worse:
            return candidate
    return sft


def start(loop: Loop[SportConfig], stage: Stage) -> str:
    """The version that a round's training begins from."""
    if loop.config.rounds[stage.round - 1].source == "expert":
        return head_of(loop, stage)
    return sft_of(loop) if loop.config.begin == "sft" else player(loop, stage)


def learnt_from(loop: Loop[SportConfig], stage: Stage, kind: str) -> list[str]:
    """The stages of a kind whose data a round learns from, that gave something: its own and, from SFT, those of all
    rounds of its arm before; of another arm, all so far."""
    config = loop.config
    settings = config.rounds[stage.round - 1]
    of = config.of_arm(settings.arm if settings.pairs_of is None else settings.pairs_of)
    so_far = [number for number in of if number <= stage.round]
    if config.begin == "last":
        so_far = so_far[-1:]
    return [name for number in so_far if loop.outputs(name := f"round-{number}.{kind}") is not None]


def drawing_seed(loop: Loop[SportConfig], stage: Stage) -> int:
    """What a round's tasks are drawn with: the same for the same iteration of every arm."""
    return seed_of(loop.config.seed, f"tasks.{loop.config.iteration(stage.round)}")
