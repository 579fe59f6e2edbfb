"""Rows: the same noun from tables, pairs, trajectory files and the lake; what cannot be read drops out by name."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from silva.cli.main import run as silva
from silva.curate.rows import Kind, Row, read
from silva.errors import UsageError

TURNS = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]


def _lines(path: Path, *values: Any) -> str:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return str(path)


@pytest.mark.parametrize(
    "value",
    [
        {"messages": TURNS, "label": 1, "topic": "sums"},
        {"prompt": "2 + 2?", "completion": "4", "label": 1, "topic": "sums"},
        {"instruction": "2 + 2?", "input": "", "output": "4", "label": 1, "topic": "sums"},
        {"question": "2 + 2?", "answer": "4", "label": 1, "topic": "sums"},
        {"prompt": TURNS[:1], "response": TURNS[1:], "label": 1, "topic": "sums"},
        {
            "conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}],
            "label": 1,
            "topic": "sums",
        },
    ],
)
def test_shapes_of_one_conversation_are_one_row(tmp_path: Path, value: Any) -> None:
    (row,) = read(_lines(tmp_path / "a.jsonl", value))
    assert (row.kind, row.prompt, row.reply, row.label) == (Kind.MESSAGES, "2 + 2?", "4", 1)
    assert row.data["topic"] == "sums"
    (plain,) = read(_lines(tmp_path / "b.jsonl", {"messages": TURNS}))
    assert row.content == plain.content, "equal words have one content, whatever the file says besides"


def test_a_preference_holds_both_walks_and_one_prompt(tmp_path: Path) -> None:
    (row,) = read(_lines(tmp_path / "a.jsonl", {"prompt": "2 + 2?", "chosen": "4", "rejected": "5", "by": "Ada"}))
    assert row.kind is Kind.PREFERENCE
    assert [walk[-1].message.text for walk in (row.nodes, row.rejected)] == ["4", "5"]
    assert row.nodes[0].id == row.rejected[0].id and row.data == {"by": "Ada"}
    (full,) = read(
        _lines(tmp_path / "b.jsonl", {"chosen": TURNS, "rejected": [*TURNS[:1], TURNS[1] | {"content": "5"}]})
    )
    assert full.content == row.content


def test_tables_of_any_ending_give_the_same_rows(tmp_path: Path) -> None:
    values = [{"text": "naïve, yes", "label": "a"}, {"text": "line\ntwo", "label": "b"}]
    _lines(tmp_path / "t.jsonl", *values)
    (tmp_path / "t.json").write_text(json.dumps(values, indent=1))
    parquet.write_table(pa.Table.from_pylist(values), tmp_path / "t.parquet")
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(values)
    for ending in ("jsonl", "json", "parquet", "csv"):
        rows = [(row.kind, row.text, row.label) for row in read(str(tmp_path / f"t.{ending}"))]
        assert rows == [(Kind.TEXT, "naïve, yes", "a"), (Kind.TEXT, "line\ntwo", "b")], ending


def test_what_cannot_be_read_drops_out_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"text": "good"}\n{"text": ""}\n{"n": 1}\n[1, 2]\n{"text": "cut off\n7\n{"messages": [{"role": "user"}]}\n'
        b'{"messages": [{"role": "user", "content": "half \\ud83d"}]}\n'
    )
    reading = read(str(path))
    rows = list(reading)
    assert [row.text for row in rows] == ["good", "half \ufffd"]
    assert [note.split()[0] for note in reading.notes] == [f"a.jsonl:{n}" for n in (2, 3, 4, 5, 6, 7)]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.jsonl", b"", "empty"),
        ("a.jsonl", b'{"n": 1}\n', "no row that can be read: a.jsonl:1 has no text"),
        ("a.csv", b"\xff\xfe\x00", "cannot be read as CSV"),
        ("a.bin", b"\x7fELF\x00\x00", "is binary"),
        ("a.parquet", b"PAR1 and no more", "cannot be read as Parquet"),
        ("a.json", b"[1, 2", "is no JSON"),
    ],
)
def test_a_file_without_rows_is_one_line(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=says):
        list(read(str(tmp_path / name)))


def test_a_run_a_condition_and_a_query_name_trajectories(tmp_path: Path, played: str) -> None:
    by_run: list[Row] = list(read("expert", lake=played))
    assert len(by_run) == 3 and all(row.kind is Kind.TRAJECTORY and row.trajectory for row in by_run)
    assert [row.id for row in read("score >= 1 and run_id = 'expert'", lake=played)] == [row.id for row in by_run]
    asked = read("select id from trajectories where run_id = 'expert' order by id limit 1", lake=played)
    assert {row.id for row in asked} < {row.id for row in by_run}
    assert len(list(read("expert", lake=played, limit=2))) == 2
    with pytest.raises(UsageError, match="no such run"):
        read("nobody", lake=played)
    with pytest.raises(UsageError, match="--lake"):
        read("expert")


def test_an_export_is_read_back_as_the_same_trajectories(tmp_path: Path, played: str) -> None:

    for form, ending in (("messages", "jsonl"), ("parquet", "parquet"), ("atif", "json")):
        path = tmp_path / f"out.{ending}"
        assert silva(["trees", "export", "--lake", played, "--run", "expert", "--format", form, "-o", str(path)]) == 0
        rows = list(read(str(path)))
        assert {row.content for row in rows} == {row.content for row in read("expert", lake=played)}, form
        assert all(row.kind is Kind.TRAJECTORY for row in rows)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with three runs of an expert."""

    lake = str(tmp_path_factory.mktemp("rows") / "lake")
    assert (
        silva(
            ["rollout", "--env", "arithmetic", "--policy", "expert", "--limit", "3", "--run", "expert", "--lake", lake]
        )
        == 0
    )
    return lake
