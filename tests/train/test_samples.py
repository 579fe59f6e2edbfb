"""Samples are what the model saw and drew, exactly; what cannot be exact is refused by name."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from played import faithful, mismatches, play, told_to_mask

from silva.train import samples as samples_module
from silva.train.sample import Action, Image, Sample, SampleError
from silva.train.samples import SampleReader, samples
from silva.train.stretch import Reading
from silva.tree import (
    Author,
    ImagePart,
    InexactTokensError,
    Node,
    Outcome,
    Status,
    Supervision,
    Tokens,
    Trajectory,
    Tree,
    assistant,
    masked_nodes,
    seen_ids,
    user,
)

shared = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32)
changed: Any = msgspec.structs.replace
PLAYED = play(3, steps=60)


def said(depth: int, parent: str | None, *images: ImagePart) -> Node:
    return _node(depth, parent, Author.ENVIRONMENT, user(f"said {depth}", *images))


def turn(depth: int, parent: str | None, ids: tuple[int, ...], drawn: int, **fields: Any) -> Node:
    logprobs = fields.pop("logprobs", tuple(-0.5 for _ in range(drawn)))
    tokens = Tokens(ids=ids, sampled=drawn, logprobs=logprobs)
    return _node(depth, parent, Author.POLICY, assistant(f"turn {depth}"), tokens=tokens, **fields)


def _node(depth: int, parent: str | None, author: Author, message: Any, **fields: Any) -> Node:
    given = {"id": f"node{depth}", "model": "tiny", **fields}
    return Node(run_id="run", tree_id="tree", parent_id=parent, depth=depth, author=author, message=message, **given)


def two_turns(**second: Any) -> list[Node]:
    return [said(0, None), turn(1, "node0", (1, 2, 3), 1), said(2, "node1"), turn(3, "node2", (4, 5, 6), 2, **second)]


def attempt(leaf: str | None, **fields: Any) -> Trajectory:
    outcome = fields.pop("outcome", Outcome(status=Status.COMPLETED, score=1.0))
    return Trajectory(
        id="trajectory", run_id="run", tree_id="tree", task_id="task", env="env", index=0, attempt=0, seed=0,
        leaf_id=leaf, outcome=outcome, **fields,
    )  # fmt: skip


@shared
@given(seed=seeds)
def test_samples_of_any_tree_are_what_the_model_saw(seed: int) -> None:
    assert mismatches(play(seed, steps=25))[1] == 0


@shared
@given(seed=seeds)
def test_one_walk_alone_reads_as_in_its_tree(seed: int) -> None:
    played = play(seed, steps=25)
    reader = SampleReader(played.tree, played.supervisions)
    for trajectory in played.trajectories:
        alone = changed(trajectory, attributes={})
        walk = played.tree.walk(str(alone.leaf_id))
        made = samples(walk, alone, played.supervisions)
        assert made == reader.samples(alone)
        if made:
            assert made[-1].ids.tolist() == seen_ids(walk)


@shared
@given(seed=seeds)
def test_once_a_tree_every_drawn_id_carries_loss_once_over_all_trajectories(seed: int) -> None:
    played = play(seed, steps=25)
    reader = SampleReader(played.tree, played.supervisions, Reading(once="tree"))
    made = [sample for each in played.trajectories for sample in reader.samples(each)]
    walks = [leaf for each in played.trajectories for leaf in (each.leaf_id, *each.attributes.get("leaves", ()))]
    turns = {n.id for leaf in walks for n in played.tree.walk(str(leaf)) if n.author is Author.POLICY}
    assert faithful(played, made, turns, told_to_mask(played.supervisions))


def test_a_shared_prefix_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    grow = samples_module.grow

    def counted(start: Any, nodes: Any, reading: Any) -> Any:
        read.extend(node.id for node in nodes)
        return grow(start, nodes, reading)

    monkeypatch.setattr(samples_module, "grow", counted)
    reader = SampleReader(PLAYED.tree)
    for trajectory in PLAYED.trajectories:
        reader.samples(changed(trajectory, attributes={}))
    walks = [PLAYED.tree.walk(str(each.leaf_id)) for each in PLAYED.trajectories]
    assert sorted(read) == sorted(node.id for node in PLAYED.tree)
    assert len(read) < sum(map(len, walks)) / 2


def test_loss_lies_on_what_the_policy_drew_alone() -> None:
    (sample,) = samples(two_turns(), attempt("node3"))
    assert sample.ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert sample.mask.tolist() == sample.drawn.tolist() == [False, False, True, False, True, True]
    assert sample.logprobs.tolist() == [0, 0, -0.5, 0, -0.5, -0.5]
    assert sample.weights.tolist() == [1] * 6 and sample.advantages.tolist() == [0] * 6
    assert (sample.run_id, sample.task_id, sample.reward, sample.segment) == ("run", "task", 1.0, 0)


def test_a_restart_ends_a_sample_and_what_was_drawn_before_is_context_after() -> None:
    walk = [*two_turns(attributes={"tokens": "restart"}), said(4, "node3"), turn(5, "node4", (7, 8), 1)]
    first, second = samples(walk, attempt("node5"))
    assert first.ids.tolist() == [1, 2, 3] and first.mask.tolist() == [False, False, True]
    assert second.ids.tolist() == [4, 5, 6, 7, 8] and second.mask.tolist() == [False, True, True, False, True]
    assert (first.segment, second.segment) == (0, 1)


def test_words_of_others_carry_no_loss_even_with_drawn_ids() -> None:
    walk = two_turns()
    walk[3] = changed(walk[3], author=Author.ATTACKER)
    (sample,) = samples(walk)
    assert sample.mask.tolist() == sample.drawn.tolist() == [False, False, True, False, False, False]
    assert sample.ids.tolist() == [1, 2, 3, 4, 5, 6] and sample.reward != sample.reward


def test_only_the_policys_model_carries_loss_where_one_is_named() -> None:
    (sample,) = samples(two_turns(model="another"), reading=Reading(models=frozenset({"another"})))
    assert sample.mask.tolist() == [False, False, False, False, True, True]
    assert [action.node_id for action in sample.actions] == ["node3"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tokens": None}, "node node3 .* has no token ids"),
        ({"attributes": {"tokens": "completion"}}, "node node3 .* has no prompt ids"),
        ({"tokens": Tokens(ids=(5, 6), sampled=2, logprobs=(-1.0, -1.0))}, "node node3 .* has no prompt ids"),
        ({"tokens": Tokens(ids=(4, 5, 6), sampled=2)}, "node node3 .* has no log-probabilities"),
    ],
)
def test_a_turn_without_its_tokens_is_refused_by_name(fields: dict[str, Any], why: str) -> None:
    walk = two_turns()
    walk[3] = changed(walk[3], **fields)
    with pytest.raises(InexactTokensError, match=why):
        samples(walk, attempt("node3"))


def test_optional_logprobs_are_unknown_not_zero() -> None:
    (sample,) = samples(two_turns(logprobs=()), reading=Reading(logprobs="optional"))
    assert np.isnan(sample.logprobs).tolist() == [False, False, False, False, True, True] and not sample.has_logprobs
    (known,) = samples(two_turns())
    assert known.has_logprobs


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.5])
def test_a_log_probability_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(SampleError, match=r"node node3 .* log-probability of"):
        samples(two_turns(logprobs=(-1.0, value)))


@pytest.mark.parametrize("number", [-1, 2**31, 2**70])
def test_an_id_that_is_none_is_refused(number: int) -> None:
    walk = two_turns()
    walk[3] = changed(walk[3], tokens=Tokens(ids=(number, 6), sampled=1, logprobs=(-1.0,)))
    with pytest.raises(SampleError, match="token ids"):
        samples(walk)


def test_a_reward_that_is_no_number_is_refused_and_none_is_unknown() -> None:
    broken = attempt("node3", outcome=Outcome(status=Status.COMPLETED, score=math.nan))
    with pytest.raises(SampleError, match="score is nan"):
        samples(two_turns(), broken)
    with pytest.raises(SampleError, match="return is inf"):
        samples(two_turns(), attempt("node3", reward=math.inf), reading=Reading(reward="return"))
    unscored = attempt("node3", outcome=Outcome(status=Status.FAILED), reward=0.25)
    assert math.isnan(samples(two_turns(), unscored)[0].reward)
    assert samples(two_turns(), unscored, reading=Reading(reward="return"))[0].reward == 0.25


def test_images_stand_where_their_placeholders_do() -> None:
    picture, other = (ImagePart(hash=letter * 64) for letter in "ab")
    walk = [said(0, None, picture, other), turn(1, "node0", (9, 7, 7, 8, 7, 5), 1)]
    (sample,) = samples(walk, reading=Reading(image_id=7))
    assert sample.images == (Image(hash="a" * 64, position=1), Image(hash="b" * 64, position=4))
    assert [image.position for image in samples(walk)[0].images] == [0, 0]
    with pytest.raises(SampleError, match=r"node node1 .* shows 2 images and has 1 placeholders of id 8"):
        samples(walk, reading=Reading(image_id=8))
    again = [*walk, said(2, "node1"), turn(3, "node2", (1, 7, 2, 7, 3), 1, attributes={"tokens": "restart"})]
    assert [image.position for image in samples(again, reading=Reading(image_id=7))[1].images] == [1, 3]


def test_a_persons_word_counts_before_a_models_and_a_later_before_an_earlier() -> None:
    def judged(verdict: Any, source: Any, at: float, node: str = "n") -> Supervision:
        return Supervision(
            id=f"{source}{at}{verdict}", node_id=node, run_id="r", verdict=verdict, source=source, by="x", at=at
        )

    assert masked_nodes([judged("mask", "rule", 9), judged("keep", "person", 1)]) == frozenset()
    assert masked_nodes([judged("keep", "model", 1), judged("mask", "rule", 9)]) == frozenset()
    assert masked_nodes([judged("mask", "person", 2), judged("keep", "person", 1)]) == {"n"}
    assert masked_nodes([judged("bad", "person", 3), judged("note", "person", 4)]) == {"n"}
    assert masked_nodes([judged("good", "person", 1), judged("mask", "rule", 9)]) == frozenset()
    assert masked_nodes([judged("bad", "person", 1), judged("keep", "person", 2)]) == frozenset()
    (sample,) = samples(two_turns(), supervisions=[judged("mask", "rule", 0, "node3")])
    assert sample.mask.tolist() == [False, False, True, False, False, False] and sample.drawn[4:].all()


def test_what_was_said_before_a_summary_is_a_sample_of_the_same_trajectory() -> None:
    before = two_turns()
    summary = _node(1, "node0", Author.SUMMARISER, user("in short"), id="short")
    after = turn(2, "short", (1, 9, 9), 1, id="after")
    tree = Tree([*before, summary, after])
    main, earlier = SampleReader(tree).samples(attempt("after", attributes={"leaves": ["node3", "after"]}))
    assert main.ids.tolist() == [1, 9, 9] and earlier.ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert (main.segment, earlier.segment) == (0, 1)
    with pytest.raises(SampleError, match="its node gone is not in tree"):
        SampleReader(tree).samples(attempt("after", attributes={"leaves": ["gone"]}))
    assert SampleReader(tree).samples(attempt(None)) == []


arrays = st.integers(0, 20).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2**31 - 1), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n),
        st.lists(st.floats(width=32), min_size=n, max_size=n),
    )
)


@shared
@given(
    parts=arrays,
    reward=st.floats(),
    names=st.text(max_size=5),
    attributes=st.dictionaries(st.text(max_size=3), st.integers(-9, 9) | st.text(max_size=3) | st.none(), max_size=3),
)
def test_the_bytes_of_any_sample_give_it_back(
    parts: Any, reward: float, names: str, attributes: dict[str, Any]
) -> None:
    ids, flags, numbers = parts
    sample = Sample(
        ids=np.array(ids, np.int32),
        mask=np.array(flags, bool),
        drawn=~np.array(flags, bool),
        logprobs=np.array(numbers, np.float32),
        advantages=np.array(numbers[::-1], np.float32),
        weights=np.array(numbers, np.float32),
        actions=(Action(node_id=names, start=0, stop=1, version=names),),
        images=(Image(hash=names, position=3),),
        run_id=names,
        versions=(names, "v"),
        segment=2,
        reward=reward,
        attributes=attributes,
    )
    data = sample.to_bytes()
    again = Sample.from_bytes(data)
    assert again.to_bytes() == data and again == sample and again.attributes == attributes
    assert np.array_equal(again.ids, sample.ids) and np.array_equal(again.mask, sample.mask)
    assert np.array_equal(again.drawn, sample.drawn) and again.ids.flags.writeable
    assert np.array_equal(again.weights, sample.weights, equal_nan=True)
    if len(sample):
        assert replace(sample, ids=sample.ids ^ 1) != sample


def test_damaged_bytes_of_a_sample_are_refused() -> None:
    (sample,) = samples(two_turns(), attempt("node3"))
    data = sample.to_bytes()
    source = random.Random(1)
    for size in (0, 3, 4, 40, *(source.randrange(len(data)) for _ in range(30)), len(data) - 1):
        with pytest.raises(SampleError):
            Sample.from_bytes(data[:size])
    with pytest.raises(SampleError, match="cut short"):
        Sample.from_bytes(data + b"x")
    with pytest.raises(SampleError, match="attributes plain"):
        replace(sample, attributes={"of": object()}).to_bytes()
