"""`silva train samples` on a real lake: what is written, what is left out, and what is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from played import Played, play, told_to_mask

from silva.cli.train import app as train
from silva.errors import Exit, SilvaError, UsageError
from silva.lake import Lake
from silva.train.sample_file import read_samples
from silva.tree import Author, Boundary, Failure, Outcome, Run, Status, Tree

changed: Any = msgspec.structs.replace


def fill(folder: Path, played: Played) -> str:
    async def write() -> None:
        async with Lake.open(folder) as lake:
            run = Run(id="run", status="completed")
            await lake.append([run, *played.tree, *played.trajectories, *played.supervisions])

    asyncio.run(write())
    return str(folder)


def silva(*words: str) -> int:
    import typer

    done = typer.main.get_command(train).main(list(words), prog_name="silva train", standalone_mode=False)
    return int(done or 0)


@pytest.fixture(scope="module")
def played() -> Played:
    made = play(5, steps=40)
    made.trajectories[0] = changed(
        made.trajectories[0],
        outcome=Outcome(
            status=Status.FAILED, failure=Failure(boundary=Boundary.MODEL, code="model.timeout", message="late")
        ),
    )
    return made


@pytest.fixture(scope="module")
def lake(played: Played, tmp_path_factory: pytest.TempPathFactory) -> str:
    return fill(tmp_path_factory.mktemp("lakes") / "lake", played)


def test_samples_of_a_run_are_written_with_its_supervision(
    played: Played, lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.samples"
    assert silva("samples", "--lake", lake, "--run", "run", "-o", str(path), "--json") == Exit.OK
    counts = json.loads(capsys.readouterr().out)
    made = list(read_samples(path))
    assert counts["samples"] == counts["rows"] == len(made) and counts["failed"] == 1
    assert counts["with_loss"] == sum(int(each.mask.sum()) for each in made) < counts["drawn"]
    assert {each.trajectory_id for each in made} <= {each.id for each in played.trajectories[1:]}
    masked = told_to_mask(played.supervisions)
    for sample in made:
        for action in sample.actions:
            assert tuple(sample.ids[: action.stop]) == played.saw[action.node_id]
            assert not (action.node_id in masked and sample.mask[action.start])
    assert silva("samples", "--lake", lake, "-o", str(tmp_path / "all.samples"), "--failed") == Exit.OK
    assert played.trajectories[0].id in {each.trajectory_id for each in read_samples(tmp_path / "all.samples")}


def test_a_limit_an_advantage_and_a_trainers_form(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.parquet"
    words = ["samples", "--lake", lake, "-f", "trl-sft", "-o", str(out), "--limit", "12"]
    with pytest.raises(UsageError, match="the context holds 12"):
        silva(*words)
    assert not out.exists()
    assert silva(*words, "--overlong", "truncate") == Exit.OK
    assert all(len(row["input_ids"]) <= 12 for row in pq.read_table(out).to_pylist())
    assert "truncated" in capsys.readouterr().err
    batches = tmp_path / "rank_0.bin"
    words = ["samples", "--lake", lake, "-f", "prime-rl", "-o", str(batches), "--budget", "64"]
    with pytest.raises(SilvaError, match="have no advantages"):
        silva(*words)
    with pytest.raises(SilvaError, match="policy versions"):
        silva(*words, "--advantages", "mean")
    assert silva(*words, "--objective", "ce") == Exit.OK and batches.exists()


def test_inexact_trajectories_are_refused_or_left_out_and_told(
    played: Played, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = {each.leaf_id for each in played.trajectories[1:]}
    lost = next(each for each in played.tree.leaves if each.id in ended and each.author is Author.POLICY)
    broken = Played(
        tree=Tree(changed(each, tokens=None) if each.id == lost.id else each for each in played.tree),
        trajectories=played.trajectories,
        supervisions=[],
    )
    lake, out = fill(tmp_path / "lake", broken), str(tmp_path / "a.samples")
    with pytest.raises(SilvaError, match=rf"try \d+\): node {lost.id[:12]} .* has no token ids"):
        silva("samples", "--lake", lake, "-o", out, "--inexact", "refuse")
    assert silva("samples", "--lake", lake, "-o", out) == Exit.OK
    told = capsys.readouterr().err
    assert f"node {lost.id[:12]}" in told and "inexact" in told


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "where to"),
        (("-o", "a.samples", "-f", "tinker"), "unknown format 'tinker'"),
        (("-o", "a.parquet"), "ends in .samples"),
        (("-o", "a.samples", "--run", "none"), "has no run none"),
        (("-o", "a.samples", "--where", "score > 9"), "no trajectory meets"),
        (("-o", "a.samples", "--logprobs", "some"), "--logprobs 'some': give required or optional"),
        (("-o", "a.samples", "--advantages", "gae"), "--advantages 'gae'"),
    ],
)
def test_bad_words_are_one_line(words: tuple[str, ...], why: str, lake: str, tmp_path: Path) -> None:
    here = [str(tmp_path / word) if word.startswith("a.") else word for word in words]
    with pytest.raises(UsageError, match=why):
        silva("samples", "--lake", lake, *here)
    assert list(tmp_path.iterdir()) == []


def test_the_group_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert silva("--help") == Exit.OK
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("samples", "buffer", "run"))
