"""`silva data` on a real lake of the expert's: split, check, mix, upsample, and the samples that come of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import typer

from silva.cli.data import app
from silva.errors import UsageError
from silva.lake import Lake
from silva.rollout import RolloutConfig, run_rollout
from silva.train.data.dataset import read_dataset
from silva.train.data.load import load_samples
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
