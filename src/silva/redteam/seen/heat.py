"""A map of surfaces × framings: how often the exposed were led astray, cell by cell.

A cell is *measured* where somebody was exposed; *not measured* where it was tried and nobody was, with the reason;
empty where it was not tried. Words that an attacker chose stand in a column of that attacker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from silva.redteam.rates import DEFEND, share
from silva.redteam.seen.points import unseen
from silva.redteam.verdict import told
from silva.report.interval import Interval
from silva.tree import Record, Trajectory


class Cell(Record, frozen=True, kw_only=True):
    """One surface under one framing. `success` is the share of the exposed that was led astray, None where none was
    exposed; then `why` has the reasons."""

    surface: str
    framing: str
    attempts: int
    exposed: int
    reached: int
    success: Interval | None = None
    why: tuple[tuple[str, int], ...] = ()


class Heat(Record, frozen=True, kw_only=True):
    """The map: names of rows and columns, and the cells that were tried."""

    surfaces: tuple[str, ...]
    framings: tuple[str, ...]
    cells: tuple[Cell, ...]

    def cell(self, surface: str, framing: str) -> Cell | None:
        """One cell; None where it was not tried."""
        return next((each for each in self.cells if (each.surface, each.framing) == (surface, framing)), None)


def heat(trajectories: Iterable[Trajectory], *, defended: bool = False) -> Heat:
    """The map of some attempts; of those without a defence, unless `defended`."""
    tried: defaultdict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    for each in trajectories:
        said = told(each)
        names = str(said.get("name", "")).split("/")
        if each.superseded or said.get("quiet") or len(names) != 3 or (DEFEND in each.attributes and not defended):
            continue
        column = f"by {said['attacker']}" if said.get("attacker") else names[1]
        tried[names[0], column].append(each)
    columns = {framing for _, framing in tried}
    return Heat(
        surfaces=tuple(sorted({surface for surface, _ in tried})),
        framings=tuple(sorted(columns, key=lambda name: (name.startswith("by "), name))),
        cells=tuple(_cell(surface, framing, tried[surface, framing]) for surface, framing in sorted(tried)),
    )


def _cell(surface: str, framing: str, attempts: list[Trajectory]) -> Cell:
    exposed = [each for each in attempts if told(each).get("exposed") is not None]
    return Cell(
        surface=surface,
        framing=framing,
        attempts=len(attempts),
        exposed=len(exposed),
        reached=sum(told(each).get("reached") is not None for each in exposed),
        success=share(exposed, lambda each: told(each).get("reached") is not None),
        why=() if exposed else unseen(attempts),
    )
