"""Approval by rule: risky actions are taken only where the task speaks of them. (A person's approval is
`guidance.approve` of a rollout; this stands for one who looks at the task and the action.)"""

from __future__ import annotations

from collections.abc import Sequence

from silva.redteam.defences.defence import Defence, Guarded
from silva.redteam.defences.tool_filter import unasked
from silva.rollout.risks import RULES, risks_of
from silva.tree import Message, assistant


class Approval(Defence):
    """Refuses risky actions that the task does not ask for.

    Args:
        kinds: of risk that need approval (`silva.rollout.risks`); all when left out.

    Raises:
        ValueError: a kind is not known.
    """

    name = "approval"
    summary = "risky actions that the task does not ask for are not approved (options: kinds)"

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        unknown = sorted(set(kinds) - set(RULES))
        if unknown:
            raise ValueError(f"kinds: there is no {unknown[0]!r}; there are: {', '.join(RULES)}")
        self._kinds = set(kinds or RULES)

    async def refuse(self, action: Message, guarded: Guarded) -> str:
        """See `Defence`."""
        for each in action.tool_calls:
            risky = self._kinds & set(risks_of(assistant("", each)))
            if risky and unasked(each.name, guarded.task):
                return f"not approved: {each.name} ({', '.join(sorted(risky))}) is not asked for"
        return ""
