"""Rows: what data is audited, scored, selected and released as, wherever it comes from.

    a run or a query of a lake ─▶ trajectories ─┐
    a trajectory file (any format) ─▶ bundles ──┼─▶ Row: nodes of the tree, and what else the source says
    a table of objects ─▶ the shape of each ────┘

One record type serves them all: a row holds the nodes of its walk, root first. What cannot be read drops out by name.
"""

from silva.curate.rows.reading import MOST_BYTES, Reading, read
from silva.curate.rows.row import Kind, Row

__all__ = ["MOST_BYTES", "Kind", "Reading", "Row", "read"]
