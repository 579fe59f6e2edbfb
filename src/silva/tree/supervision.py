"""What someone thinks of a node. Appended, never overwritten: a rule, a model and a person may disagree.

What a verdict means is said here, once, for the loss, for agreement, for pages and for what is written out:

1. `mask` and `bad` take the loss from a node, `keep` and `good` give it back; `score` and `note` do neither;
2. a person's word counts before a model's, a model's before a rule's;
3. of one kind the later word counts (by `at`, then by id);
4. a node nobody judged is kept, and no verdict gives loss to what the policy did not draw.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from silva.tree.message import Json, Record

_MASKS = {"mask": True, "bad": True, "keep": False, "good": False}
_RANK = {"rule": 0, "model": 1, "person": 2}


class Supervision(Record, frozen=True, kw_only=True, tag_field="kind", tag="supervision"):
    """One judgement on one node.

    `verdict` is what a reader acts on: `keep` or `mask` for the loss, `good` or `bad` for the turn and so for the loss,
    `score` with `value`, `note` for words alone. `source` is what kind of judge spoke and `by` which one. `at` is Unix
    seconds.
    """

    id: str
    node_id: str
    run_id: str
    verdict: Literal["keep", "mask", "good", "bad", "score", "note"]
    source: Literal["rule", "model", "person"]
    by: str
    reason: str = ""
    value: float | None = None
    at: float = 0.0
    attributes: Json = msgspec.field(default_factory=dict[str, Any])

    @property
    def masks(self) -> bool | None:
        """Whether it takes the loss from its node; None where it says nothing of that."""
        return _MASKS.get(self.verdict)


def deciding(supervisions: Iterable[Supervision]) -> dict[str, Supervision]:
    """Of each node that somebody judged, the judgement that decides on its loss; their order does not matter."""
    last: dict[str, Supervision] = {}
    for judged in supervisions:
        known = last.get(judged.node_id)
        if judged.masks is not None and (known is None or _place(judged) > _place(known)):
            last[judged.node_id] = judged
    return last


def masked_nodes(supervisions: Iterable[Supervision]) -> frozenset[str]:
    """The ids of the nodes that carry no loss."""
    return frozenset(node_id for node_id, judged in deciding(supervisions).items() if judged.masks)


def _place(judged: Supervision) -> tuple[int, float, str]:
    return _RANK[judged.source], judged.at, judged.id
