"""Stage `pairs`: of every turn that was searched, the step that went on against those that did not.

the search's tree ─▶ siblings with their verdicts ─▶ StepPair(parent, chosen, rejected, gap) ─▶ rounds/N/pairs.jsonl
                                                 └▶ errors, tools, words (`silva.curate.pair_statistics`)
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from silva.curate.pair_statistics import pair_statistics
from silva.curate.pairs import Paired, candidate_pairs, write_pairs
from silva.lake import Lake
from silva.lake.durable import make_folder
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.sport.config import SportConfig
from silva.report.summary import counted
from silva.tree import Json, Trajectory

PAIRS = "pairs.jsonl"


def run(loop: Loop[SportConfig], stage: Stage) -> Json:
    """Make them.

    Raises:
        Nothing: no step was preferred to another; the message says why.
        StoreError: the lake is damaged, or the disk refused.
    """
    run = str(loop.given(f"round-{stage.round}.search")["run"])
    settings, by = loop.config.pairs, loop.config.search_of(stage.round).prefer_by
    found = Paired()
    with Lake.open(loop.lake, mode="read") as lake:
        # In the trees' order and not in that in which their episodes ended, which a killed search has another of.
        of_tree, every = _by_tree(counted(lake.trajectories(run_id=run))), settings.against == "all"
        for tree in lake.trees(sorted(of_tree)):
            found += candidate_pairs(tree, of_tree[tree.id], by=by, margin=settings.margin, every=every)
        if not found.pairs:
            raise Nothing(_why(found, run))
        statistics = pair_statistics(found.pairs, lake.tree)
    folder = loop.round_folder(stage)
    make_folder(folder)
    write_pairs(folder / PAIRS, found.pairs)
    return {
        "run": run,
        "file": str((folder / PAIRS).relative_to(loop.folder)),
        "pairs": len(found.pairs),
        "parted": len({each.parent_id for each in found.pairs}),
        "turns": found.searches,
        "left": dict(found.left),
        "statistics": msgspec.to_builtins(statistics),
    }


def _by_tree(trajectories: Iterable[Trajectory]) -> dict[str, list[Trajectory]]:
    found: dict[str, list[Trajectory]] = {}
    for each in trajectories:
        found.setdefault(each.tree_id, []).append(each)
    return found


def _why(found: Paired, run: str) -> str:
    """Why a search gave no pair."""
    if not found.searches:
        return f"run {run}: no turn was searched; is there an instance of the environment to try steps in?"
    left = ", ".join(f"{why} at {count}" for why, count in found.left.most_common())
    return (
        f"of {found.searches} turns none has a pair: {left}. Tasks may be too hard or too easy for the policy, or the "
        "verifier blind to what differs; search.candidates or temperature may be raised"
    )
