"""APOLLO as a kind of loop."""

from __future__ import annotations

from silva.loops.apollo.config import ApolloConfig
from silva.loops.apollo.plan import stages
from silva.loops.apollo.report import shown
from silva.loops.kernel.kind import Kind
from silva.loops.kernel.stage import Stage
from silva.loops.line import told
from silva.loops.line.stages import HOMES
from silva.loops.line.usable import usable
from silva.tree import Json


def line(stage: Stage, outputs: Json) -> str:
    """What a stage gave."""
    if stage.kind != "mask":
        return told.line(stage, outputs)
    unjudged = f", {outputs['unjudged']} unjudged" if outputs["unjudged"] else ""
    return f"{outputs['masked']} of {outputs['turns']} turns masked{unjudged}"


APOLLO = Kind(
    name="apollo",
    config=ApolloConfig,
    plan=stages,
    stages={
        **HOMES,
        **{kind: f"silva.loops.apollo.stages.{kind}" for kind in ("rollout", "mask", "select", "report")},
    },
    line=line,
    standing=told.standing,
    usable=usable,
    shown=shown,
)
