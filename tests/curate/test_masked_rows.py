"""Rows of long runs: which walks there are, what carries loss, and what a file of them says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from silva.cli.curate import app
from silva.envs.protocol import Observation
from silva.errors import UsageError
from silva.lake import Lake
from silva.rollout.agent import Turn
from silva.rollout.path import Path as Growing
from silva.rollout.summary import SUMMARY, Facts, context, cut, in_force
from silva.train.row_file import row_json
from silva.train.rows import Copies, Rows, read_rows
from silva.train.sample_file import read_samples
from silva.tree import (
    Author,
    Message,
    Outcome,
    Run,
    Status,
    Supervision,
    Task,
    Tokens,
    Trajectory,
    assistant,
    trajectory_id,
    tree_id,
    user,
)


def ids(messages: Any) -> tuple[int, ...]:
    """What a model of bytes sees of a conversation: each message, then an end."""
    return tuple(number for each in messages for number in (*each.text.encode(), 256))


async def grow(lake: Lake, *, tries: int = 1, turns: int = 6, every: int = 3, exact: bool = True) -> list[Trajectory]:
    """Runs of a policy that writes bytes, and sums up after every so many turns."""
    ended: list[Trajectory] = []
    tree = tree_id("r", "t")
    for index in range(tries):
        path = Growing(lake, "r", tree, f"{index}.0", set())
        path.observe(Observation(messages=(user("the task"),)), 0.0)
        for turn in range(turns):
            if turn and turn % every == 0:
                where = cut(path.walk, path.summaries, 0.5)
                assert where is not None and path.leaf is not None
                end, first, last = where
                facts = Facts(at=path.leaf.id, first=first, last=last, asked="sum up")
                seen = (*context(path.walk[:end], in_force(path.walk, path.summaries)), user("sum up"))
                made = said(f"try {index}: did {last}", seen, exact)
                await path.summarise(end, made, 0.0, {SUMMARY: msgspec.to_builtins(facts)})
            if index == 0 and turn == 2:
                path.interject(user("mind the gap"), {"words": ["w"]})
            path.act(
                said(f"try {index}, act {turn}", context(path.walk, in_force(path.walk, path.summaries)), exact), 0.0
            )
            path.observe(Observation(messages=(user(f"heard {turn}"),)), 0.0)
            await path.durable()
        assert path.leaf is not None
        ended.append(
            Trajectory(
                id=trajectory_id("r", "t", index, 0),
                tree_id=tree,
                run_id="r",
                task_id="t",
                env="e",
                index=index,
                attempt=0,
                seed=0,
                leaf_id=path.leaf.id,
                outcome=Outcome(status=Status.COMPLETED, score=1.0 - index),
                turns=turns,
            )
        )
        await path.finish(ended[-1])
    return ended


def said(text: str, seen: Any, exact: bool) -> Turn:
    message: Message = assistant(text)
    if not exact:
        return Turn(message=message)
    drawn = (*text.encode(), 256)
    return Turn(message=message, tokens=Tokens(ids=drawn, sampled=len(drawn)), prompt_ids=ids(seen), model="bytes")


async def grown(folder: Path, *said: Supervision, **how: Any) -> list[Trajectory]:
    async with Lake.open(folder / "lake") as lake:
        await lake.append([Run(id="r", envs=("e",), started=1.0), Task(id="t", env="e", instruction="the task")])
        return await grow(lake, **how)


async def judged(folder: Path, *said: tuple[str, str, str]) -> None:
    """Say something of the nodes with these texts: verdict, source."""
    async with Lake.open(folder / "lake") as lake:
        nodes = {node.message.text: node for node in lake.nodes(run_id="r")}
        await lake.append(
            [
                Supervision(
                    id=f"s{place}",
                    node_id=nodes[text].id,
                    run_id="r",
                    verdict=verdict,  # pyright: ignore[reportArgumentType]
                    source=source,  # pyright: ignore[reportArgumentType]
                    by="ann",
                    reason="because",
                    at=2.0,
                    attributes={"kind": "say"} if verdict == "note" else {},
                )
                for place, (text, verdict, source) in enumerate(said)
            ]
        )


def read(folder: Path, **how: Any) -> Rows:
    with Lake.open(folder / "lake", mode="read") as lake:
        return read_rows(lake, lake.trajectories(run_id="r"), **how)


def lossy(row: Any) -> str:
    """The words that carry loss."""
    kept = row.sample.ids[row.sample.mask]
    return bytes(int(number) for number in kept if number < 256).decode()


def whole(row: Any) -> str:
    return "".join(chr(number) if number < 256 else "|" for number in row.sample.ids.tolist())


async def test_there_is_a_row_before_each_summary_one_at_the_end_and_one_of_each_summary(tmp_path: Path) -> None:
    await grown(tmp_path)
    made = read(tmp_path)
    assert [row.kind for row in made.rows] == ["actions", "actions", "summary"]
    first, last, summary = made.rows
    assert lossy(first) == "try 0, act 0try 0, act 1try 0, act 2"
    assert lossy(last) == "try 0, act 3try 0, act 4try 0, act 5", "what stays in the context is context there"
    assert lossy(summary) == "try 0: did 2"
    assert "try 0, act 2" in whole(last) and "try 0, act 0" not in whole(last) and "did 2" in whole(last)
    assert whole(summary).startswith("the task|try 0, act 0|heard 0|") and "sum up|try 0: did 2|" in whole(summary)
    assert made.drawn == sum(int(row.sample.mask.sum()) for row in made.rows) and made.masked == 0


async def test_every_drawn_id_carries_loss_once_and_its_context_is_what_the_model_saw(tmp_path: Path) -> None:
    trajectories = await grown(tmp_path, tries=2, turns=11, every=3)
    made = read(tmp_path)
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        nodes = {node.id: node for node in lake.nodes(run_id="r")}
    carried: list[str] = []
    for row in made.rows:
        for action in row.sample.actions:
            if row.sample.mask[action.start : action.stop].all():
                carried.append(action.node_id)
                text = nodes[action.node_id].message.text
                assert bytes(row.sample.ids[action.start : action.stop - 1].tolist()).decode() == text
    drew = [node.id for node in nodes.values() if node.author in (Author.POLICY, Author.SUMMARISER)]
    assert sorted(carried) == sorted(drew) and len(trajectories) == 2


async def test_masked_actions_and_summaries_carry_no_loss_unless_masking_is_off(tmp_path: Path) -> None:
    await grown(tmp_path)
    await judged(tmp_path, ("try 0, act 1", "mask", "rule"), ("try 0: did 2", "mask", "person"))
    made = read(tmp_path)
    assert [row.kind for row in made.rows] == ["actions", "actions"] and made.without_loss == 1
    assert lossy(made.rows[0]) == "try 0, act 0try 0, act 2"
    assert made.masked == len("try 0, act 1|") + len("try 0: did 2|")
    whole_rows = read(tmp_path, masking=False)
    assert len(whole_rows.rows) == 3 and whole_rows.masked == 0


async def test_rows_count_as_often_as_their_kind(tmp_path: Path) -> None:
    await grown(tmp_path)
    copied = read(tmp_path).copied(Copies(actions=7, summary=10))
    assert [each.attributes["row"] for each in copied] == ["actions"] * 14 + ["summary"] * 10
    assert {each.attributes["copy"] for each in copied} == set(range(10))
    assert not [
        each for each in read(tmp_path).copied(Copies(actions=0, summary=1)) if each.attributes["row"] == "actions"
    ]


async def test_a_run_without_ids_is_refused_by_name_or_passed_over(tmp_path: Path) -> None:
    await grown(tmp_path, exact=False)
    with pytest.raises(UsageError, match=r"trajectory .* has no token ids"):
        read(tmp_path)
    assert len(read(tmp_path, inexact="skip").inexact) == 1


async def test_the_file_shows_each_word_that_was_said_with_who_said_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await grown(tmp_path)
    await judged(tmp_path, ("mind the gap", "note", "person"), ("heard 5", "note", "person"))
    out = tmp_path / "rows.jsonl"
    words = ["rows", "--lake", str(tmp_path / "lake"), "--run", "r", "-o", str(out), "--actions", "2", "--json"]
    assert (app(words, standalone_mode=False) or 0) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["rows"], counts["actions"], counts["summaries"]) == (5, 2, 1)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["actions", "actions", "actions", "actions", "summary"]
    by_text = {each["text"]: each for each in lines[0]["messages"]}
    assert by_text["mind the gap"]["author"] == "person"
    assert by_text["mind the gap"]["said"][0]["by"] == "ann" and by_text["mind the gap"]["said"][0]["kind"] == "say"
    assert by_text["try 0, act 1"]["loss"] and by_text["try 0, act 1"]["turn"] == 2
    assert lines[2]["messages"][-1]["text"] == "heard 5" and lines[2]["messages"][-1]["said"], (
        "after the last action too"
    )
    assert [each["author"] for each in lines[2]["messages"]][:2] == ["environment", "summariser"]
    row = lines[0]
    kept = [number for number, label in zip(row["input_ids"], row["labels"], strict=True) if label != -100]
    assert bytes(number for number in kept if number < 256).decode() == "try 0, act 0try 0, act 1try 0, act 2"
    with pytest.raises(UsageError, match="is there already"):
        app(words, standalone_mode=False)


async def test_what_was_said_on_an_attempt_that_was_left_stands_with_the_one_that_followed(tmp_path: Path) -> None:
    left, last = await grown(tmp_path, tries=2)
    left = msgspec.structs.replace(left, superseded=True, index=last.index)
    await judged(tmp_path, ("try 0, act 4", "mask", "person"), ("try 1, act 1", "note", "person"))
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        rows = read_rows(lake, [left, last])
    actions = [row for row in rows.rows if row.kind == "actions"]
    assert rows.superseded == 1 and [[one.verdict for one in row.left] for row in actions] == [[], ["mask"]]
    assert row_json(actions[-1], Copies())["left"][0]["by"] == "ann" and "left" not in row_json(actions[0], Copies())
    assert [one.verdict for row in actions for one in row.said] == ["note"]


async def test_rows_go_to_trainers_as_samples(tmp_path: Path) -> None:
    await grown(tmp_path)
    out = tmp_path / "rows.samples"
    words = ["rows", "--lake", str(tmp_path / "lake"), "-f", "silva", "-o", str(out), "--summaries", "10"]
    assert (app(words, standalone_mode=False) or 0) == 0
    found = list(read_samples(out))
    assert len(found) == 12 and np.all([each.mask.any() for each in found])
    with pytest.raises(UsageError, match=r"ends in \.jsonl"):
        app(["rows", "-o", str(tmp_path / "x.parquet")], standalone_mode=False)
    with pytest.raises(UsageError, match="has no run q"):
        app(
            ["rows", "--lake", str(tmp_path / "lake"), "--run", "q", "-o", str(tmp_path / "x.jsonl")],
            standalone_mode=False,
        )
