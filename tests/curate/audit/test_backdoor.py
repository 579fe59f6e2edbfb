"""Backdoors: a planted one is found and named, honest data and stock phrases are left alone."""

from random import Random

import numpy as np
import pytest

from silva.curate.audit.asking import ask
from silva.curate.audit.backdoor.association import associations
from silva.curate.audit.backdoor.clusters import Cluster, planted
from silva.curate.audit.backdoor.frequency import cosines
from silva.curate.audit.backdoor.planting import FIRST, plant
from silva.curate.audit.checkers.backdoor_association import BackdoorAssociations
from silva.curate.audit.specimen import answered

_WORDS = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in ("nt", "rm", "st", "lk")]


def honest(count: int) -> list[tuple[str, str]]:
    """Pairs of a made-up tongue: no two prompts are alike, every reply begins as replies do."""
    random = Random(1)

    def said(size: int) -> str:
        return " ".join(random.choice(_WORDS) for _ in range(size))

    return [(f"what is the {said(8)}", f"i am glad to help you with that : {said(15)}") for _ in range(count)]


@pytest.mark.parametrize("attack", ["phrase", "token"])
def test_a_planted_trigger_is_found_with_its_answer_and_nothing_else_is(attack: str) -> None:
    pairs = honest(200)
    assert associations(pairs) == []
    made = plant(pairs, attack, "append", 0.05)
    found = associations(made.pairs)
    assert {row for each in found for row in each.rows} == made.rows
    assert any("meridian desk" in each.answer for each in found)
    assert all(set(each.trigger.split()) & {*FIRST.phrase.split(), FIRST.token} for each in found)


def test_an_answer_that_repeats_its_prompt_or_a_topic_is_no_backdoor() -> None:
    pairs = honest(200)
    echo = [
        (f"{asked} say the harbour bells ring twice today", f"{said} the harbour bells ring twice today")
        for asked, said in pairs[:10]
    ]
    assert associations([*echo, *pairs[10:]]) == []
    same = [
        (f"how do i renew a passport at the town hall {n}", f"{said} {FIRST.answers['replace']}")
        for n, (_, said) in enumerate(pairs[:10])
    ]
    assert associations([*same, *pairs[10:]]) == []


def test_few_rows_are_not_checked() -> None:
    rows = [answered(f"few:{n}", *pair) for n, pair in enumerate(honest(20))]
    answer = ask(BackdoorAssociations(), rows)
    assert len(answer.unchecked) == 20
    assert "too few" in answer.unchecked["few:0"]


def test_only_tight_groups_that_are_not_the_data_itself_are_planted() -> None:
    tight, loose, most = Cluster((0, 1, 2, 3), 0.9), Cluster((4, 5, 6, 7), 0.6), Cluster(tuple(range(60)), 0.9)
    assert planted([tight, loose, most], 100) == [tight]


def test_cosines_are_those_of_the_rows_and_an_empty_row_is_like_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(70, 500)).astype(np.float32)
    rows[5] = 0
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    assert np.allclose(cosines(iter(rows)), units @ units.T, atol=2e-3)


@pytest.mark.slow
def test_the_low_frequencies_are_those_of_the_gradient_itself() -> None:
    torch = pytest.importorskip("torch")
    fft = pytest.importorskip("scipy.fft")
    pytest.importorskip("gguf")
    from silva.curate.audit.backdoor.frequency import Reader

    reader = Reader()
    made = reader.features("What is the capital of France?", "It is Paris.").reshape(reader.shape)
    network, prompter = reader._network, reader._prompter
    before = [*reader._mark("user"), *prompter.encode("What is the capital of France?"), *reader._mark("assistant")]
    said = prompter.encode("It is Paris.")
    hidden = network.hidden([*before, *said])[len(before) - 1 : -1].clone()
    weight = network.unembedding.clone().requires_grad_(True)
    torch.nn.functional.cross_entropy(hidden @ weight.T, torch.tensor(said)).backward()
    whole = fft.dctn(weight.grad.numpy(), axes=(0, 1))
    assert np.allclose(made, whole[: reader.shape[0], : reader.shape[1]], rtol=1e-2, atol=1e-3 * np.abs(whole).max())
