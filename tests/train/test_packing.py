"""Packs hold every sample once and keep them apart; truncation leaves whole actions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played import play

from silva.train.packing import pack, packed
from silva.train.sample import Sample, SampleError
from silva.train.samples import SampleReader
from silva.train.truncation import fit, truncate

shared = settings(deadline=None, max_examples=25)
budgets = st.integers(1, 60)
lengths = budgets.flatmap(lambda budget: st.tuples(st.just(budget), st.lists(st.integers(1, budget), max_size=60)))


def made(seed: int) -> list[Sample]:
    played = play(seed, steps=30)
    reader = SampleReader(played.tree, played.supervisions)
    return [sample for each in played.trajectories for sample in reader.samples(each)]


SAMPLES = made(11) + made(12)


@shared
@given(given_=lengths)
def test_packs_are_those_of_first_fit_decreasing(given_: tuple[int, list[int]]) -> None:
    budget, sizes = given_
    slow: list[list[int]] = []
    for number in sorted(range(len(sizes)), key=lambda each: (-sizes[each], each)):
        fits = (row for row in slow if sum(sizes[each] for each in row) + sizes[number] <= budget)
        row = next(fits, None)
        if row is None:
            slow.append(row := [])
        row.append(number)
    assert pack(sizes, budget) == sorted(sorted(row) for row in slow)


@shared
@given(budget=st.integers(15, 120), count=st.integers(0, len(SAMPLES)))
def test_packed_samples_are_whole_and_apart(budget: int, count: int) -> None:
    chosen = [sample for sample in SAMPLES[:count] if len(sample) <= budget]
    rows = packed(chosen, budget)
    assert sorted(number for row in rows for number in row.numbers) == list(range(len(chosen)))
    for row in rows:
        assert len(row) <= budget and row.cu_seqlens[0] == 0 and row.cu_seqlens[-1] == len(row)
        assert row.lengths.tolist() == [len(chosen[number]) for number in row.numbers]
        for place, number in enumerate(row.numbers):
            part = slice(row.cu_seqlens[place], row.cu_seqlens[place + 1])
            assert row.positions[part].tolist() == list(range(len(chosen[number])))
            assert (row.sequence[part] == place).all()
            for name in ("ids", "mask", "drawn", "logprobs", "advantages", "weights"):
                assert np.array_equal(getattr(row, name)[part], getattr(chosen[number], name))


def test_a_sample_no_pack_can_hold_is_named() -> None:
    longest = max(SAMPLES, key=len)
    with pytest.raises(SampleError, match=rf"sample of trajectory .*: {len(longest)} ids, a pack holds 1 to 3"):
        packed([longest], 3)
    with pytest.raises(ValueError, match="number 1 has 0 ids"):
        pack([1, 0], 3)
    assert packed([], 3) == []


@shared
@given(number=st.integers(0, len(SAMPLES) - 1), limit=st.integers(1, 26))
def test_truncation_keeps_whole_actions_or_nothing(number: int, limit: int) -> None:
    sample = SAMPLES[number]
    shorter = truncate(sample, limit)
    whole = [action for action in sample.actions if action.stop <= limit]
    if len(sample) <= limit:
        assert shorter is sample
    elif not any(sample.mask[action.start] for action in whole):
        assert shorter is None
    else:
        assert shorter is not None and shorter.actions == tuple(whole)
        assert len(shorter) == whole[-1].stop <= limit
        assert np.array_equal(shorter.ids, sample.ids[: len(shorter)]) and shorter.attributes["truncated_from"] == len(
            sample
        )
        assert int(shorter.drawn.sum()) == sum(action.stop - action.start for action in whole)
        assert set(shorter.versions) == {action.version for action in whole}


def test_without_actions_a_run_of_drawn_ids_is_one() -> None:
    from dataclasses import replace

    sample = next(each for each in SAMPLES if len(each.actions) > 1)
    bare = replace(sample, actions=())
    assert bare.spans() == [(action.start, action.stop) for action in sample.actions]
    shorter = truncate(bare, sample.actions[-1].stop - 1)
    assert shorter is None or len(shorter) == sample.actions[-2].stop


def test_what_is_too_long_is_refused_by_name_truncated_or_dropped() -> None:
    with pytest.raises(SampleError, match=r"sample of trajectory .*: \d+ ids, the context holds 9"):
        fit(SAMPLES, 9)
    dropped = fit(SAMPLES, 9, "drop")
    assert dropped.samples == tuple(each for each in SAMPLES if len(each) <= 9)
    assert dropped.dropped == len(SAMPLES) - len(dropped.samples) and not dropped.truncated
    cut = fit(SAMPLES, 9, "truncate")
    assert cut.truncated + cut.dropped == dropped.dropped and cut.truncated > 0
    assert all(len(each) <= 9 for each in cut.samples)
    with pytest.raises(ValueError, match="limit 0"):
        fit(SAMPLES, 0)
