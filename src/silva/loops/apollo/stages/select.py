"""Stage `select`: from the round's walks and what was said of them to rows of training (`silva.train.rows`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from silva.lake import Lake
from silva.loops.apollo.config import ApolloConfig
from silva.loops.apollo.rows_of import source_run
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.play import drawn, learnt
from silva.loops.line.selected import kept, tell
from silva.loops.line.weights import context
from silva.train.row_file import write_rows
from silva.train.rows import Copies, Rows, read_rows
from silva.train.truncation import Fitted, truncate
from silva.tree import Json

READABLE = "rows.jsonl"
"""The rows to be read, each once, with what was said of them."""


def run(loop: Loop[ApolloConfig], stage: Stage) -> Json:
    """Make the rows; write them as samples, and to be read.

    Raises:
        Nothing: no row is left.
        SampleError: a trajectory's tokens are not known.
    """
    config = loop.config
    settings = config.rounds[stage.round - 1]
    name = source_run(loop, stage)
    train = set(learnt(loop, settings.tags))
    least = settings.select.least_reward
    with Lake.open(loop.lake, mode="read") as lake:
        attempts = [each for each in lake.trajectories(run_id=name) if each.task_id in train]
        rewards = [each.outcome.score for each in attempts if each.outcome.score is not None]
        good = [each for each in attempts if least is None or (each.outcome.score or 0.0) >= least]
        chosen = set(drawn(sorted({each.task_id for each in good}), settings.select.limit, stage.seed))
        taken = [each for each in good if each.task_id in chosen]
        made = read_rows(lake, taken, masking=config.masking, takeovers=config.takeovers)
    fitted = Fitted(samples=())
    if config.training:
        limit = context(loop)
        made, fitted = _fitting(made, limit)
        tell(stage, fitted, limit)
    copies = Copies(actions=config.copies.actions, summary=config.copies.summary)
    samples = made.copied(copies)
    if not samples:
        raise Nothing(
            f"run {name}: {len(attempts)} attempts, {len(good)} good enough, {made.without_loss} rows masked all over, "
            f"{fitted.dropped} too long for the policy"
        )
    folder = loop.round_folder(stage)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / READABLE, made, Copies(), force=True)
    return kept(
        loop,
        stage,
        samples,
        run=name,
        readable=str((folder / READABLE).relative_to(loop.folder)),
        of=len(attempts),
        actions=sum(row.kind == "actions" for row in made.rows),
        summaries=sum(row.kind == "summary" for row in made.rows),
        without_loss=made.without_loss,
        truncated=fitted.truncated,
        dropped=fitted.dropped,
        drawn=made.drawn,
        masked=made.masked,
        reward=float(np.mean(rewards)) if rewards else 0.0,
    )


def _fitting(made: Rows, limit: int) -> tuple[Rows, Fitted]:
    """The rows, none of more than `limit` ids, and how many were cut or left out for it, a row's copies as one."""
    pairs = [(row, truncate(row.sample, limit)) for row in made.rows]
    kept = [(row, sample) for row, sample in pairs if sample is not None]
    fitted = Fitted(
        samples=tuple(sample for _, sample in kept),
        truncated=sum(len(sample) < len(row.sample) for row, sample in kept),
        dropped=len(pairs) - len(kept),
    )
    return replace(made, rows=tuple(replace(row, sample=sample) for row, sample in kept)), fitted
