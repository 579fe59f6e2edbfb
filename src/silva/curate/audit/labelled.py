"""A labelled file as a corpus: what its labels say becomes risks, and a label that says nothing is refused.

row.label ─▶ a risk, a list of risks, `clean` (none of the thirteen), `none` (none of those that the file names)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from silva.curate.audit.corpus import EVERY, Corpus, Item
from silva.curate.audit.risks import RISKS
from silva.curate.rows import Row, read
from silva.errors import UsageError

CLEAN, NONE = "clean", "none"
_SHOWN = 60


class LabelledFile(Corpus):
    """The rows of a file, by their labels.

    Args:
        path: any file that rows are read from.
        meaning: what labels mean that are no names of risks: `{"1": "jailbreak", "0": "clean"}`.
        licence: of the data, for the card.

    Raises:
        UsageError: the file cannot be read, a row has no label, or one that means nothing.
    """

    def __init__(self, path: Path, meaning: Mapping[str, str] | None = None, licence: str = "not told") -> None:
        self.name = path.name  # pyright: ignore[reportAttributeAccessIssue]
        self.licence = licence  # pyright: ignore[reportAttributeAccessIssue]
        self.origin = "a file"  # pyright: ignore[reportAttributeAccessIssue]
        self._meaning = dict(meaning or {})
        for label, risk in self._meaning.items():
            if risk not in RISKS and risk not in (CLEAN, NONE):
                raise UsageError(f"--label {label}={risk}: {risk!r} is no risk, nor {CLEAN} or {NONE}")
        rows = [(each, self._meant(each)) for each in read(str(path))]
        named = frozenset().union(*(meant for _, meant in rows)) - {CLEAN, NONE}
        if not named and not any(CLEAN in meant for _, meant in rows):
            raise UsageError(f"{path}: no row has a label that names a risk, so there is nothing to measure")
        self.labels = EVERY if any(CLEAN in meant for _, meant in rows) else named  # pyright: ignore[reportAttributeAccessIssue]
        self._items = [Item(each, meant - {CLEAN, NONE}, trap=bool(each.data.get("trap"))) for each, meant in rows]

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        return iter(self._items)

    def _meant(self, row: Row) -> frozenset[str]:
        label: Any = row.label if row.label is not None else row.data.get("risks", row.data.get("risk"))
        if label is None:
            raise UsageError(f"{row.source}: has no label; give each row one (label: RISK, or {CLEAN})")
        each = label if isinstance(label, list) else [label]
        return frozenset(self._one(row, value) for value in each) or frozenset({NONE})

    def _one(self, row: Row, value: Any) -> str:
        said = str(value)
        meant = self._meaning.get(said, said)
        if meant not in RISKS and meant not in (CLEAN, NONE):
            raise UsageError(
                f"{row.source}: label {said[:_SHOWN]!r} means nothing here; say what with --label {said[:_SHOWN]}=RISK "
                f"(risks: {', '.join(RISKS)}, or {CLEAN}, {NONE})"
            )
        return meant
