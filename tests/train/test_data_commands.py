"""`silva data` on a real lake of the expert's: split, check, mix, upsample, and the samples that come of them."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import typer
from pydantic import ValidationError

from silva.cli.data import app
from silva.errors import StoreError, UsageError
from silva.lake import Lake
from silva.rollout import RolloutConfig, run_rollout
from silva.train.config import DataConfig
from silva.train.data.dataset import DataSet, read_dataset, write_dataset
from silva.train.data.entries import read_entries
from silva.train.data.load import load_samples
from silva.train.sample import Sample
from silva.train.sample_file import read_samples, write_samples
from silva.train.sources import held_out, prepare
from silva.train.stretch import Reading


def silva(*words: str) -> int:
    return int(typer.main.get_command(app).main(list(words), prog_name="data", standalone_mode=False) or 0)


def grow(place: Path, **fields: object) -> None:
    known = {"env": "arithmetic", "policy": "expert", "lake": str(place), "hosts": {"inline": True}}
    asyncio.run(run_rollout(RolloutConfig.model_validate({**known, **fields})))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("expert") / "lake"
    grow(place, renderer="scripted", run="e", group=2, tasks={"split": "chain", "limit": 16})
    return place


def test_from_a_lake_to_samples(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = "train=0.6,test=0.4"
    assert silva("split", "--lake", str(lake), "--run", "e", "-o", str(tmp_path), "--parts", parts, "--success") == 0
    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    assert len(read_dataset(train)) + len(read_dataset(test)) == 32
    assert all(entry.question and entry.success for entry in read_dataset(train).entries)
    assert silva("check", str(train), str(test)) == 0
    with pytest.raises(UsageError, match="it is there already"):
        silva("split", "--lake", str(lake), "-o", str(tmp_path), "--parts", parts)
    long = tmp_path / "long.jsonl"
    assert silva("upsample", str(train), "-o", str(long), "--factor", "2", "--rule", "turns > 5") == 0
    both = tmp_path / "both.jsonl"
    assert silva("mix", f"{train}=1", f"{long}=3", "-o", str(both), "--size", "20") == 0
    assert len(read_dataset(both)) == 20
    assert "mix" in read_dataset(both).made and "upsample factor=2" in read_dataset(long).made
    with pytest.raises(UsageError, match="they are kept apart"):
        silva("mix", f"{train}=1", f"{test}=1", "-o", str(tmp_path / "no.jsonl"))
    capsys.readouterr()
    assert silva("check", str(train), str(both), "--json") == 1
    assert {leak["kind"] for leak in json.loads(capsys.readouterr().out)} == {"task"}
    samples = load_samples(read_dataset(long), Reading(logprobs="optional"))
    counts: dict[str, int] = {}
    for sample in samples:
        counts[sample.trajectory_id] = counts.get(sample.trajectory_id, 0) + 1
        assert sample.mask.any() and (sample.weights[sample.mask] == 1).all()
    assert counts == {entry.trajectory_id: entry.copies for entry in read_dataset(long).entries}


SFT: Any = SimpleNamespace(name="sft", needs=frozenset())
GRPO: Any = SimpleNamespace(name="grpo", needs=frozenset({"group"}))


@pytest.fixture
def sets(lake: Path, tmp_path: Path) -> Path:
    parts = "train=0.6,test=0.4"
    assert silva("split", "--lake", str(lake), "--run", "e", "-o", str(tmp_path / "sets"), "--parts", parts) == 0
    return tmp_path / "sets"


def measure(**data: Any) -> list[Sample]:
    """What a run with this data would measure."""
    read = DataConfig(**data)
    return held_out(read, SFT, prepare(read, SFT))


@pytest.mark.parametrize("named", ["train.jsonl", "train"])
def test_a_run_trains_on_exactly_the_trajectories_of_a_data_set(lake: Path, sets: Path, named: str) -> None:
    data = DataConfig(dataset=sets / named, held_out_dataset=sets / "test")
    prepared = prepare(data, SFT)
    measured = held_out(data, SFT, prepared)
    train, test = (read_dataset(sets / f"{part}.jsonl") for part in ("train", "test"))
    trained = [sample.trajectory_id for (sample,) in prepared.groups]
    assert sorted(trained) == sorted(entry.trajectory_id for entry in train.entries) and len(trained) < 32
    assert {sample.trajectory_id for sample in measured} == {entry.trajectory_id for entry in test.entries}
    assert prepared.parents == ("dataset:train.jsonl", "run:e")


def test_a_data_set_is_read_where_its_lake_is_now(lake: Path, sets: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(lake, moved)
    train = read_dataset(sets / "train.jsonl")
    elsewhere = tuple(msgspec.structs.replace(entry, lake="gone") for entry in train.entries)
    write_dataset(sets / "train.jsonl", msgspec.structs.replace(train, entries=elsewhere), replace=True)
    with pytest.raises(StoreError, match="gone"):
        prepare(DataConfig(dataset=sets / "train"), SFT)
    there = prepare(DataConfig(dataset=sets / "train", lake=str(moved)), SFT)
    assert len(there.groups) == len(train.entries)


def test_what_is_measured_may_not_be_trained_on(lake: Path, sets: Path, tmp_path: Path) -> None:
    train = read_dataset(sets / "train.jsonl")
    leaking = msgspec.structs.replace(train, part="test", entries=train.entries[:2])
    write_dataset(sets / "leaking.jsonl", leaking)
    for measured in ("leaking", "train"):
        said = rf"task .* is in .*train.jsonl .*and in .*{measured}.jsonl.*must not be trained on"
        with pytest.raises(UsageError, match=said):
            measure(dataset=sets / "train", held_out_dataset=sets / measured)
    write_samples(tmp_path / "held.samples", load_samples(leaking, Reading(logprobs="optional")))
    with pytest.raises(UsageError, match=r"task .* is in .*train.jsonl .*and in held_out"):
        measure(dataset=sets / "train", held_out=(tmp_path / "held.samples",))


def test_the_same_holds_for_files_and_runs(lake: Path, sets: Path, tmp_path: Path) -> None:
    parts = {part: read_dataset(sets / f"{part}.jsonl") for part in ("train", "test")}
    for part, named in parts.items():
        write_samples(tmp_path / f"{part}.samples", load_samples(named, Reading(logprobs="optional")))
    train, test = tmp_path / "train.samples", tmp_path / "test.samples"
    assert len(measure(files=(train,), held_out=(test,))) == len(parts["test"].entries)
    assert len(measure(files=(train,), held_out_dataset=sets / "test")) == len(parts["test"].entries)

    first = min(entry.task_id for entry in parts["test"].entries)
    with pytest.raises(
        UsageError, match=rf"data: task {first} is in files and in held_out \(so is task .* in all\)"
    ) as said:
        measure(files=(train, test), held_out=(test,))
    assert "\n" not in str(said.value)
    with pytest.raises(UsageError, match=rf"task {first} is in files and in .*test.jsonl \(held_out_dataset\)"):
        measure(files=(train, test), held_out_dataset=sets / "test")
    for held in ({"held_out": (test,)}, {"held_out_dataset": sets / "test"}):
        with pytest.raises(UsageError, match=rf"task {first} is in runs and in"):
            measure(lake=str(lake), runs=("e",), **held)

    # without a task, or under another, the same first question
    for changes, name in (({"task_id": "", "env": ""}, "a sample without a task"), ({"task_id": "other"}, "other")):
        bare = [replace(sample, **changes) for sample in read_samples(test)]
        write_samples(tmp_path / "bare.samples", bare, force=True)
        with pytest.raises(
            UsageError, match=rf"question of arithmetic/.* \(as in {name}\) is in files and in held_out"
        ):
            measure(files=(train, test), held_out=(tmp_path / "bare.samples",))
        assert len(measure(files=(train,), held_out=(tmp_path / "bare.samples",))) == len(bare)


def test_a_data_set_that_cannot_be_trained_on_is_one_line(lake: Path, sets: Path) -> None:
    train = read_dataset(sets / "train.jsonl")
    twice = msgspec.structs.replace(
        train, entries=tuple(msgspec.structs.replace(entry, copies=2) for entry in train.entries)
    )
    write_dataset(sets / "twice.jsonl", twice)
    assert len(prepare(DataConfig(dataset=sets / "twice"), SFT).groups) == 2 * len(train.entries)
    with pytest.raises(UsageError, match="stands 2 times in it, and grpo compares"):
        prepare(DataConfig(dataset=sets / "twice"), GRPO)
    with pytest.raises(UsageError, match=r"it is a folder; name one of its parts: .*test, .*train"):
        prepare(DataConfig(dataset=sets), SFT)
    with pytest.raises(UsageError, match="it cannot be read"):
        prepare(DataConfig(dataset=sets / "dev"), SFT)
    with pytest.raises(ValidationError, match="or a dataset"):
        DataConfig(dataset=sets / "train", runs=("e",), lake="lake")


def test_a_trajectory_that_counts_no_more_is_not_left_out_in_silence(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    grow(place, renderer="scripted", run="e", tasks={"split": "chain", "limit": 4})
    with Lake.open(place) as opened:
        entries = tuple(read_entries(opened, ["e"]))
        (last,) = (each for each in opened.trajectories(run_id="e") if each.id == entries[0].trajectory_id)
        opened.append_sync([msgspec.structs.replace(last, superseded=True)])
    with pytest.raises(UsageError, match=f"trajectory {last.id[:12]} .* took its place"):
        load_samples(DataSet(part="train", entries=entries), Reading(logprobs="optional"))


def test_two_tasks_that_ask_the_same_are_told_before_anything_is_written(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twins = tmp_path / "twins.jsonl"
    lines = [
        json.dumps({"id": f"arithmetic/twin/{n}", "env": "arithmetic", "instruction": "2 + 2 = ?", "split": "test"})
        for n in range(12)
    ]
    twins.write_text("\n".join(line[:-1] + ', "data": {"numbers": [2, 2]}}' for line in lines))
    place = tmp_path / "lake"
    grow(place, run="t", tasks={"file": str(twins)})
    out = tmp_path / "sets"
    assert silva("split", "--lake", str(place), "-o", str(out), "--parts", "train=0.5,test=0.5") == 1
    said = capsys.readouterr()
    assert "question of arithmetic/twin/" in said.out and "split with --key question" in said.err
    assert not out.exists()
    assert Lake.open(place, mode="read").run("t") is not None


def test_words_that_make_no_command_are_refused(lake: Path, tmp_path: Path) -> None:
    for words, said in (
        (["split", "--lake", str(lake), "-o", "x", "--parts", "train"], "no part and its share"),
        (["split", "--lake", str(lake), "-o", "x", "--run", "none"], "run none is not in lake"),
        (["split", "--lake", str(lake), "-o", "x", "--where", "turns > 99"], "no trajectory is left"),
        (["mix", "a.jsonl=x", "b.jsonl=1", "-o", "x"], "no data set and its ratio"),
        (["mix", "a.jsonl=1", "-o", "x"], "at least two"),
        (["check", "a.jsonl"], "at least two"),
    ):
        with pytest.raises(UsageError, match=said):
            silva(*words)
