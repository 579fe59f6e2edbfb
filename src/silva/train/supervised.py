"""Which turns supervision takes the loss from.

A rule, a model and a person may disagree. Only `keep` and `mask` count here, for a whole node at a time:

1. a person's word counts before a model's, a model's before a rule's;
2. of one kind the later word counts (by `at`, then by id);
3. a node nobody judged is kept.

`keep` gives no loss to what the policy did not draw: it can only take back a `mask`.
"""

from __future__ import annotations

from collections.abc import Iterable

from silva.tree import Supervision

_RANK = {"rule": 0, "model": 1, "person": 2}


def masked_nodes(supervisions: Iterable[Supervision]) -> frozenset[str]:
    """The ids of the nodes that carry no loss, by the rule above; the order of `supervisions` does not matter."""
    last: dict[str, tuple[tuple[int, float, str], str]] = {}
    for judged in supervisions:
        if judged.verdict not in ("keep", "mask"):
            continue
        place = (_RANK[judged.source], judged.at, judged.id)
        known = last.get(judged.node_id)
        if known is None or place > known[0]:
            last[judged.node_id] = (place, judged.verdict)
    return frozenset(node_id for node_id, (_, verdict) in last.items() if verdict == "mask")
