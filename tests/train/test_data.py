"""Data sets: parts share no task whatever is added, mixtures keep their ratios, leaks are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.errors import UsageError
from silva.train.data.dataset import DataSet, Entry, part_of, read_dataset, write_dataset, write_datasets
from silva.train.data.entries import key_of
from silva.train.data.leak import leaks
from silva.train.data.mix import mix
from silva.train.data.split import split
from silva.train.data.upsample import rule_of, upsample
from silva.tree import Task

PARTS = {"train": 0.6, "dev": 0.2, "test": 0.2}


def entry(task: int, place: int = 0, **fields: object) -> Entry:
    known = {"lake": "lake", "run_id": "r", "env": "e", "task_id": f"e/{task}", "trajectory_id": f"{task}.{place}"}
    return Entry(**{**known, "group": f"e/{task}", "question": f"q{task}", "turns": task, **fields})  # type: ignore[arg-type]


def dataset(*entries: Entry, part: str = "train") -> DataSet:
    return DataSet(part=part, entries=entries)


MANY = [entry(task, place) for task in range(60) for place in range(3)]


@settings(max_examples=25)
@given(added=st.sets(st.integers(1000, 5000), max_size=40), seed=st.integers(0, 5))
def test_a_task_stays_in_its_part_whatever_is_added(added: set[int], seed: int) -> None:
    before = split(MANY, PARTS, seed)
    after = split([*MANY, *map(entry, sorted(added))], PARTS, seed)
    for name, made in before.items():
        assert set(made.entries) <= set(after[name].entries)
    assert sum(len(made) for made in after.values()) == len(MANY) + len(added)
    assert leaks(after) == []


def test_the_shares_hold_roughly_and_a_seed_draws_others() -> None:
    parts = split([entry(task) for task in range(2000)], PARTS)
    assert [round(len(made) / 2000, 1) for made in parts.values()] == [0.6, 0.2, 0.2]
    assert split(MANY, PARTS, 1)["test"] != split(MANY, PARTS, 0)["test"]


def test_what_a_key_joins_stays_together() -> None:
    grouped = [entry(task, group=f"level {task % 12}") for task in range(120)]
    parts = split(grouped, {"train": 0.5, "test": 0.5})
    assert not {e.group for e in parts["train"].entries} & {e.group for e in parts["test"].entries}
    task = Task(id="babyai/GoToObj-v0/7", env="babyai", data={"level": "GoToObj-v0", "seed": 7}, tags=("GoToObj-v0",))
    one = Entry(lake="l", run_id="r", env="babyai", task_id=task.id, trajectory_id="t", question="q")
    keys = {"task": task.id, "question": "q", "tag": "GoToObj-v0", "data.seed": "7", r"id:babyai/(\w+)-": "GoToObj"}
    assert {key: key_of(key)(one, task) for key in keys} == keys
    with pytest.raises(UsageError, match="task babyai/GoToObj-v0/7 has nothing of that name"):
        key_of("data.nothing")(one, task)
    for wrong in ("tags", "data.", "id:(", "id:x"):
        with pytest.raises(UsageError, match="key"):
            key_of(wrong)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"train": 1.0}, "at least two"),
        ({"train": 0.5, "test": 0.4}, "add up to 0.9"),
        ({"train": 1.2, "test": -0.2}, "between 0 and 1"),
        ({"a b": 0.5, "test": 0.5}, "a part is a word"),
        ({"train": 0.9999, "test": 0.0001}, "test stays empty"),
    ],
)
def test_shares_that_make_no_parts_are_refused(shares: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        split([entry(task) for task in range(5)], shares)


def test_leaks_are_named_once_by_what_they_are() -> None:
    train = dataset(entry(1), entry(1, 1), entry(2), entry(3, group="level a"), entry(4))
    test = dataset(entry(2, 9), entry(5, group="level a"), entry(6, question="q4"), entry(7), part="test")
    found = leaks({"train": train, "test": test})
    assert [str(leak) for leak in found] == [
        "task e/2 is in train and in test",
        "group level a is in train and in test",
        "question of e/4 (as in e/6) is in train and in test",
    ]
    assert leaks({"train": train, "other": dataset(entry(8, env="f"), entry(2, env="f", question=""))}) == []


@settings(max_examples=50)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=4),
    ratios=st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=4, max_size=4),
    size=st.integers(20, 120),
)
def test_a_mixture_keeps_its_ratios(sizes: list[int], ratios: list[float], size: int) -> None:
    sets = [dataset(*(entry(i, env=f"e{n}", trajectory_id=f"{n}/{i}") for i in range(k))) for n, k in enumerate(sizes)]
    ratios = ratios[: len(sets)]
    made = mix(sets, ratios, size)
    assert len(made) == size
    for number, ratio in enumerate(ratios):
        copies = [e.copies for e in made.entries if e.env == f"e{number}"]
        assert abs(sum(copies) - size * ratio / sum(ratios)) < 1
        assert max(copies) - min(copies) <= 1
    whole = mix(sets, ratios) if all(int(min(sizes) * r / sum(ratios)) for r in ratios) else None
    if whole is not None:
        assert all(e.copies == 1 for e in whole.entries)


def test_a_larger_mixture_holds_the_smaller_and_faults_are_named() -> None:
    one, two = dataset(*map(entry, range(20))), dataset(*map(entry, range(20, 40)))
    small = {e.trajectory_id for e in mix([one, two], [1, 1], 10).entries}
    assert small < {e.trajectory_id for e in mix([one, two], [1, 1], 20).entries}
    for ratios, size, words in (([1, 0], 4, "ratio 0"), ([1, 99], 10, "would get none")):
        with pytest.raises(UsageError, match=words):
            mix([one, two], ratios, size)
    with pytest.raises(UsageError, match="is empty"):
        mix([one, dataset()], [1, 1])
    with pytest.raises(UsageError, match=r"b: it is of part test, a of train; they are kept apart"):
        part_of([one, dataset(entry(1), part="test")], [Path("a"), Path("b")])


def test_upsampling_multiplies_what_the_rule_picks() -> None:
    before = dataset(*(entry(task, env="babyai" if task % 2 else "bfcl", score=task / 10) for task in range(10)))
    made = upsample(before, 3, rule_of("env = babyai and score >= 0.5"))
    assert [e.copies for e in made.entries] == [1, 1, 1, 1, 1, 3, 1, 3, 1, 3]
    halves = upsample(dataset(*(entry(t) for t in range(400))), 2.5, rule_of("task_id ~ ^e/"))
    assert 960 < len(halves) < 1040 and {e.copies for e in halves.entries} == {2, 3}
    thinned = upsample(dataset(*(entry(t) for t in range(400))), 0.5, rule_of("turns >= 0"))
    assert 160 < len(thinned) < 240 and len(thinned.entries) == len(thinned)
    weighed = upsample(before, 3, rule_of("env != 'bfcl'"), weigh=True)
    assert {(e.env, e.copies, e.weight) for e in weighed.entries} == {("babyai", 1, 3.0), ("bfcl", 1, 1.0)}
    unscored = dataset(entry(1, score=None), entry(2, score=0.0))
    assert [e.copies for e in upsample(unscored, 2, rule_of("score < 1")).entries] == [1, 2]


@pytest.mark.parametrize(
    "rule", ["", "env", "environment = x", "turns > many", "env > 3", "task_id ~ (", "env = a or env = b"]
)
def test_a_rule_that_states_nothing_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match="rule"):
        rule_of(rule)


def test_a_factor_or_a_rule_without_effect_is_refused() -> None:
    for factor, rule, words in (
        (0.0, "turns >= 0", "factor"),
        (2.0, "env = none", "picks no"),
        (1e-9, "turns >= 0", "leaves"),
    ):
        with pytest.raises(UsageError, match=words):
            upsample(dataset(entry(1)), factor, rule_of(rule))


@settings(max_examples=20)
@given(entries=st.lists(st.integers(0, 99), max_size=6), made=st.text(max_size=20))
def test_a_file_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, entries: list[int], made: str
) -> None:
    path = tmp_path_factory.mktemp("sets") / "set.jsonl"
    written = DataSet(part="train", entries=tuple(map(entry, entries)), made=made)
    write_dataset(path, written)
    assert read_dataset(path) == written


def test_a_file_that_is_there_is_kept_and_a_broken_one_named(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    write_dataset(second, dataset(entry(1)))
    with pytest.raises(UsageError, match=r"b\.jsonl: it is there already"):
        write_datasets({first: dataset(entry(2)), second: dataset(entry(2))})
    assert not first.exists() and read_dataset(second) == dataset(entry(1))
    write_dataset(second, dataset(entry(3)), replace=True)
    assert read_dataset(second) == dataset(entry(3))
    good = second.read_text()
    for text, words in (
        ("", "line 1: it is no header"),
        ("{}\n", "line 1: it is no header"),
        (good.replace('"format":1', '"format":9'), "of format 9"),
        (good + "[]\n", "line 3: it is no entry"),
        (good.replace('"turns":3', '"turns":3,"copies":0'), "line 2: copies"),
        (good.replace('"turns":3', '"turns":"x"'), "line 2: it is no entry"),
    ):
        second.write_text(text)
        with pytest.raises(UsageError, match=words):
            read_dataset(second)
    with pytest.raises(UsageError, match="cannot be read"):
        read_dataset(tmp_path / "none.jsonl")
