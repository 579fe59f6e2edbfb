"""Rows of a batch are multiplied by their own adapter's matrices and no other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from silva.models.local.adapter import Adapter  # noqa: E402
from silva.models.local.deltas import Deltas  # noqa: E402

IN, OUT = 6, 5


def adapter(seed: int) -> Adapter:
    """Random matrices at one site of layer 0; nothing at layer 1."""
    draw = torch.Generator().manual_seed(seed)
    rank = 1 + seed
    pair = (torch.randn(rank, IN, generator=draw), torch.randn(OUT, rank, generator=draw))
    return Adapter(f"digest {seed}", rank, [{"qkv": pair}, {}])


ADAPTERS = [adapter(seed) for seed in range(3)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=9), st.integers(1, 3))
def test_every_row_gets_the_product_of_its_own_adapter(chosen, tokens) -> None:
    rows = [None if number is None else ADAPTERS[number] for number in chosen]
    given_ = torch.randn(len(rows), tokens, IN)
    plain = torch.randn(len(rows), tokens, OUT)
    got = Deltas(rows).add(plain.clone(), given_, 0, "qkv")
    for row, own in enumerate(rows):
        added = torch.zeros(tokens, OUT)
        if own is not None:
            down, up = own.pairs[0]["qkv"]
            added = given_[row] @ (up @ down).T
        assert torch.allclose(got[row], plain[row] + added, atol=1e-4)
    for layer, site in ((1, "qkv"), (0, "down")):
        assert torch.equal(Deltas(rows).add(plain.clone(), given_, layer, site), plain)


def test_a_broken_adapter_spoils_no_neighbour() -> None:
    broken = Adapter("broken", 1, [{"qkv": (torch.full((1, IN), float("inf")), torch.ones(OUT, 1))}])
    rows = [None, broken, ADAPTERS[1]]
    got = Deltas(rows).add(torch.zeros(3, 1, OUT), torch.ones(3, 1, IN), 0, "qkv")
    assert torch.isfinite(got[0]).all() and torch.isfinite(got[2]).all() and not torch.isfinite(got[1]).any()
