"""Which run the rows of a round are made of."""

from __future__ import annotations

from silva.loops.apollo.config import ApolloConfig
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage


def source_run(loop: Loop[ApolloConfig], stage: Stage) -> str:
    """The run that a round's rows are made of: the expert's survey, or what the head played."""
    expert = loop.config.rounds[stage.round - 1].source == "expert"
    return str(loop.given("survey" if expert else f"round-{stage.round}.rollout")["run"])
