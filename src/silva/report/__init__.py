"""What a run says, summed up: figures with their uncertainty, a page for people.

    Trajectories (one run) ─▶ summarise ─▶ Summary ─▶ print_summary | to_json | one HTML page
    two runs               ─▶ compare   ─▶ Comparison (paired by task)
    Tree                   ─▶ shape     ─▶ picture (branches, outcomes, risks, snapshots), on the page

A reader: it changes nothing. `summary` and `compare` are pure functions over `silva.tree` records; `page` draws what it
is given; only `write_report` opens a lake.
"""

from silva.report.compare import Comparison, Difference, compare
from silva.report.interval import Interval
from silva.report.summary import FailureCount, PassAt, Spread, Summary, TaskSummary, Waiting, summarise
from silva.report.terminal import print_comparison, print_summary
from silva.report.write import write_report

__all__ = [
    "Comparison",
    "Difference",
    "FailureCount",
    "Interval",
    "PassAt",
    "Spread",
    "Summary",
    "TaskSummary",
    "Waiting",
    "compare",
    "print_comparison",
    "print_summary",
    "summarise",
    "write_report",
]
