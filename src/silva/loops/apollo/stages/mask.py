"""Stage `mask`: rules, and a judge where one is named, say which turns carry no loss."""

from __future__ import annotations

import asyncio

from silva.curate.mask.masking import mask
from silva.loops.apollo.config import ApolloConfig
from silva.loops.apollo.rows_of import source_run
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.tree import Json


def run(loop: Loop[ApolloConfig], stage: Stage) -> Json:
    """Judge the round's run. What a judge leaves unjudged is counted, and kept.

    Raises:
        UsageError: the judge's model is not known.
        StoreError: the lake cannot be read or written.
    """
    name = source_run(loop, stage)
    done = asyncio.run(mask(loop.config.mask.of(loop.lake, name)))
    return {"run": name, **done.model_dump(mode="json")}
