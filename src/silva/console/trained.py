"""What will be trained: the samples of a trajectory exactly as `silva train samples` makes them, turn by turn.

    trajectory ─▶ silva.train.lake_samples.collect (the lake's supervision, masks and all) ─▶ Sample ─▶ its actions ─▶
    each turn: ids drawn, ids with loss, and who said so

Nothing of a mask is computed here: a turn is coloured by what its sample says of every id it drew.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from silva.console.attempt import brief
from silva.errors import SilvaError
from silva.lake import Lake, field
from silva.rollout.guided_nodes import takes_turn
from silva.train.lake_samples import collect
from silva.train.sample import Sample
from silva.train.stretch import Reading
from silva.tree import Author, Node, Run, Supervision, Trajectory, deciding

MOST_IDS = 400
"""Ids of one turn that are drawn one by one."""
MOST_ATTEMPTS = 100
"""Trajectories of a run that are counted at a time."""

_READING = Reading(logprobs="optional")


Words = Callable[[int], str]
"""What an id is in words."""


def trained(lake: Lake, trajectory: Trajectory, walk: Sequence[Node], words: Words | None = None) -> dict[str, Any]:
    """A trajectory as training sees it.

    Args:
        lake: that holds it.
        trajectory: its record.
        walk: its nodes, root first.
        words: what ids are in words, where that is known (`text_of`).

    Returns:
        `turns`, one for each of its actions: `node`, `turn`, `author`, `text`, `drawn` and `loss` (ids), `ids`
        (`[id, logprob or None, loss, words or None]` of the first of them), `segment` (which sample holds it), `state`
        and `why`, `judged`; the sums `ids`, `drawn`, `loss`, `samples`, `reward`; `refused`: why there is no sample.
    """
    judged: dict[str, list[Supervision]] = defaultdict(list)
    for each in lake.supervisions(run_id=trajectory.run_id):
        judged[each.node_id].append(each)
    refused, samples = "", ()
    try:
        samples = collect(lake, [trajectory], _READING).samples
        if not samples:
            refused = "it failed or was taken the place of by a later attempt, so no sample is made of it"
    except SilvaError as error:
        refused = str(error)
    held = _held(samples)
    decides = deciding(each for some in judged.values() for each in some)
    turns: list[dict[str, Any]] = []
    for node in walk:
        if takes_turn(node):
            turns.append(
                _turn(
                    node,
                    len(turns) + 1,
                    held.get(node.id),
                    judged.get(node.id, []),
                    decides.get(node.id),
                    refused,
                    words,
                )
            )
    return {"turns": turns, "refused": refused, **_sums(samples)}


def trained_run(lake: Lake, run: str) -> dict[str, Any]:
    """The trajectories of a run in counts: `rows` with `id`, `task`, `slot`, `score`, `ids`, `drawn`, `loss`, `samples`
    and `refused`; `total`, of which at most `MOST_ATTEMPTS` are counted."""
    found = [each for each in lake.trajectories(run_id=run) if not each.superseded]
    rows: list[dict[str, Any]] = []
    for each in found[:MOST_ATTEMPTS]:
        row = {"id": each.id, "task": each.task_id, "slot": each.slot, "score": each.outcome.score, "refused": ""}
        try:
            samples = collect(lake, [each], _READING).samples
            row |= _sums(samples) if samples else {"refused": "it failed"}
        except SilvaError as error:
            row["refused"] = str(error)
        rows.append(row)
    return {"rows": rows, "total": len(found)}


def trajectory_of(lake: Lake, id: str) -> Trajectory | None:
    """The record of a trajectory that has ended; None of one that has not."""
    found = lake.trajectories(where=field("id") == id, limit=1)
    return found[0] if found else None


def text_of(run: Run | None) -> Words | None:
    """What the ids of a run are in words, if the tokenizer that wrote them is here: the run's renderer, or the bundled
    model's."""
    config = run.config if run is not None else {}
    source = str(config.get("renderer") or "") or ("local" if str(config.get("model", "")).startswith("local") else "")
    if not source:
        return None
    try:
        from silva.models.exact import open_renderer  # tokenizers, which may not be installed

        renderer = open_renderer(source)
    except SilvaError:
        return None
    return lambda id: renderer.text([id])


def _held(samples: Sequence[Sample]) -> dict[str, tuple[Sample, int, int]]:
    """Where each turn's drawn ids stand: in the sample in which they carry loss, else in the first that holds them."""
    found: dict[str, tuple[Sample, int, int]] = {}
    for sample in samples:
        for action in sample.actions:
            known = found.get(action.node_id)
            if known is None or (
                sample.mask[action.start : action.stop].any() and not known[0].mask[known[1] : known[2]].any()
            ):
                found[action.node_id] = (sample, action.start, action.stop)
    return found


def _turn(
    node: Node,
    number: int,
    held: tuple[Sample, int, int] | None,
    judged: list[Supervision],
    decides: Supervision | None,
    refused: str,
    words: Words | None,
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "node": node.id,
        "run": node.run_id,
        "turn": number,
        "author": str(node.author),
        "text": brief(node, 400),
        "judged": [
            {"verdict": each.verdict, "source": each.source, "by": each.by, "reason": each.reason[:500], "at": each.at}
            for each in sorted(judged, key=lambda each: each.at)
        ],
    }
    if held is None:
        why = "a person wrote it: it is context" if node.author is Author.PERSON else "the policy did not draw it"
        return {**made, "drawn": 0, "loss": 0, "ids": [], "state": "context", "why": refused or why}
    sample, start, stop = held
    mask, logprobs = sample.mask[start:stop], sample.logprobs[start:stop]
    loss = int(mask.sum())
    ids = [
        [
            int(id),
            None if math.isnan(value) else round(float(value), 4),
            bool(carries),
            words(int(id)) if words else None,
        ]
        for id, value, carries in zip(sample.ids[start:stop][:MOST_IDS], logprobs, mask, strict=False)
    ]
    state = "loss" if loss == stop - start else "masked" if not loss else "part"
    more = {
        "drawn": stop - start,
        "loss": loss,
        "ids": ids,
        "segment": sample.segment,
        "state": state,
        "why": _said(decides),
    }
    return {**made, **more}


def _said(decides: Supervision | None) -> str:
    """The judgement that decides on a node's loss, in words."""
    if decides is None:
        return ""
    reason = f": {decides.reason[:500]}" if decides.reason else ""
    return f"{'Masked' if decides.masks else 'Kept'} by {decides.by} ({decides.source}){reason}"


def _sums(samples: Sequence[Sample]) -> dict[str, Any]:
    reward = samples[0].reward if samples else math.nan
    return {
        "samples": len(samples),
        "ids": sum(len(each.ids) for each in samples),
        "drawn": sum(int(each.drawn.sum()) for each in samples),
        "loss": sum(int(each.mask.sum()) for each in samples),
        "reward": None if math.isnan(reward) else reward,
    }


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 4)
