"""The doctor misses what is gone: tables, last nodes, trajectories; a walk that cannot be shown says what it lacks."""

from __future__ import annotations

import shutil

import pytest
from lake_records import episode, task

from silva.errors import StoreError
from silva.lake import Lake, field
from silva.lake.frames import MAGIC, frames
from silva.tree import Run


def grown(location):
    with Lake.open(location) as lake:
        for number in (1, 2):
            nodes, trajectory = episode(number)
            lake.append_sync([Run(id="run", status="finished"), task(number), *nodes, trajectory])
    return location


def kinds(location):
    return {finding.kind for finding in Lake.open(location, "read").doctor()}


def test_a_whole_lake_is_healthy(tmp_path):
    assert kinds(grown(tmp_path / "lake")) == set()


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ("nodes", {"missing", "leaf"}),
        ("trajectories", {"missing", "unended"}),
        ("tasks", {"missing"}),
        ("runs", {"missing"}),
    ],
)
def test_a_table_that_is_gone_is_missed(tmp_path, table, found):
    location = grown(tmp_path / "lake")
    shutil.rmtree(location / "tables" / f"{table}.lance")
    assert kinds(location) == found


def test_an_attempt_without_its_record_is_missed_beside_its_siblings(tmp_path):
    location = grown(tmp_path / "lake")
    nodes, lost = episode(1, index=1)
    with Lake.open(location) as lake:
        lake.append_sync(nodes)
    (finding,) = Lake.open(location, "read").doctor()
    assert finding.kind == "unended" and "1 attempts in 1 of its trees" in finding.message
    assert f"one is 1.0 of tree {lost.tree_id[:12]}" in finding.message


def test_an_end_that_was_cut_off_is_named_with_what_cannot_be_told(tmp_path):
    location = grown(tmp_path / "lake")
    left = MAGIC + frames([task(3)]) + frames([task(4)])[:-1]
    (location / "journal" / "0000000009.open").write_bytes(left)
    (finding,) = Lake.open(location, "read").doctor()
    assert finding.kind == "torn" and "sets them aside under quarantine/" in finding.message
    with Lake.open(location) as lake:
        assert lake.tasks(where=field("id") == "env/3")
    (finding,) = Lake.open(location, "read").doctor()
    assert finding.kind == "cut" and finding.where.startswith("quarantine/0000000009.end.")
    assert "do not tell which" in finding.message and "remove the file" in finding.message
    (location / finding.where).unlink()
    assert kinds(location) == set()


@pytest.mark.parametrize("left", [b"", MAGIC[:3]])
def test_a_segment_without_a_beginning_is_told_with_what_cannot_be(tmp_path, left):
    location = grown(tmp_path / "lake")
    (location / "journal" / "0000000009.open").write_bytes(left)
    (finding,) = Lake.open(location, "read").doctor()
    assert finding.kind == "torn" and "do not tell which" in finding.message
    with Lake.open(location):
        pass
    assert kinds(location) == set()


def test_a_walk_without_its_last_node_is_found_and_says_what_it_lacks(tmp_path):
    location = grown(tmp_path / "lake")
    nodes, trajectory = episode(1)
    with Lake.open(location) as lake:
        table = lake.tables.open("nodes")  # pyright: ignore
        assert table is not None
        table.delete(f"id = '{nodes[-1].id}'")
    with Lake.open(location, "read") as lake:
        (finding,) = lake.doctor()
        assert finding.kind == "leaf" and trajectory.id[:12] in finding.message and "run run" in finding.message
        with pytest.raises(
            StoreError, match=f"node {nodes[-1].id[:12]} of its walk is not here, of its tree 5 nodes are"
        ):
            lake.walk(trajectory)
        assert len(lake.walk(lake.trajectory(episode(2)[1].id))) == 6


def test_a_tree_without_a_node_in_its_middle_is_one_line(tmp_path):
    location = grown(tmp_path / "lake")
    nodes, trajectory = episode(1)
    with Lake.open(location) as lake:
        table = lake.tables.open("nodes")  # pyright: ignore
        assert table is not None
        table.delete(f"id = '{nodes[2].id}'")
    with Lake.open(location, "read") as lake:
        assert {finding.kind for finding in lake.doctor()} == {"orphan"}
        for read in (lambda: lake.walk(trajectory), lambda: lake.tree(trajectory.tree_id)):
            with pytest.raises(StoreError, match=r"not here|is missing") as caught:
                read()
            assert "\n" not in str(caught.value)
