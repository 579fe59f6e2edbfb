"""When Python looks for cycles. A process with tens of thousands of records and hardly a cycle among them looks seldom:
at Python's own thresholds it took a third of the engine's processor time with a thousand agents (decision 005)."""

from __future__ import annotations

import gc

THRESHOLDS = (50_000, 20, 50)


def collect_seldom() -> None:
    """Look for cycles seldom, from now on, in this process."""
    gc.set_threshold(*THRESHOLDS)
