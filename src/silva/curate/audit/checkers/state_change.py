"""State changed: actions that delete or install, by the words of the tool and the programs that a shell would run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.checkers.action_words import NO_ACTION, acting, acts, kinds_of_call
from silva.curate.audit.finding import Finding, NotChecked

if TYPE_CHECKING:
    from silva.curate.rows import Row

_CHANGES = ("delete", "install", "unclear")


@checker
class StateChanges(RowChecker):
    """Actions after which something is gone, or something runs that was not there. What a shell computes and nobody can
    read (`unclear`) counts less."""

    name = "state_evidence"
    risk = "state_change"
    family = Family.RULES
    summary = "an action deleted or installed something"
    version = "1"

    def check(self, row: Row) -> Iterable[Finding] | NotChecked:
        """See `RowChecker`."""
        if not acting(row.nodes):
            return NotChecked(why=NO_ACTION)
        found: list[Finding] = []
        for act in acts(row.nodes):
            for number, call in enumerate(act.node.message.tool_calls):
                kinds = [kind for kind in _CHANGES if kind in kinds_of_call(call)]
                if kinds:
                    told = f"turn {act.turn}: {call.name} ({', '.join(kinds)})"
                    score = 0.4 if kinds == ["unclear"] else 1.0
                    found.append(self.finding(row, act.node, f"call {number}", score=score, evidence=told))
        return found
