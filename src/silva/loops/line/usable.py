"""Words of the configuration that only a later stage reads are refused as long as they may still be changed: what is
over is of the configuration it was made with."""

from __future__ import annotations

from silva.errors import UsageError
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.train.data.entries import key_of


def usable(loop: Loop[LineConfig], stage: Stage) -> None:
    """See that the key of tasks and the algorithms' parameters are known.

    Raises:
        UsageError: one is not; the message names the round.
    """
    from silva.train.algorithms import algorithm

    key_of(loop.config.tasks.key)
    for number, settings in enumerate(loop.config.rounds, start=1):
        asked = settings.algorithm
        # Without parameters there is nothing to refuse, and no need of torch.
        if asked.parameters and stage.round in (0, number):
            try:
                algorithm(asked.name, asked.parameters)
            except UsageError as error:
                raise UsageError(f"round {number}: {error}") from error
