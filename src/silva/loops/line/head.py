"""Which version of the line plays when, and where its loop keeps sets of tasks.

FOLDER/sets/        data sets and task files
       rounds/N/    samples, training
       policies/    versions as folders
"""

from __future__ import annotations

from pathlib import Path

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.train.registry import Registry


def head_of(loop: Loop[LineConfig], before: Stage | None = None) -> str:
    """The version that plays when a stage runs, or in the end: the last one promoted before it, or the base; where a
    proof took the head back, the one that it was proven against, be it that rounds were added then.

    Raises:
        StoreError: there is no base yet.
    """
    name = str(loop.given("base")["version"])
    for number in range(1, (before.round if before else 0) or len(loop.config.rounds) + 1):
        found = loop.outputs(f"round-{number}.judge")
        if found is not None and found["promoted"]:
            name = str(found["candidate"])
        proof = loop.outputs(f"prove-after-{number}")  # once the loop's end
        if proof is not None and proof["rolled_back"]:
            name = str(proof["base"])
    return name


def head_so_far(loop: Loop[LineConfig]) -> str:
    """The version the loop has come to; "" before there is one. A loop whose proof alone promotes says whom."""
    proofs = (loop.outputs(stage.name) or {} for stage in loop.plan if stage.kind == "prove")
    promoted = next((str(found["promoted"]) for found in proofs if found.get("promoted")), "")
    return promoted or (head_of(loop) if loop.outputs("base") is not None else "")


def registry(loop: Loop[LineConfig]) -> Registry:
    """The registry of its lake."""
    return Registry.open(loop.lake, make=True)


def part_file(loop: Loop[LineConfig], part: str) -> Path:
    """The data set of a part: the expert's attempts at its tasks."""
    return loop.folder / "sets" / f"{part}.jsonl"


def task_file(loop: Loop[LineConfig], name: str) -> Path:
    """A file of tasks: those of a part, or those chosen for a stage."""
    return loop.folder / "sets" / f"{name}.tasks.jsonl"
