"""Samples laid out as a tree: every row is found in it, on its own way, and what rows share stands once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.train.engines.prefixes import SHORTEST, Layout, common, lay_out
from silva.train.sample import Ids

START = st.lists(st.integers(0, 3), max_size=3 * SHORTEST)


@st.composite
def forests(draw: st.DrawFn) -> list[Ids]:
    """Rows that begin with another row's prefix, as often as not."""
    rows: list[list[int]] = []
    for _ in range(draw(st.integers(1, 8))):
        before = draw(st.sampled_from(rows)) if rows and draw(st.booleans()) else []
        rows.append([*before[: draw(st.integers(0, len(before)))], *draw(START)])
    return [np.array(row, np.int32) for row in rows]


def way(layout: Layout, at: int) -> list[int]:
    """The places that the position at `at` may see, itself the last."""
    segment = next(each for each in layout.segments if each.start <= at < each.stop)
    before = [place for start, stop in segment.before for place in range(start, stop)]
    return [*before, *range(segment.start, at + 1)]


@given(forests())
def test_every_row_stands_in_the_layout_and_sees_itself_alone(rows: list[Ids]):
    layout = lay_out(rows)
    stops = [segment.stop for segment in layout.segments]
    assert [segment.start for segment in layout.segments] == [0, *stops[:-1]][: len(stops)]
    assert len(layout.ids) == len(layout.positions) == (stops[-1] if stops else 0)
    for row, places in zip(rows, layout.places, strict=True):
        assert layout.ids[places].tolist() == row.tolist()
        assert layout.positions[places].tolist() == list(range(len(row)))
        if len(row):
            assert way(layout, int(places[-1])) == places.tolist()


@given(forests())
def test_a_long_prefix_of_two_rows_stands_once(rows: list[Ids]):
    layout = lay_out(rows)
    for one, left in enumerate(rows):
        for other, right in enumerate(rows[:one]):
            shared = common(left, right)
            same = layout.places[one][:shared] == layout.places[other][:shared]
            assert same[: max(0, shared - SHORTEST + 1)].all()
    assert len(layout.ids) <= sum(map(len, rows))


def test_a_prompt_of_a_group_is_laid_once():
    prompt = np.arange(50, dtype=np.int32)
    rows = [np.concatenate([prompt, np.array([100 + number, 7], np.int32)]) for number in range(8)]
    layout = lay_out(rows)
    assert len(layout.ids) == 50 + 8 * 2 and len(layout.segments) == 9


@pytest.mark.slow
def test_log_probabilities_and_gradients_are_those_of_each_sample_alone(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("peft")
    from dataclasses import replace

    from tiny_llama import sample, weights_folder

    from silva.train.algorithms import algorithm
    from silva.train.config import PolicyConfig
    from silva.train.engines.local import LocalEngine
    from silva.train.engines.microbatches import micro_batches

    generator = np.random.default_rng(1)
    rows = [sample(generator, 60, 40) for _ in range(9)]
    for number, row in enumerate(rows):
        row.ids[:40] = rows[0].ids[:40]
        row.ids[:48] = rows[number // 3 * 3].ids[:48]
    rows.append(replace(rows[0], trajectory_id="again"))
    base = weights_folder(tmp_path / "base")
    policy = PolicyConfig.model_validate({"weights": str(base), "dtype": "float32", "method": "full"})
    assert sum(batch.ids.shape[1] for batch in micro_batches(rows, 4096)) < 0.5 * sum(len(row) for row in rows)
    gradients, losses = [], []
    for most in (4096, 130, 16):
        engine = LocalEngine(policy, micro_tokens=most)
        losses.append(engine.forward_backward(rows, algorithm("sft", {})).loss)
        gradients.append({name: value.grad.clone() for name, value in engine.as_module().named_parameters()})
        engine.close()
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
    for other in gradients[1:]:
        for name, value in gradients[0].items():
            assert torch.allclose(value, other[name], atol=1e-6, rtol=1e-4), name
