"""Stage `signals`: what the round's attempts say of the policy, read and kept in the lake with the walks."""

from __future__ import annotations

from collections import Counter

from silva.curate.signals.reader import made
from silva.curate.signals.reading import attempts_of, first_step, keep, signals_in
from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.tasks import played
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.tree import Json


def run(loop: Loop[CoEvolveConfig], stage: Stage) -> Json:
    """Read; what was played before is the past. Where tasks grow for the first time, `grow.also` is read too.

    Raises:
        UsageError: a run of `grow.also` is not in the lake, or of another environment.
        StoreError: the lake cannot be written.
    """
    grow = loop.config.grow
    runs = played(loop, stage.round)
    also = grow.also if stage.round in loop.config.grows_after[:1] else ()
    with Lake.open(loop.lake) as lake:
        attempts = attempts_of(lake, [*also, *runs])
        asked = made(grow.signals)
        found = signals_in(attempts, asked, first_step(attempts, runs[-1]))
        if also:
            told = [each for each in attempts if each.trajectory.run_id in also]
            mine = {each.trajectory.env for each in attempts if each.trajectory.run_id == runs[-1]}
            other = next((each.trajectory for each in told if each.trajectory.env not in mine), None)
            if other is not None:
                raise UsageError(f"grow.also: run {other.run_id} is of {other.env}, the loop of {', '.join(mine)}")
            found += signals_in(told, asked)
        keep(lake, found)
    counts = Counter(each.kind for each in found)
    return {
        "runs": [*also, runs[-1]],
        "signals": {name: counts[name] for name in grow.signals},
        "walks": len({each.trajectory for each in found}),
        "of": sum(each.trajectory.run_id in (*also, runs[-1]) for each in attempts),
    }
