"""Judging a curation: its data, the policy that the fixed recipe makes of it, and what that reaches on held-out tasks.

    curation ─▶ sandbox (once) ─▶ data, by digest ─▶ for each seed, once: train ─▶ play the part ─▶ rates by task
      ─▶ P (mean over tasks and seeds), C (of its turns), J

What cannot be judged has a reason instead: refused (its code or its data), diverged (its training).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import msgspec

from silva.curate.curation.corpus import Corpus
from silva.curate.curation.curated import Curated, CurationError
from silva.curate.curation.profile import Profile, cost, objective, profile
from silva.curate.curation.running import Bounds, curate
from silva.curate.curation.source import Curation
from silva.lake import Lake
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.memories import Memories
from silva.loops.curateevo.plan import JUDGING
from silva.loops.curateevo.raw import corpus, held_out
from silva.loops.curateevo.training import Diverged, Training
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.pieces import once
from silva.loops.kernel.progress import teller
from silva.loops.kernel.stage import Stage, seed_of
from silva.loops.line.play import measured, play, tasks_named
from silva.loops.line.verdict import rates
from silva.loops.line.weights import playing
from silva.tree import Json

UNSEEN = 1000
"""Numbers of seeds from here on are for the proof: no decision sees them."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A curation as it was judged: `rates` by task for each seed, the versions and runs behind them, and `why` where it
    could not be judged."""

    curation: Curation
    data: Curated
    profile: Profile
    rates: tuple[dict[str, float], ...] = ()
    versions: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    turns_played: float = 0.0
    why: str = ""

    @property
    def p(self) -> float:
        """Performance: the mean over tasks and seeds, from 0 to 1; 0 where it could not be judged."""
        means = [fmean(each.values()) for each in self.rates if each]
        return fmean(means) if means else 0.0

    def c(self, config: CurateEvoConfig) -> float:
        """The cost of the turns it trains on."""
        return cost(self.profile.turns, config.reference)

    def j(self, config: CurateEvoConfig) -> float:
        """J."""
        return objective(self.p, self.profile.turns, config.weight, config.reference)


class Judge:
    """Judges curations of one loop; what was judged before, in whichever stage, is taken as it was.

    Args:
        loop: whose.
        stage: that asks, which is told how far it is.
    """

    def __init__(self, loop: Loop[CurateEvoConfig], stage: Stage) -> None:
        self._loop, self._stage = loop, stage
        self._keeper = next(each for each in loop.plan if each.kind == JUDGING)
        self._corpus: Corpus | None = None
        self._done = 0
        self._tell = teller(loop, stage, "trainings")

    @property
    def corpus(self) -> Corpus:
        """What curations are given."""
        if self._corpus is None:
            self._corpus = corpus(self._loop)
        return self._corpus

    def data(self, curations: Sequence[Curation]) -> list[tuple[Curated, str]]:
        """What each curation gives, without the outputs that are not used, and why it gives nothing."""
        given = [self._kept(each) for each in curations]
        missing = [place for place, each in enumerate(given) if each is None]
        if missing:
            bounds = Bounds(seconds=self._loop.config.bounds.seconds, memory=self._loop.config.bounds.memory << 20)
            asked = [curations[place] for place in missing]
            made = asyncio.run(curate(asked, self.corpus, held_out=held_out(self._loop), bounds=bounds))
            for place, each in zip(missing, made, strict=True):
                given[place] = once(self._loop, self._keeper, _of(curations[place]), partial(_piece, each))
        found: list[tuple[Curated, str]] = []
        for each in given:
            assert each is not None
            data = msgspec.convert(each["data"], Curated).without(*self._loop.config.ablate.outputs)
            why = each["why"] or ("" if data.sft or data.rl else "nothing is left to train on")
            found.append((data, why))
        return found

    def judge(self, curations: Sequence[Curation], seeds: Sequence[int], part: str = "dev") -> list[Judged]:
        """Judge curations by trainings of these seeds, on a part.

        Raises:
            MissingError, UnreachableError, StoreError: as `run_rollout` and `curate`.
        """
        total = len(curations) * len(seeds)
        return [
            self._judged(curation, data, why, seeds, part, total)
            for curation, (data, why) in zip(curations, self.data(curations), strict=True)
        ]

    def judge_data(self, curation: Curation, data: Curated, seeds: Sequence[int], part: str = "dev") -> Judged:
        """Judge data that a curation gave, or a part of it."""
        return self._judged(curation, data, "", seeds, part, len(seeds))

    def _judged(
        self, curation: Curation, data: Curated, why: str, seeds: Sequence[int], part: str, total: int
    ) -> Judged:
        told = profile(data, self.corpus)
        if why:
            return Judged(curation=curation, data=data, profile=told, why=why)
        pieces: list[Json] = []
        for seed in seeds:
            key = f"judged {data.digest} {seed} {part}"
            pieces.append(once(self._loop, self._keeper, key, partial(self._once, curation, data, seed, part)))
            self._done += 1
            self._tell(self._done, max(total, self._done))
        return Judged(
            curation=curation,
            data=data,
            profile=told,
            rates=tuple(each["rates"] for each in pieces),
            versions=tuple(each["version"] for each in pieces),
            runs=tuple(each["run"] for each in pieces),
            turns_played=fmean(each["turns"] for each in pieces),
            why=next((each["why"] for each in pieces if each["why"]), ""),
        )

    def _once(self, curation: Curation, data: Curated, seed: int, part: str) -> Json:
        began = time.monotonic()
        memories = Memories(self._loop, data, curation.digest)
        training = Training(self._loop, self._stage, self.corpus, data, seed)
        empty: dict[str, Any] = {"rates": {}, "version": "", "run": "", "turns": 0.0, "left_out": 0}
        try:
            version = training.version(memories)
        except Diverged as error:
            return {**empty, "why": str(error), "seconds": time.monotonic() - began}
        # A bank is part of what is measured: the same weights with other memories are another run.
        name = f"{self._loop.config.line}.{part}.{training.name}"
        settings = self._loop.config.measure
        drawn_by = seed_of(self._loop.config.seed, f"measure.{part}")
        tasks = tasks_named(self._loop, measured(self._loop, part, drawn_by))
        more = {
            "model": playing(self._loop, version),
            "group": settings.seeds,
            "seed": drawn_by,
            "sampling": {"temperature": settings.temperature},
            **memories.stages(),
        }
        play(self._loop, self._stage, name, tasks, more)
        with Lake.open(self._loop.lake, mode="read") as lake:
            found = [each for each in lake.trajectories(run_id=name) if not each.superseded]
        return {
            "rates": rates(found),
            "version": version,
            "run": name,
            "turns": fmean(each.turns for each in found) if found else 0.0,
            "left_out": training.left_out,
            "why": "",
            "seconds": time.monotonic() - began,
        }

    def _kept(self, curation: Curation) -> Json | None:
        def missing() -> Json:
            raise KeyError(curation.digest)

        try:
            return once(self._loop, self._keeper, _of(curation), missing)
        except KeyError:
            return None


def _of(curation: Curation) -> str:
    return f"data of {curation.digest}"


def _piece(made: Curated | CurationError) -> Json:
    if isinstance(made, CurationError):
        return {"data": {}, "why": str(made)}
    return {"data": msgspec.to_builtins(made), "why": ""}
