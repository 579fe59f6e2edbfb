"""What the page asks on which people rate pairs of steps, blind.

    pairs of a loop or a run ─▶ one order for all who rate      each pair ─▶ left and right by the rater's name

What a verifier said of a pair is nowhere in an answer: not in the order of the sides, not in an id. All see the pairs
in one drawn order, so that those who rate only some of them rate the same; who sees which step on the left is drawn for
each.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from silva.console.loops import Loops
from silva.console.reading import Reading
from silva.console.view import line, said
from silva.curate.pairs import StepPair, read_pairs
from silva.curate.ratings import EQUAL, Rating, agreement, key, pairs_to_rate, rating_record, ratings
from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.line.shown import pair_files
from silva.rollout.guided_nodes import answers
from silva.tree import Node, Tree, digest

BEFORE = 4
"""Turns before the two steps that are shown, besides the task."""
SIDES = ("left", "right")


class Rate(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A person's word on a pair: `left`, `right` or `equal`, as their page shows its sides."""

    of: str
    pair: str
    better: str
    reason: str = ""


class Ratings:
    """Pairs to be rated, and what was said of them.

    Args:
        reading: the lake.
        loops: the loops whose pairs may be asked for.
    """

    def __init__(self, reading: Reading, loops: Loops) -> None:
        self._reading, self._loops = reading, loops

    def asked(self, of: str, me: str, at: str = "") -> dict[str, Any]:
        """The pairs of `loop/ID` or `run/NAME`: how many, how many `me` has rated, and one to rate: the one called
        `at`, or the first that `me` has not rated.

        Raises:
            UsageError: there is no such loop, run or pair.
        """
        pairs = self._pairs(of)
        mine = {each.key: each for each in ratings(self._reading.lake, pairs) if each.by == me}
        names = [key(pair) for pair in pairs]
        if at and at not in names:
            raise UsageError(f"there is no pair {at[:40]!r} here")
        chosen = at or next((name for name in names if name not in mine), "")
        place = names.index(chosen) if chosen else len(names)
        return {
            "total": len(pairs),
            "rated": len(mine),
            "place": place,
            "before": names[place - 1] if place else "",
            "after": names[place + 1] if place + 1 < len(names) else "",
            "pair": self._shown(pairs[place], me, mine.get(chosen)) if chosen else None,
        }

    def agreement(self, of: str, me: str) -> dict[str, Any]:
        """How far people agree with one another and with those who judged the pairs. It is `held` back from somebody in
        the midst of rating: figures that move with each answer tell what was said of that pair."""
        pairs = self._pairs(of)
        found = ratings(self._reading.lake, pairs)
        counts = Counter(each.by for each in found)
        held = 0 < counts[me] < len(pairs)
        return {
            "pairs": len(pairs),
            "people": [{"name": who, "rated": counts[who]} for who in sorted(counts)],
            "held": held,
            "agreement": [] if held else [msgspec.structs.asdict(each) for each in agreement(pairs, found)],
        }

    def rate(self, order: Rate, by: str) -> dict[str, Any]:
        """Keep what somebody said of a pair.

        Raises:
            UsageError: there is no such pair, or the word is none.
            StoreError: another process writes the lake.
        """
        pair = next((each for each in self._pairs(order.of) if key(each) == order.pair), None)
        if pair is None:
            raise UsageError(f"there is no pair {order.pair[:40]!r} here")
        if order.better not in (*SIDES, "equal"):
            raise UsageError(f"better is left, right or equal, not {order.better[:40]!r}")
        if len(order.reason) > 4_000:
            raise UsageError("a reason may hold 4,000 characters")
        better = EQUAL if order.better == "equal" else _sides(pair, by)[SIDES.index(order.better)]
        parent = self._node(pair)
        record = rating_record(pair, better, by, parent.run_id, time.time(), order.reason)
        with Lake.open(self._reading.lake.location) as writing:
            writing.append_sync([record])
        return {"id": record.id}

    def _pairs(self, of: str) -> list[StepPair]:
        """All pairs, none twice, in an order that says nothing of them."""
        kind, _, name = of.partition("/")
        if kind == "loop" and name:
            found = [pair for file in pair_files(self._loops.open(name)[1].folder) for pair in read_pairs(file)]
        elif kind == "run" and name:
            found = pairs_to_rate(self._reading.lake, name)
        else:
            raise UsageError(f"pairs are of loop/ID or run/NAME, not of {of[:80]!r}")
        once = {key(pair): pair for pair in found}
        return sorted(once.values(), key=lambda pair: digest("order", key(pair)))

    def _node(self, pair: StepPair) -> Node:
        return self._tree(pair).node(pair.parent_id)

    def _tree(self, pair: StepPair) -> Tree:
        return self._reading.lake.tree(pair.tree_id)

    def _shown(self, pair: StepPair, me: str, mine: Rating | None) -> dict[str, Any]:
        tree = self._tree(pair)
        walk = tree.walk(pair.parent_id)
        sides = _sides(pair, me)
        better = None
        if mine is not None:
            better = SIDES[sides.index(mine.better)] if mine.better in sides else "equal"
        first = next((place for place, node in enumerate(walk) if node.message.role != "system"), 0)
        start = max(first + 1, len(walk) - BEFORE)
        return {
            "key": key(pair),
            "task": pair.task_id,
            "asked": [_turn(node) for node in walk[first : first + 1]],
            "between": start - first - 1,
            "turns": [_turn(node) for node in walk[start:]],
            "left": _step(tree, sides[0]),
            "right": _step(tree, sides[1]),
            "mine": better,
            "reason": "" if mine is None else mine.reason,
        }


def _sides(pair: StepPair, rater: str) -> tuple[str, str]:
    """The ids of the left and the right step for somebody."""
    one, other = sorted((pair.chosen_id, pair.rejected_id))
    return (one, other) if int(digest("sides", rater, key(pair))[:2], 16) % 2 else (other, one)


def _step(tree: Tree, id: str) -> dict[str, Any]:
    """A step and what came back of it; no more, for what came later tells which was gone on with."""
    back = [node for node in tree.children(id) if answers(node)]
    return {"action": _turn(tree.node(id)), "back": [_turn(node) for node in _unlike(back)]}


def _unlike(nodes: Sequence[Node]) -> list[Node]:
    """Answers, each once: a step that was taken again has the same one twice."""
    return list({node.message.text: node for node in nodes}.values())


def _turn(node: Node) -> dict[str, Any]:
    """What a node says; nothing that names it."""
    told = said(node.message)
    for call in told["tool_calls"]:
        call["id"] = ""
    return {**told, "author": line(node)["author"]}
