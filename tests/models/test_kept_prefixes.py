"""Kept beginnings: what the tree finds is what looking through all of them finds, whatever came and went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

torch = pytest.importorskip("torch")

RUNS = some.lists(some.tuples(some.integers(0, 1), some.sampled_from([1, 4, 16])), min_size=1, max_size=4)
IDS = RUNS.map(lambda runs: [number for number, times in runs for _ in range(times)])
"""Few different beginnings, so that many share one."""
STEPS = some.lists(some.tuples(some.sampled_from(["keep", "keep", "find", "forget"]), IDS, some.sampled_from("ab")))
MOST = 200


def alike(one: list[int], other: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@given(STEPS)
def test_the_longest_beginning_is_found_and_the_bound_holds(steps) -> None:
    from silva.models.local.prefixes import SHORTEST, Prefixes

    kept = Prefixes(MOST)
    known: list[tuple[str, list[int]]] = []  # the one longest unused first
    for what, ids, owner in steps:
        assert [(own, list(row)) for own, row in kept._rows] == known
        if what == "keep":
            kept.keep(ids, (torch.tensor(ids), torch.tensor([ord(owner)])), owner)
            known = [(own, row) for own, row in known if own != owner or row != ids[: len(row)]]
            while sum(len(row) for _, row in known) + len(ids) > MOST:
                known.pop(0)
            known.append((owner, ids))
        elif what == "forget":
            kept.forget(owner)
            known = [(own, row) for own, row in known if own != owner]
        else:
            found = kept.find(ids, owner)
            shared = min(len(ids) - 1, max((alike(row, ids) for own, row in known if own == owner), default=0))
            if shared < SHORTEST:
                assert found is None
                continue
            assert found is not None and found[1] == shared
            row = found[0][0].tolist()
            assert (owner, row) in known and chr(int(found[0][1])) == owner and row[:shared] == ids[:shared]
            known.remove((owner, row))
            known.append((owner, row))
