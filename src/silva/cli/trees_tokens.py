"""The exact tokens of a walk as a table: how many ids each turn added, how many of them were sampled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.table import Table

from silva.tree import Node, TokenWalk


def counted(walk: Sequence[Node], exact: TokenWalk) -> Table:
    """One row for each node that added ids, and a sum."""
    table = Table(title=f"{len(exact.ids)} ids, {sum(exact.sampled)} sampled", title_justify="left")
    for name in ("depth", "role", "ids", "sampled", "mean logprob", "model", "version", ""):
        table.add_column(name, justify="right" if name in ("depth", "ids", "sampled", "mean logprob") else "left")
    ids: Counter[int] = Counter(exact.nodes)
    drawn: Counter[int] = Counter()
    logprobs: defaultdict[int, float] = defaultdict(float)
    for place, sampled, value in zip(exact.nodes, exact.sampled, exact.logprobs, strict=True):
        if sampled:
            drawn[place] += 1
            logprobs[place] += value
    for place in sorted(ids):
        node = walk[place]
        table.add_row(
            str(node.depth),
            node.message.role,
            str(ids[place]),
            str(drawn[place]),
            f"{logprobs[place] / drawn[place]:.3f}" if drawn[place] else "",
            node.model,
            node.policy_version,
            str(node.attributes.get("restart") or node.attributes.get("tokens") or ""),
        )
    return table
