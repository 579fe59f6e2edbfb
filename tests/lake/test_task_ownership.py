"""A run owns its tasks: another run's task of the same id is another row, before compaction and after it."""

from __future__ import annotations

import lancedb
import msgspec
import pyarrow as pa
import pytest
from lake_records import episode, task

from silva.lake import Lake
from silva.lake.columns import TASKS
from silva.lake.rows import build
from silva.tree import Task


def asked(run: str, words: str) -> Task:
    return Task(id="env/1", env="odd", instruction=words, data={"answer": words}).owned_by(run)


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
def test_each_run_keeps_its_own_task_of_an_id(tmp_path, compacted, indexed):
    location = tmp_path / "lake"
    with Lake.open(location) as lake:
        for run, words in (("first", "one"), ("second", "two"), ("third", "one")):
            nodes, trajectory = episode(1, run=run)
            lake.append_sync([asked(run, words), *nodes, trajectory])
            if compacted:
                lake.compact()
        if indexed:
            lake.optimize()
        with Lake.open(location, "read") as reader:
            given = {each.run_id: reader.task(each) for each in reader.trajectories()}
            assert given == {
                run: asked(run, words) for run, words in (("first", "one"), ("second", "two"), ("third", "one"))
            }
            assert [each.data for each in reader.tasks(run_id="second")] == [{"answer": "two"}]
            assert len(reader.tasks()) == 3 and reader.tasks(run_id="fourth") == []
            rows = reader.sql("select run_id, content from tasks order by run_id").to_pylist()
            assert [row["run_id"] for row in rows] == ["first", "second", "third"]
            assert rows[0]["content"] == rows[2]["content"] != rows[1]["content"]


def test_a_task_told_again_in_its_run_stands_once_with_its_last_words(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync([asked("run", "one")])
        lake.compact()
        lake.append_sync([asked("run", "two")])
        for _ in range(2):
            assert lake.tasks(run_id="run") == [asked("run", "two")] == lake.tasks()
            assert lake.sql("select instruction from tasks").to_pylist() == [{"instruction": "two"}]
            lake.compact()


def test_the_tasks_of_an_older_lake_stand_for_whoever_has_no_own(tmp_path):
    location = tmp_path / "lake"
    nodes, trajectory = episode(1, run="old")
    with Lake.open(location) as lake:
        lake.append_sync([*nodes, trajectory])
    kept = [column for column in TASKS.schema.names if column not in ("run_id", "content")]
    rows = build(TASKS, [task(1), task(2)], [1, 1]).select(kept)
    bare = pa.schema([pa.field("id", pa.string(), False), *(field for field in rows.schema if field.name != "id")])
    lancedb.connect(location / "tables").create_table("tasks", rows.cast(bare))
    with Lake.open(location, "read") as reader:
        assert reader.task(trajectory) == task(1)
        assert reader.tasks(run_id="old") and len(reader.tasks(env="odd")) == 1
    with Lake.open(location) as lake:
        lake.append_sync([asked("new", "two")])
        for _ in range(2):
            assert lake.task(trajectory) == task(1)
            assert lake.tasks(run_id="new") == [task(2), asked("new", "two")] or lake.tasks(run_id="new") == [
                asked("new", "two"),
                task(2),
            ]
            assert lake.sql("select count(*) n from tasks").to_pylist() == [{"n": 3}]
            lake.compact()
        lake.append_sync([msgspec.structs.replace(task(2), instruction="anew")])
        assert [each.instruction for each in lake.tasks(run_id="old", env="even")] == ["anew"]
        lake.compact()
        assert [each.instruction for each in lake.tasks(run_id="old", env="even")] == ["anew"]
        assert lake.doctor() == []
