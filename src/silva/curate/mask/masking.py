"""Judging runs: every walk through the rules and the judge, and what they say into the lake.

    config ─▶ runs' trajectories ─▶ walks ─▶ findings, judgements ─▶ Supervision (appended, each once) ─▶ Masked

A turn that several trajectories share is judged in each of them and masked if any finds fault. What was said before and
is said again is not written twice, so that a masking that was cut off is simply begun again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from pydantic import BaseModel

from silva.curate.mask.config import MaskConfig
from silva.curate.mask.judge import Judge
from silva.curate.mask.rule import Rule
from silva.curate.mask.rules import rules
from silva.curate.turn import Walk, read_walk
from silva.errors import UsageError
from silva.lake import Lake
from silva.models import open_model
from silva.redact import redact
from silva.tree import Supervision, Trajectory, digest


class Masked(BaseModel):
    """What a masking found. `turns` counts actions, each once; `by` says how many each rule and the judge mask;
    `masked` are those at least one of them masks; `unjudged` those the judge was to judge and did not; `written` how
    many judgements are new in the lake."""

    trajectories: int
    turns: int
    masked: int
    by: dict[str, int]
    judged: int
    unjudged: int
    failures: list[str]
    written: int


async def mask(config: MaskConfig, *, dry: bool = False) -> Masked:
    """Judge the runs.

    Args:
        config: which, and how.
        dry: say what would be written; write nothing.

    Raises:
        UsageError: a run is not in the lake or has no trajectory; the judge's model is not known.
        StoreError: the lake cannot be read or written.
    """
    async with Lake.open(config.lake, mode="read" if dry else "write") as lake:
        asked = [each for run in config.run for each in _trajectories(lake, run)]
        walks = [(each, read_walk(nodes, each.outcome)) for each, nodes in zip(asked, lake.walks(asked), strict=True)]
        found = _by_rules(walks, rules(config.rules, config.kinds, config.errors))
        failures: list[str] = []
        unjudged: set[str] = set()
        judged: list[Supervision] = []
        if config.judge.model:
            judged, unjudged, failures = await _by_judge(walks, config)
        said = [*found, *judged]
        known = {each.id for run in config.run for each in lake.supervisions(run_id=run)}
        new = list({each.id: each for each in said if each.id not in known}.values())
        if new and not dry:
            await lake.append(new)
    turns = {turn.action.id for _, walk in walks for turn in walk.turns}
    masks = {(each.by, each.node_id) for each in said if each.masks}
    return Masked(
        trajectories=len(walks),
        turns=len(turns),
        masked=len({node for _, node in masks}),
        by=dict(sorted(Counter(by for by, _ in masks).items())),
        judged=len({each.node_id for each in judged}),
        unjudged=len(unjudged),
        failures=failures,
        written=0 if dry else len(new),
    )


def _trajectories(lake: Lake, run: str) -> list[Trajectory]:
    if lake.run(run) is None:
        raise UsageError(f"lake {lake.location}: has no run {run!r}; see `silva trees list`")
    found = [each for each in lake.trajectories(run_id=run) if each.leaf_id is not None and not each.superseded]
    if not found:
        raise UsageError(f"run {run!r}: has no trajectory with a turn in it")
    return sorted(found, key=lambda each: (each.task_id, each.index, each.attempt, each.id))


def _by_rules(walks: Sequence[tuple[Trajectory, Walk]], asked: Sequence[Rule]) -> list[Supervision]:
    found: dict[str, Supervision] = {}
    for trajectory, walk in walks:
        for rule in asked:
            for turn, reason in rule.find(walk):
                said = _said(turn.action.id, trajectory.run_id, "mask", "rule", rule.name, reason)
                found.setdefault(said.id, said)
    return list(found.values())


async def _by_judge(
    walks: Sequence[tuple[Trajectory, Walk]], config: MaskConfig
) -> tuple[list[Supervision], set[str], list[str]]:
    model = await open_model(config.judge.model)
    try:
        judge = Judge(model, config.judge)
        answers = await asyncio.gather(*(judge.judge(walk) for _, walk in walks))
    finally:
        await model.close()
    said: dict[str, Supervision] = {}
    unjudged: set[str] = set()
    failures: list[str] = []
    for (trajectory, _), answer in zip(walks, answers, strict=True):
        for turn, keep, kind, reason in answer.judgements:
            made = _said(
                turn.action.id, trajectory.run_id, "keep" if keep else "mask", "model", judge.name, reason, kind
            )
            known = said.get(turn.action.id)
            if known is None or not keep:  # of a turn that several walks share, the fault counts
                said[turn.action.id] = made
        unjudged |= {turn.action.id for turn in answer.unjudged}
        failures += [why for why in answer.failures if why not in failures]
    return list(said.values()), unjudged - said.keys(), failures


def _said(node_id: str, run_id: str, verdict: str, source: str, by: str, reason: str, kind: str = "") -> Supervision:
    text = redact(reason)
    return Supervision(
        id=digest("mask", node_id, by, verdict, text),
        node_id=node_id,
        run_id=run_id,
        verdict=verdict,  # pyright: ignore[reportArgumentType]
        source=source,  # pyright: ignore[reportArgumentType]
        by=by,
        reason=text,
        at=time.time(),
        attributes={"kind": kind} if kind else {},
    )
