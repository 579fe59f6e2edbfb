"""What stands on candidates: each one's verdict, and on the chosen one how its search went.

policy node ─ attributes["candidate"] ─▶ Verdict          the chosen one ─ attributes["search"] ─▶ Searched
nodes of a tree ─▶ searches ─▶ Search: the chosen and the others, with their verdicts
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from silva.rollout.guided_nodes import BESIDE
from silva.tree import NO_USAGE, Author, Json, Node, Record, Tree, Usage

CANDIDATE = "candidate"
"""The attribute of a candidate: its `Verdict`."""
SEARCH = "search"
"""The attribute of the candidate that was chosen: its `Searched`."""

_T = TypeVar("_T")


class Verdict(Record, frozen=True, kw_only=True):
    """What was found of one candidate. `number`: which draw it was, from 0, and `drawn`: how many draws said the same;
    `score` by the verifier that chose, None where it was not scored; `others`: by those that were only asked; `error`:
    why it could not be tried; `ended`: the episode was over behind it; `cut`: the search ended before its verdict."""

    number: int
    drawn: int = 1
    by: str = ""
    score: float | None = None
    others: dict[str, float | None] = msgspec.field(default_factory=dict[str, float | None])
    chosen: bool = False
    error: str = ""
    ended: bool = False
    cut: bool = False


class Searched(Record, frozen=True, kw_only=True):
    """One search. `n` candidates were drawn, of which `distinct` differed and `tried` were executed; `equal`: all said
    the same, so there was nothing to judge; `tied`: no score stands out, so the first draw went on; `gap`: the best
    score less the worst; `way`: how copies got to their state (exact, files+replay or replay), with so many actions
    `replayed` for each; `why` in the verifier's words; `facts`: what else it tells; `spent`: what the search cost
    besides the candidates' own turns that are nodes."""

    by: str
    n: int
    distinct: int = 1
    tried: int = 0
    equal: bool = False
    tied: bool = False
    gap: float = 0.0
    way: str = ""
    replayed: int = 0
    why: str = ""
    facts: Json = msgspec.field(default_factory=dict[str, Any])
    spent: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Search:
    """One search as it stands on a tree: the candidate that was chosen and those that were not, each with its
    verdict. `searched` tells how it went."""

    chosen: Node
    others: tuple[Node, ...]
    searched: Searched

    @property
    def candidates(self) -> list[tuple[Node, Verdict]]:
        """All of them, in the order in which they were drawn."""
        each = [(node, verdict) for node in (self.chosen, *self.others) if (verdict := verdict_of(node)) is not None]
        return sorted(each, key=lambda one: one[1].number)

    def scores(self, by: str = "") -> list[tuple[Node, float]]:
        """The scored candidates, by the verifier that chose or by another that was asked."""
        found: list[tuple[Node, float]] = []
        for node, verdict in self.candidates:
            score = verdict.score if by in ("", verdict.by) else verdict.others.get(by)
            if score is not None:
                found.append((node, score))
        return found


def answer_of(tree: Tree, action: Node) -> list[Node]:
    """What the environment answered an action, on a walk or beside it, node by node."""
    found: list[Node] = []
    at: Node | None = action
    while at is not None:
        at = next((each for each in tree.children(at.id) if each.author is Author.ENVIRONMENT), None)
        found += [] if at is None else [at]
    return found


def verdict_of(node: Node) -> Verdict | None:
    """What was found of a candidate; None where a node is none."""
    return _read(node.attributes.get(CANDIDATE), Verdict)


def searched_of(node: Node) -> Searched | None:
    """How the search went that chose a node; None where none did."""
    return _read(node.attributes.get(SEARCH), Searched)


def spent_at(node: Node) -> Usage:
    """What the search that chose a node cost besides the candidates' own turns."""
    found = searched_of(node) if SEARCH in node.attributes else None
    return NO_USAGE if found is None else found.spent


def searches(nodes: Iterable[Node]) -> Iterator[Search]:
    """The searches among the nodes of a tree, in the nodes' order."""
    nodes = [node for node in nodes if node.author is Author.POLICY and CANDIDATE in node.attributes]
    beside: dict[tuple[str | None, str], list[Node]] = {}
    for node in nodes:
        if BESIDE in node.attributes:
            beside.setdefault((node.parent_id, node.slot), []).append(node)
    for node in nodes:
        searched = None if BESIDE in node.attributes else searched_of(node)
        if searched is not None:
            yield Search(node, tuple(beside.get((node.parent_id, node.slot), ())), searched)


def _read(said: Any, kind: type[_T]) -> _T | None:
    try:
        return None if said is None else msgspec.convert(said, kind)
    except msgspec.ValidationError:
        return None
