"""An audit by its configuration: the source read, the checkers made, the cards found, the findings kept.

AuditConfig ─▶ begun (checkers, cards, thresholds) ─▶ run ─▶ Audit ─▶ the lake, where the source is one
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from silva.curate.audit.auditing import Audit, audit, held_to
from silva.curate.audit.card import Card, read_cards
from silva.curate.audit.checker import Checker, make
from silva.curate.audit.config import AuditConfig
from silva.curate.audit.keeping import keep_in_lake
from silva.curate.audit.thresholds import Thresholds
from silva.curate.rows import Reading, read
from silva.errors import UsageError
from silva.lake import Lake, default_location

if TYPE_CHECKING:
    from silva.curate.audit.past import Table


class Begun:
    """An audit that is ready to begin: who will look, and with which thresholds.

    Raises:
        UsageError: no such checker, no such folder of cards, or none that can be asked here.
    """

    def __init__(self, config: AuditConfig) -> None:
        self.config = config
        self.lake = config.lake or ("" if Path(config.source).suffix else default_location())
        self.checkers: list[Checker] = make(config.checkers, config.settings)
        self.cards: dict[str, Card] = read_cards(config.cards)
        self.thresholds: Thresholds = held_to(self.checkers, self.cards, config.alarms)
        self.missing = {each.name: why for each in self.checkers if (why := each.missing())}
        if len(self.missing) == len(self.checkers):
            name, why = next(iter(self.missing.items()))
            raise UsageError(f"audit: none of the checkers can be asked here; {name}: {why}")

    def rows(self) -> Reading:
        """The rows of the source.

        Raises:
            UsageError: the source names nothing that can be read.
        """
        return read(
            self.config.source,
            lake=self.lake or None,
            where=self.config.where or None,
            limit=self.config.limit,
        )

    def look(self) -> None:
        """See that the source can be read: its first row, or that a table has its columns.

        Raises:
            UsageError, MissingError: it cannot.
        """
        if self.config.on != "here":
            self._table()
        else:
            next(iter(self.rows()))

    def _table(self) -> Table:
        from silva.curate.audit.past import Table  # needs Daft

        return Table(self.config)

    def run(self, told: Callable[[int], None] = lambda _: None) -> tuple[Audit, int]:
        """The audit, and how many records of it are new in the lake.

        Args:
            told: is told how many rows are done.

        Raises:
            UsageError: the source cannot be read.
            StoreError: the lake cannot be written.
            MissingError: Daft is not installed.
        """
        config = self.config
        table = None if config.on == "here" else self._table()
        reading = self.rows() if table is None else None
        made = audit(
            () if reading is None else reading,
            self.checkers,
            self.cards,
            alarms=config.alarms,
            weights=config.weights,
            workers=config.workers,
            source=Path(config.source).name if Path(config.source).is_file() else config.source,
            settings=config.settings,
            told=told,
            answered=None if table is None else table.answered(self.checkers),
        )
        made.notes = list(reading.notes if reading is not None else table.notes if table is not None else ())
        if not config.write or not self.lake or table is not None or Path(config.source).is_file():
            return made, 0
        with Lake.open(self.lake) as lake:
            return made, keep_in_lake(lake, made)
