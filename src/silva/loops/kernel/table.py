"""The table of kinds: Silva's own, and the names that installed packages register. It imports none of them.

An entry point of the group `silva.loops` names a `silva.loops.kernel.kind.Kind`; the point's name is the kind's.
"""

from __future__ import annotations

from importlib import metadata
from typing import NamedTuple

GROUP = "silva.loops"


class Row(NamedTuple):
    """A kind that is not loaded yet: where it stands, and the line that help shows."""

    target: str
    summary: str


OWN = {
    "flywheel": Row("silva.loops.flywheel.kind:FLYWHEEL", "Turn the flywheel: run, select, train, prove, promote."),
    "apollo": Row("silva.loops.apollo.kind:APOLLO", "Roll out with guidance, mask, make rows, train, prove."),
    "coevolve": Row(
        "silva.loops.coevolve.kind:COEVOLVE", "Train, read signals, explore there, grow tasks, train on them, prove."
    ),
    "safety": Row(
        "silva.loops.safety.kind:SAFETY", "Attack, find safe siblings, train, attack again with what was held out."
    ),
    "curateevo": Row(
        "silva.loops.curateevo.kind:CURATEEVO", "Curate, train, diagnose, revise the code that curates, prove."
    ),
    "sport": Row("silva.loops.sport.kind:SPORT", "Search steps, prefer the best, learn from all pairs, prove."),
}
"""Silva's own kinds."""

FIRST = "flywheel"
"""The kind of a folder whose configuration names none: when it was made there was no other."""


def summaries() -> dict[str, str]:
    """Each kind's name with the line that help shows."""
    own = {name: row.summary for name, row in OWN.items()}
    others = {point.name: f"{point.value}." for point in registered() if point.name not in own}
    return own | dict(sorted(others.items()))


def registered() -> list[metadata.EntryPoint]:
    """What packages register."""
    return list(metadata.entry_points(group=GROUP))
