"""A lake remembers and answers: from the journal, from the tables, from both."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading

import msgspec
import pytest
from lake_records import episode, task

from silva.errors import StoreError, UsageError
from silva.lake import Lake, default_location, field, open_lake
from silva.tree import Lineage, Outcome, Run, Status, Supervision


@pytest.fixture(params=["journal", "tables", "both"])
def lake(request, tmp_path):
    """Ten tasks of two attempts each, in the journal, in the tables, or half here and half there; then a reader."""
    with Lake.open(tmp_path / "lake", window_ms=0) as writer:
        writer.append_sync([Run(id="run", lineage=Lineage(code="1.0", config="abc", parents=("seeds@1",)))])
        for number in range(10):
            for index in (0, 1):
                nodes, trajectory = episode(number, index=index)
                writer.append_sync([task(number), *nodes, trajectory])
            if request.param == "both" and number == 4:
                writer.compact()
        if request.param == "tables":
            writer.compact()
        yield Lake.open(tmp_path / "lake", "read")


def test_nodes_are_each_there_once(lake: Lake):
    expected = {node.id: node for n in range(10) for i in (0, 1) for node in episode(n, index=i)[0]}
    assert len(lake.nodes()) == len(expected) == 110
    assert {node.id: node for node in lake.nodes()} == expected
    assert len(lake.nodes(slot="1.0")) == 50
    assert len(lake.nodes(limit=7)) == 7


def test_a_walk_is_the_trajectory_it_was(lake: Lake):
    for number in (0, 9):
        nodes, trajectory = episode(number, index=1)
        assert lake.trajectory(trajectory.id[:12]) == trajectory
        assert lake.walk(trajectory) == tuple(nodes)
        tree = lake.tree(trajectory.tree_id)
        assert len(tree) == 11 and len(tree.leaves) == 2


def test_many_trees_are_those_that_are_read_one_by_one(lake: Lake):
    names = [each.tree_id for each in lake.trajectories()] * 4  # more than are read at once, each several times
    one_by_one = {name: lake.tree(name) for name in set(names)}
    found = list(lake.trees(names))
    assert [tree.id for tree in found] == names and len(names) > 4 * 16
    assert all({node.id for node in tree} == {node.id for node in one_by_one[tree.id]} for tree in found)
    several = lake.trees([names[0], "zzz"])
    assert next(several).id == names[0]
    with pytest.raises(UsageError, match="has no tree zzz"):
        next(several)


def test_many_walks_are_those_that_are_read_one_by_one(lake: Lake):
    asked = lake.trajectories() * 2
    broken = msgspec.structs.replace(asked[0], leaf_id=None)
    assert list(lake.walks([broken, *asked])) == [(), *map(lake.walk, asked)]
    lost = lake.walks([asked[0], msgspec.structs.replace(asked[1], leaf_id="no such node")])
    assert next(lost) == lake.walk(asked[0])
    with pytest.raises(StoreError, match="node no such node of its walk is not here"):
        next(lost)


def test_filters_find_what_python_finds(lake: Lake):
    everything = lake.trajectories()
    assert len(everything) == 20
    for where, holds in [
        (field("outcome.score") >= 0.5, lambda t: t.outcome.score >= 0.5),
        (field("env") == "odd", lambda t: t.env == "odd"),
        ((field("env") != "odd") & ~(field("score") == 0), lambda t: t.env != "odd" and t.outcome.score != 0),
        (field("index").is_in([1]) | (field("seed") < 2), lambda t: t.index == 1 or t.seed < 2),
        (field("boundary").is_null(), lambda t: True),
        (field("task_id").contains("env/3"), lambda t: "env/3" in t.task_id),
        (field("task_id") == "it's; drop table", lambda t: False),
    ]:
        found = {t.id for t in lake.trajectories(where=where)}
        assert found == {t.id for t in everything if holds(t)}, where
    assert len(lake.nodes(where=field("tool_names").contains("look"), slot="0.0")) == 30
    assert {t.id for t in lake.trajectories(task_id="env/3", env="odd", status="completed")} == {
        t.id for t in everything if t.task_id == "env/3"
    }


def test_sql_sees_all_tables(lake: Lake):
    rows = lake.sql(
        "select t.env, count(*) n, avg(t.score) s from trajectories t join tasks k on k.id = t.task_id "
        "join runs r on r.id = t.run_id where r.code_version = '1.0' and t.score < 9 group by all order by 1"
    ).to_pylist()
    assert rows == [
        {"env": "even", "n": 10, "s": pytest.approx(0.2)},
        {"env": "odd", "n": 10, "s": pytest.approx(0.45)},
    ]
    assert lake.sql("select count(*) n from nodes where depth > 0 and 'look' in tool_names").to_pylist() == [{"n": 60}]
    assert lake.sql("with x as (select * from nodes) select count(distinct id) n from x").to_pylist() == [{"n": 110}]
    assert lake.sql("select 1 as one").to_pylist() == [{"one": 1}]


def test_text_is_found(lake: Lake):
    found = lake.search("turn 9 xylophone", limit=200)
    assert found and all("turn" in node.message.text or "9" in node.message.text.split() for _, node in found)
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
    assert len({node.id for _, node in found}) == len(found)
    assert lake.search("xylophone") == []


def test_a_run_keeps_its_lineage(lake: Lake):
    run = lake.run("run")
    assert run is not None and run.lineage.parents == ("seeds@1",)
    assert lake.run("other") is None
    assert [each.id for each in lake.runs()] == ["run"]
    assert {each.id for each in lake.tasks(env="odd")} == {f"env/{n}" for n in (1, 3, 5, 7, 9)}


def test_unknown_names_are_refused_in_one_line(lake: Lake):
    for action, line in [
        (lambda: lake.trajectory("zzz"), "has no trajectory zzz"),
        (lambda: lake.trajectory(""), "give the id"),
        (lambda: lake.tree("zzz"), "has no tree zzz"),
        (lambda: lake.trajectories(where=field("scor") > 1), "no column scor: did you mean score"),
        (lambda: lake.trajectories(where=field("score") > "1"), "cannot be compared"),
        (lambda: lake.search("  "), "at least one word"),
        (lambda: lake.sql("select * from nods"), "no table nods"),
    ]:
        with pytest.raises(UsageError, match=line) as caught:
            action()
        assert "\n" not in str(caught.value)


def test_a_prefix_of_several_is_refused(lake: Lake):
    first = sorted(t.id for t in lake.trajectories())
    shared = next(a[0] for a, b in itertools.pairwise(first) if a[0] == b[0])
    with pytest.raises(UsageError, match="several trajectory records"):
        lake.trajectory(shared)


@pytest.mark.parametrize(
    "query",
    [
        "drop table nodes",
        "select 1; select 2",
        "select * from read_text('/etc/hostname')",
        "select * from '/etc/hostname'",
        "select * from read_csv('/etc/hostname')",
        "copy nodes to '/tmp/silva-escape'",
        "attach '/tmp/silva-escape' as other",
        "install httpfs",
        "set threads = 1",
        "select * from arrow_scan(1, 2, 3)",
        "select * from nodes where id in (select content from read_text('/etc/hostname'))",
        "select * from query('select 1')",
        "select * from duckdb_settings()",
        "select * from information_schema.tables",
        "selec 1",
        "",
    ],
)
def test_sql_reads_the_lake_and_nothing_else(tmp_path, query):
    with Lake.open(tmp_path / "lake") as lake:
        with pytest.raises(UsageError, match=r"^sql: ") as caught:
            lake.sql(query)
        assert "\n" not in str(caught.value)


def test_the_last_record_of_a_run_counts_everywhere(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        _, trajectory = episode(1)
        later = msgspec.structs.replace(trajectory, superseded=True, outcome=Outcome(status=Status.TRUNCATED))
        lake.append_sync([Run(id="r"), trajectory])
        for stored in (False, True):
            if stored:
                lake.compact()
            lake.append_sync([Run(id="r", status="finished", finished=5.0), later])
            for _ in range(2):
                assert lake.runs() == [Run(id="r", status="finished", finished=5.0)]
                assert lake.trajectories() == [later]
                assert lake.trajectories(status="completed") == []
                assert lake.trajectories(status="truncated", limit=1) == [later]
                assert lake.sql("select status, count(*) n from trajectories group by 1").to_pylist() == [
                    {"status": "truncated", "n": 1}
                ]
                lake.compact()


def test_the_first_record_of_a_node_counts_everywhere(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        (node, *_), _ = episode(1)
        again = msgspec.structs.replace(node, reward=9.0)
        lake.append_sync([node])
        lake.compact()
        lake.append_sync([again])
        for _ in range(2):
            assert lake.nodes() == [node]
            assert lake.sql("select reward from nodes").to_pylist() == [{"reward": None}]
            lake.compact()


async def test_supervision_is_appended_never_overwritten(tmp_path):
    async with Lake.open(tmp_path / "lake") as lake:
        for by in ("rule", "person"):
            await lake.append(
                [Supervision(id=by, node_id="n", run_id="r", verdict="mask", source=by, by=by, at=float(len(by)))]  # pyright: ignore[reportArgumentType]
            )
        assert [each.by for each in lake.supervisions(node_id="n")] == ["rule", "person"]
        assert lake.supervisions(run_id="other") == []


async def test_blobs_are_kept_once_and_checked(tmp_path):
    async with Lake.open(tmp_path / "lake") as lake:
        names = await asyncio.gather(*(lake.put_blob(b"picture", "image/png") for _ in range(20)))
        assert len(set(names)) == 1 and lake.get_blob(names[0]) == b"picture"
        assert lake.sql("select media_type, size from blobs").to_pylist() == [{"media_type": "image/png", "size": 7}]
        (path,) = [p for p in (tmp_path / "lake" / "blobs").rglob("*") if p.is_file()]
        path.write_bytes(b"pictures")
        with pytest.raises(StoreError, match="is damaged"):
            lake.get_blob(names[0])
        with pytest.raises(StoreError, match="has no blob"):
            lake.get_blob("0" * 64)
        with pytest.raises(UsageError, match="names no blob"):
            lake.get_blob("../../lake.json")


def test_a_tag_reads_as_it_was(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync([*episode(1)[0], episode(1)[1], Run(id="r")])
        made = lake.tag("v1", "first")
        assert made.rows == {"nodes": 6, "trajectories": 1, "runs": 1}
        lake.append_sync([*episode(2)[0], Run(id="r", status="finished")])
        lake.compact()
        lake.optimize()
        lake.append_sync(episode(3)[0])
        with pytest.raises(UsageError, match="has a version v1 already"):
            lake.tag("v1")
        with pytest.raises(UsageError, match="use letters"):
            lake.tag("../x")
        assert [each.name for each in lake.versions()] == ["v1"]
    old = Lake.open(tmp_path / "lake", "read", version="v1")
    assert len(old.nodes()) == 6 and old.run("r") == Run(id="r")
    assert old.sql("select count(*) n from nodes").to_pylist() == [{"n": 6}]
    assert len(Lake.open(tmp_path / "lake", "read").nodes()) == 18


def test_rows_added_after_the_indices_are_found(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        for number in range(20):
            lake.append_sync([*episode(number)[0], episode(number)[1]])
        lake.compact()
        lake.optimize()
        assert lake.stats().unindexed == 0
        late, trajectory = episode(77)
        lake.append_sync([*late, trajectory])
        assert any(node.id == late[0].id for _, node in lake.search("77"))
        lake.compact()
        assert lake.stats().unindexed > 0
        assert any(node.id == late[0].id for _, node in lake.search("77"))
        assert lake.walk(lake.trajectory(trajectory.id)) == tuple(late)
        lake.optimize()
        assert any(node.id == late[0].id for _, node in lake.search("77"))
        assert lake.walk(lake.trajectory(trajectory.id)) == tuple(late)


def test_vectors_find_their_nodes(tmp_path):
    def letters(texts: list[str]) -> list[list[float]]:
        return [[float(text.count(c)) + 0.01 for c in "task reply"] for text in texts]

    with Lake.open(tmp_path / "lake") as lake:
        with pytest.raises(StoreError, match="stores no vectors"):
            lake.nearest([1.0])
        lake.append_sync(episode(1)[0])
        assert lake.embed(letters) == 6 and lake.embed(letters) == 0
        lake.append_sync(episode(2)[0])
        assert lake.embed(letters, batch=2) == 6
        best = lake.nearest(letters(["reply 0 of 1"])[0], limit=3)
        assert len(best) == 3 and best[0][0] == pytest.approx(1.0, abs=1e-3)
        assert best[0][1].message.text.startswith("reply")
        with pytest.raises(UsageError, match="the lake stores 10"):
            lake.nearest([1.0, 2.0])


def test_a_reader_follows_a_writer_in_another_process(tmp_path):
    location = tmp_path / "lake"
    with Lake.open(location, window_ms=0) as lake:
        lake.append_sync(episode(0)[0])
        script = (
            "import sys; from silva.lake import Lake\nlake = Lake.open(sys.argv[1], 'read')\n"
            "for line in sys.stdin: print(len(lake.nodes()), len(lake.trajectories()), flush=True)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script, str(location)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdin and reader.stdout
            for number in range(1, 6):
                reader.stdin.write("\n")
                reader.stdin.flush()
                assert reader.stdout.readline().split() == [str(number * 6), str(number - 1)]
                lake.append_sync([*episode(number)[0], episode(number)[1]])
                if number % 2:
                    lake.compact()
            reader.stdin.close()
            assert reader.wait(20) == 0


def test_readers_never_miss_or_double_while_segments_move(tmp_path):
    location = tmp_path / "lake"
    wrong: list[str] = []
    count = 0
    with Lake.open(location, window_ms=0) as lake:
        ended = threading.Event()

        def watch() -> None:
            reader = Lake.open(location, "read")
            while not ended.is_set():
                before = count
                ids = [node.id for node in reader.nodes()]
                if len(ids) < before or len(ids) != len(set(ids)):
                    wrong.append(f"{len(ids)} nodes, {len(set(ids))} ids, {before} were there")

        watcher = threading.Thread(target=watch)
        watcher.start()
        for number in range(25):
            nodes = episode(number, turns=20)[0]
            lake.append_sync(nodes)
            count += len(nodes)
            if number % 3 == 0:
                lake.compact()
        ended.set()
        watcher.join()
    assert wrong == []


def test_where_the_lake_is_when_nobody_says(tmp_path, monkeypatch):
    monkeypatch.delenv("SILVA_LAKE", raising=False)
    assert default_location() == "./lake"
    monkeypatch.setenv("SILVA_LAKE", str(tmp_path / "elsewhere"))
    with open_lake() as lake:
        assert lake.location == str(tmp_path / "elsewhere")
