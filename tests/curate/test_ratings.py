"""What people say of pairs, against one another and the verifier; and the pairs at their word."""

from __future__ import annotations

import pytest

from silva.curate.kappa import kappa
from silva.curate.pairs import StepPair
from silva.curate.ratings import EQUAL, Rating, agreement, judged, key, rating_record


def pair(name: str, *, turned: bool = False) -> StepPair:
    steps = (f"{name}-good", f"{name}-bad")
    chosen, rejected = reversed(steps) if turned else steps
    place = {"tree_id": "t", "task_id": name, "parent_id": f"{name}-parent", "gap": 0.5, "by": "completions"}
    return StepPair(
        chosen_id=chosen, rejected_id=rejected, chosen_trajectory=chosen, rejected_trajectory=rejected, **place
    )


PAIRS = [pair(name) for name in "abcd"]


def rated(by: str, *said: str) -> list[Rating]:
    """What somebody says of the pairs: `good`, `bad`, nothing (`""`), or has not rated (`-`)."""
    both = zip(PAIRS, said, strict=True)
    found = [(each, f"{each.task_id}-{word}" if word else EQUAL) for each, word in both if word != "-"]
    return [Rating(key=key(each), better=better, by=by) for each, better in found]


def test_kappa_is_cohens() -> None:
    # Cohen's own kind of example: 20 both yes, 15 both no, 5 and 10 apart: 0.7 agree, 0.5 by chance.
    left, right = [True] * 25 + [False] * 25, [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    assert kappa(left, right) == (0.7, pytest.approx(0.4))
    assert kappa(["a"], ["a"]) == (1.0, None)


def test_people_agree_with_one_another_and_with_the_verifier_on_what_both_rated() -> None:
    said = [*rated("ann", "good", "good", "good", "bad"), *rated("ben", "good", "bad", "", "bad")]
    said += rated("cat", "good", "-", "-", "-")
    found = {(each.left, each.right): each for each in agreement(PAIRS, said)}
    two = found["person ann", "person ben"]
    assert (two.pairs, two.agree, two.decided) == (4, 0.5, 3) and two.agree_decided == pytest.approx(2 / 3)
    assert two.low is not None and two.high is not None and two.low < 0.5 < two.high
    assert found["person ann", "verifier completions"].agree == 0.75
    most = found["most people", "verifier completions"]  # of b and c as many say one thing as another
    assert (most.pairs, most.agree) == (4, 0.25)


def test_pairs_at_the_word_of_people_change_sides_or_are_left_out() -> None:
    said = [
        *rated("ann", "good", "bad", "", "-"),
        *rated("ben", "good", "bad", "good", "-"),
        *rated("cat", "bad", "bad", "", "-"),
    ]
    people = judged(PAIRS, said, "people")
    assert [(each.chosen_id, each.chosen_trajectory, each.by) for each in people] == [
        ("a-good", "a-good", "people"),
        ("b-bad", "b-bad", "people"),
    ]
    assert [each.gap for each in people] == [pytest.approx(1 / 3), 1.0]
    assert judged(PAIRS, said, "both") == [*people, PAIRS[3]]  # nobody has rated it
    assert judged(PAIRS, said, "verifier") == PAIRS and judged(PAIRS, [], "people") == []


def test_a_rating_names_the_pair_whoever_is_chosen_and_takes_no_loss() -> None:
    assert key(pair("a")) == key(pair("a", turned=True)) != key(pair("b"))
    record = rating_record(pair("a"), "a-bad", "ann", "run", 1.0, "so")
    assert (record.node_id, record.source, record.by, record.at, record.masks) == (
        "a-parent",
        "person",
        "ann",
        1.0,
        None,
    )
    assert record.attributes["steps"] == ["a-bad", "a-good"] and record.attributes["better"] == "a-bad"
