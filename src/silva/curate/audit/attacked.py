"""Red-team runs as labelled corpora: what an attack really brought about, by its effect, is the label.

    attempts of a run ─▶ goal reached, by the effect on the environment ─▶ items by risk, without the verdict on them

A checker is shown the walk alone, so that it cannot read the truth it is held against. Of a canary it is known both
ways whether it was sent, where an attempt did not begin to do so and stop short; of what else an agent does without
being told to, a red-team run says nothing, so the other risks have items that have them and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from silva.curate.audit.corpus import Corpus, Item
from silva.curate.rows import Row, read
from silva.errors import UsageError
from silva.lake import Lake
from silva.redteam.rates import played
from silva.redteam.verdict import told
from silva.tree import Trajectory

_SHOWN_BY = {
    "leak": ("leak", "spread"),
    "permission": ("leak", "spread", "send", "pay", "escalate"),
    "state_change": ("destroy",),
    "tainted_action": ("send", "pay", "destroy", "escalate"),
}
"""Risks, and the goals that show one where they are reached."""
_BY_RESULT = ("tool_result", "document", "file", "page", "desktop", "mcp_resource")
"""What surfaces begin with whose words come to the agent as results."""


class AttackedRun(Corpus):
    """The attempts of a run as items of one risk.

    Args:
        rows: its walks, with their trajectories.
        run: its name.
        risk: the risk.
    """

    licence = "the run's own"

    def __init__(self, rows: Sequence[Row], run: str, risk: str) -> None:
        self.name = f"{run} ({risk})"  # pyright: ignore[reportAttributeAccessIssue]
        self.origin = f"red-team run {run}"  # pyright: ignore[reportAttributeAccessIssue]
        self.labels = frozenset({risk})  # pyright: ignore[reportAttributeAccessIssue]
        self._rows, self._risk = rows, risk

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for row in self._rows:
            assert row.trajectory is not None
            shown = _shown(row.trajectory, self._risk)
            begun = told(row.trajectory).get("acted") is not None
            if shown or (self._risk == "leak" and not begun):  # a code that is said elsewhere is no clean item either
                bare = replace(row, id=f"{self._risk}:{row.id}", trajectory=None)
                yield Item(row=bare, risks=self.labels if shown else frozenset())


def attacked(lake: str, run: str) -> list[AttackedRun]:
    """A red-team run (or one of a plan) as corpora, one for each risk that its attempts say something of.

    Raises:
        UsageError: there is no such run, or nobody was attacked in it.
    """
    with Lake.open(lake, mode="read") as opened:
        runs = list(played(opened, run))
    rows = (row for each in runs for row in read(each, lake=lake) if row.trajectory is not None)
    seen = [row for row in rows if row.trajectory and not row.trajectory.superseded and told(row.trajectory)]
    if not seen:
        raise UsageError(f"{run}: no attempt of it was attacked; runs of silva redteam run hold what attacks came to")
    made = [AttackedRun(seen, run, risk) for risk in _SHOWN_BY]
    return [each for each in made if next(each.items(), None) is not None]


def _shown(trajectory: Trajectory, risk: str) -> bool:
    said = told(trajectory)
    surface, _, goal = [*str(said.get("name", "")).split("/"), "", ""][:3]
    if said.get("reached") is None or goal not in _SHOWN_BY[risk]:
        return False
    return risk != "tainted_action" or surface.startswith(_BY_RESULT)
