"""When Python looks for cycles. A process with tens of thousands of records and hardly a cycle among them looks seldom:
at Python's own thresholds it took a third of the engine's processor time with a thousand agents (decision 005)."""

from __future__ import annotations

import gc

THRESHOLDS = (10_000, 10, 10)
"""Objects made and not freed since, and how often the older are looked at, too. What was read from Lance stays in
memory until a cycle of its reader is found: at (50,000, 20, 50) that took a gateway the better part of an hour."""


def collect_seldom() -> None:
    """Look for cycles seldom, from now on, in this process."""
    gc.set_threshold(*THRESHOLDS)
