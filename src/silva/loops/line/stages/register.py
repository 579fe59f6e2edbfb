"""Stage `register`: the trained weights become the line's next version, a candidate, with what they came from."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import registry
from silva.train.curves import read_curve
from silva.train.registry import Data
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Register; done before, it is as it was.

    Raises:
        UsageError: the weights cannot be kept.
        StoreError: it could not be written.
    """
    selected = loop.given(f"round-{stage.round}.select")
    trained = loop.given(f"round-{stage.round}.train")
    points = read_curve(loop.folder / str(trained["output"]))
    made = registry(loop).register(
        loop.config.line,
        loop.folder / str(trained["policy"]),
        parent=str(trained["parent"]),
        data=Data(runs=(str(selected["run"]),), samples=(str(selected["sha256"]),)),
        config=str(trained["config"]),
        metrics={name: points[-1].values[name] for name in ("loss",) if points and name in points[-1].values},
        note=f"round {stage.round}: {trained['algorithm']} on {selected['samples']} samples",
        by=loop.config.loop,
        key=f"{loop.config.line}/{stage.name}",
    )
    return {"version": made.name, "digest": made.digest, "parent": made.parent, "bytes": made.size}
