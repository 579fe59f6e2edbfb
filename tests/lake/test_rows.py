"""Nothing drifts: every field of every record is stored and comes back exactly, through Arrow and through Lance."""

from __future__ import annotations

import math

import lancedb
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lake_records import anything

from silva.lake.column import Table
from silva.lake.columns import NODES, TABLES, TASKS, TRAJECTORIES
from silva.lake.documentation import documentation
from silva.lake.entry import Arrival, BlobEntry
from silva.lake.frames import entry, frames, scan
from silva.lake.rows import build, read
from silva.tree import (
    Author,
    ImagePart,
    Message,
    Node,
    Outcome,
    Run,
    Status,
    Supervision,
    Task,
    TextPart,
    ThinkingPart,
    Tokens,
    Tool,
    Trajectory,
    user,
)

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_every_record_type_has_a_table():
    assert {table.record for table in TABLES.values()} == {Task, Node, Trajectory, Supervision, Run, BlobEntry, Arrival}


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_record_comes_back_exactly(table: Table):
    @QUICK
    @given(st.lists(anything(table.record), max_size=4))
    def check(records: list[object]) -> None:
        known = [entry(payload) for payload in scan(frames(records)).payloads]  # pyright: ignore[reportArgumentType]
        assert read(table, build(table, known, [1] * len(known))) == known

    check()


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_columns_name_real_fields(table: Table):
    for column in table.columns:
        kind: object = table.record
        for name in filter(None, column.path.split(".")):
            fields = {}
            for each in (kind, *getattr(kind, "__args__", ())):
                if isinstance(each, type) and issubclass(each, msgspec.Struct):
                    fields = {field.name: field.type for field in msgspec.structs.fields(each)}
            assert name in fields, f"{table.name}.{column.name}: no field {column.path}"
            kind = fields[name]
        assert f"| {column.name} |" in documentation()


@QUICK
@given(record=anything(Node))
def test_a_row_without_a_column_added_later_still_reads(record: Node):
    # An old table lacks the newer columns: dropping a column whose field is in `rest` must lose nothing, so build with
    # a specification that does not know it, as an older Silva did.
    older = Table(
        name="nodes",
        record=Node,
        columns=tuple(
            column for column in NODES.columns if column.name not in ("reward", "model", "finish_reason", "text")
        ),
        last_wins=False,
        doc="",
    )
    known = entry(scan(frames([record])).payloads[0])
    assert read(NODES, build(older, [known], [1])) == [known]


def node(**changes: object) -> Node:
    fields = {"id": "n", "run_id": "r", "tree_id": "t", "parent_id": None, "depth": 0, "author": Author.POLICY}
    return Node(**{**fields, "message": user("hello"), **changes})  # pyright: ignore[reportArgumentType]


def test_lance_keeps_null_and_empty_apart(tmp_path):
    nodes = [
        node(id="a", tokens=None),
        node(id="b", tokens=Tokens(ids=())),
        node(id="c", tokens=Tokens(ids=(1 << 40,), sampled=1, logprobs=(-0.1,)), message=Message(role="assistant")),
        node(id="d", tools=(Tool(name="f", parameters={"x": [1, 1.0, True, None]}),), message=user("")),
        node(
            id="e",
            message=Message(
                role="user",
                parts=(
                    TextPart(text="a"),
                    ThinkingPart(text="b", signature="s"),
                    ImagePart(hash="h"),
                    TextPart(text="c"),
                ),
            ),
        ),
        node(
            id="f", tools=(), attributes={"one": 1, "float": 1.0, "yes": True, "bytes": b"\x00\xff", "deep": {"l": []}}
        ),
    ]
    table = lancedb.connect(tmp_path).create_table("nodes", build(NODES, nodes, [1] * len(nodes)))
    back = {each.id: each for each in read(NODES, table.search().to_arrow())}
    assert back == {each.id: each for each in nodes}
    assert type(back["f"].attributes["float"]) is float and type(back["f"].attributes["yes"]) is bool


def test_numbers_json_cannot_say_survive():
    trajectory = Trajectory(
        id="x",
        run_id="r",
        tree_id="t",
        task_id="k",
        env="e",
        index=0,
        attempt=0,
        seed=(1 << 64) - 1,
        leaf_id=None,
        outcome=Outcome(status=Status.TRUNCATED, metrics={"inf": math.inf, "nan": math.nan, "one": 1.0}),
    )
    (back,) = read(TRAJECTORIES, build(TRAJECTORIES, [trajectory], [1]))
    assert back.seed == (1 << 64) - 1 and back.leaf_id is None
    assert math.isnan(back.outcome.metrics["nan"]) and back.outcome.metrics["inf"] == math.inf


def test_text_columns_are_for_people():
    rows = build(TASKS, [Task(id="a", env="e", data={"k": [1, 2]}, tags=("x",))], [1]).to_pylist()
    assert rows[0]["data"] == '{"k":[1,2]}' and rows[0]["tags"] == ["x"] and rows[0]["rest"] is None
