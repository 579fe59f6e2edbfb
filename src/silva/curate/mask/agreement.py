"""How far those who judge agree: every pair of rules, judges and people over the turns both have judged.

A rule has judged every turn of a run it was asked about and masks some; a judge and a person have judged the turns they
said something of. What a verdict means is what it means for the loss (`silva.tree.supervision`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from pydantic import BaseModel

from silva.curate.kappa import kappa
from silva.lake import Lake
from silva.tree import Author, Supervision


class Pair(BaseModel):
    """Two who judged. `agree` is the share of turns of which they say the same, `kappa` Cohen's (1960; None where both
    always say the same one thing); `precision` and `recall` take `right` for the truth of what should be masked (None
    where `left` masks nothing, or `right` does)."""

    left: str
    right: str
    turns: int
    agree: float
    kappa: float | None
    precision: float | None
    recall: float | None


def agreement(lake: Lake, runs: Iterable[str]) -> list[Pair]:
    """The pairs of all who judged turns of these runs; people come last, so that they are the truth of a pair."""
    says: dict[str, dict[str, bool]] = {}
    for run in runs:
        actions = {node.id for node in lake.nodes(run_id=run) if node.author is Author.POLICY}
        given = [each for each in lake.supervisions(run_id=run) if each.node_id in actions]
        for who, verdicts in raters(given, actions).items():
            says.setdefault(who, {}).update(verdicts)
    order = {"rule": 0, "any rule": 1, "model": 2, "person": 3}
    names = sorted(says, key=lambda who: (order[who.partition(":")[0]], who))
    return [pair(a, says[a], b, says[b]) for a, b in combinations(names, 2) if says[a].keys() & says[b].keys()]


def raters(given: Iterable[Supervision], actions: Iterable[str]) -> dict[str, dict[str, bool]]:
    """Who masks which of the actions: of what one said twice the later counts. Rules are also taken together."""
    says: dict[str, dict[str, bool]] = {}
    nodes = list(actions)
    for each in sorted(given, key=lambda one: (one.at, one.id)):
        if each.masks is not None:
            who = f"{each.source}:{each.by}"
            known = says.setdefault(who, dict.fromkeys(nodes, False) if each.source == "rule" else {})
            known[each.node_id] = each.masks
    masked = [verdicts for who, verdicts in says.items() if who.startswith("rule:")]
    if masked:
        says["any rule"] = {node: any(each[node] for each in masked) for node in nodes}
    return says


def pair(left: str, says: Mapping[str, bool], right: str, also: Mapping[str, bool]) -> Pair:
    """One pair, over the turns both judged (at least one)."""
    both = sorted(says.keys() & also.keys())
    a, b = [says[node] for node in both], [also[node] for node in both]
    same, beyond = kappa(a, b)
    hits = sum(x and y for x, y in zip(a, b, strict=True))
    return Pair(
        left=left,
        right=right,
        turns=len(both),
        agree=same,
        kappa=beyond,
        precision=hits / sum(a) if sum(a) else None,
        recall=hits / sum(b) if sum(b) else None,
    )
