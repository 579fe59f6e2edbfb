"""Prompts that are read together: needs torch, so all of it is slow."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.tiny import Shape, write_tiny
from silva.tree import assistant, user

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")

SHAPE = Shape(vocabulary=400, width=32, inner=48, layers=2, heads=4, key_heads=2, context=768)
HEARD = [((user(f"You see: ball {n} steps left."), assistant("Action: act\nAction Input: {}")), ()) for n in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "tiny-1"
    write_tiny(place, HEARD, SHAPE, seed=1)
    return place


def answered(engine, prompts: list[list[int]], first: int = 0) -> list:
    from silva.models.local.engine import Job, choice

    jobs = []
    for seed, prompt in enumerate(prompts, start=first):
        done = threading.Event()
        job = Job(prompt, 6, choice(1.0, None, None, seed), lambda moved, done=done: moved.finish and done.set())
        jobs.append((job, done))
    for job, _ in jobs:
        engine.submit(job)
    for job, done in jobs:
        assert done.wait(60) and job.fault is None
    return [job for job, _ in jobs]


def test_chunks_of_any_lengths_are_read_in_their_rows_as_each_is_alone(folder: Path) -> None:
    from silva.models.local.network import Network

    network, draw = Network(folder, torch.float32), Random(3)
    prompts = [[draw.randrange(network.vocabulary) for _ in range(length)] for length in (5, 60, 1, 33)]
    cuts = (0, 40, 0, 32)
    alone, together = network.cache(4096), network.cache(4096)
    for cache in (alone, together):
        cache.reserve(5, 61)
        for row, (prompt, cut) in enumerate(zip(prompts, cuts, strict=True), start=1):
            if cut:
                network.prefill(cache, row, [prompt[:cut]], [0])
    wanted = [
        network.prefill(alone, row, [prompt[cut:]], [cut])[0]
        for row, (prompt, cut) in enumerate(zip(prompts, cuts, strict=True), start=1)
    ]
    read = network.prefill(together, 1, [prompt[cut:] for prompt, cut in zip(prompts, cuts, strict=True)], cuts)
    assert torch.allclose(read, torch.stack(wanted), atol=1e-5)
    for row, prompt in enumerate(prompts, start=1):
        assert torch.allclose(together.keys[:, row, :, : len(prompt)], alone.keys[:, row, :, : len(prompt)], atol=1e-5)
        assert not together.keys[:, row, :, len(prompt) :].any(), "nothing is written behind a prompt's end"
    assert not together.keys[:, 0].any()


@settings(max_examples=10)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 20, 70, 300]), st.integers(1, 90)), max_size=14),
    st.integers(1, 6),
)
def test_what_is_answered_does_not_depend_on_what_was_read_with_it(folder: Path, said, rows: int) -> None:
    from silva.models.local.engine import Engine

    begins = [[Random(each).randrange(SHAPE.vocabulary // 2) for _ in range(300)] for each in range(3)]
    prompts = [begins[which][:shared] + [10 + (7 * shared + n) % 90 for n in range(own)] for which, shared, own in said]
    engine = Engine(folder, rows=rows, dtype=torch.float64, threads=1)
    engine.start()
    try:
        found = answered(engine, prompts)
    finally:
        engine.stop()
    assert not engine._running and not engine._reading
    for seed, (prompt, job) in enumerate(zip(prompts, found, strict=True)):
        single = Engine(folder, rows=1, dtype=torch.float64, threads=1)
        single.start()
        alone = answered(single, [prompt], first=seed)[0]
        single.stop()
        assert job.ids == alone.ids
        assert job.logprobs == pytest.approx(alone.logprobs, abs=1e-9)
        assert 0 <= job.cached < len(prompt)
