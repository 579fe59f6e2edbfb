"""What is old stands in the cold tier, every query reads both, and a kill in the midst of a move loses nothing."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lake_records import episode, task

from silva.errors import UsageError
from silva.lake import Arrival, Lake
from silva.lake.ingest.assembling import Session, assemble
from silva.lake.moving import move, retain
from silva.tree import Run

DAY = 86400.0


def filled(location: Path, count: int = 2, turns: int = 6) -> Lake:
    """A lake with runs that ended ten days ago, each of one episode, and one that ends now."""
    lake = Lake.open(location)
    for number in range(count + 1):
        nodes, trajectory = episode(number, turns=turns, run=f"run-{number}")
        ended = time.time() - (10 * DAY if number < count else 0)
        run = Run(id=trajectory.run_id, status="completed", started=1.0, finished=ended)
        lake.append_sync([run, task(number).owned_by(run.id), *nodes, trajectory])
    return lake


def counted(lake: Lake) -> dict[str, int]:
    """Rows by table, and by ids, which must be as many."""
    found: dict[str, int] = {}
    for table in ("nodes", "trajectories", "tasks", "runs", "arrivals"):
        row = lake.sql(f"select count(*) as n, count(distinct id) as ids from {table}").to_pylist()[0]
        assert row["n"] == row["ids"], table
        found[table] = row["n"]
    return found


def test_old_runs_move_to_the_object_store_and_every_query_reads_both(store, tmp_path, monkeypatch):
    url, options, _ = store
    for name in ("access_key_id", "secret_access_key", "region", "endpoint"):
        monkeypatch.setenv(f"AWS_{name.upper()}", options[f"aws_{name}"])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with filled(tmp_path / "lake") as lake:
        whole, old = counted(lake), lake.trajectories(run_id="run-0")[0]
        walk, found = lake.walk(old), {node.id for _, node in lake.search("reply", limit=50)}
        blob = asyncio.run(lake.put_blob(b"picture", "image/png"))
        planned = move(lake, url, 5 * DAY, dry=True)
        assert lake.tables.count("nodes") == 0 and planned.rows["nodes"] == 12  # nothing was even compacted
        moved = move(lake, url, 5 * DAY)
        assert (moved.runs, moved.rows["nodes"]) == (planned.runs, 12) and len(moved.runs) == 2
        assert lake.tables.count("nodes") == 6
        assert move(lake, "", 5 * DAY).rows["nodes"] == 0  # its place is remembered, and there is no more to do
        with pytest.raises(UsageError, match="its cold tier is s3://"):
            move(lake, str(tmp_path / "other"), DAY)
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert counted(lake) == {**whole}
        assert lake.walk(lake.trajectory(old.id)) == walk and len(lake.tree(old.tree_id)) == 6
        assert {node.id for _, node in lake.search("reply", limit=50)} == found
        assert len(lake.nodes(limit=9)) == 9 and lake.nodes(run_id=old.run_id) and lake.task(old) is not None
        assert lake.get_blob(blob) == b"picture"
        assert [finding.message for finding in lake.doctor() if not finding.harmless] == []


def vectors(texts: list[str]) -> list[list[float]]:
    return [[float(text.count(letter)) + 0.01 for letter in "0123456789ry"] for text in texts]


def test_vectors_move_with_their_nodes_and_the_nearest_are_found_in_both_tiers(tmp_path):
    with filled(tmp_path / "lake") as lake:
        lake.embed(vectors)
        wanted = vectors([lake.nodes(run_id="run-0")[2].message.text])[0]
        before = [(round(score, 5), node.id) for score, node in lake.nearest(wanted, 18)]
        assert len(before) == 18
        for old in (9 * DAY, 5 * DAY):
            assert move(lake, str(tmp_path / "cold"), old).rows["nodes"] in (12, 0)
            found = [(round(score, 5), node.id) for score, node in lake.nearest(wanted, 18)]
            assert sorted(found) == sorted(before) and [score for score, _ in found] == [score for score, _ in before]
        assert lake.tables.count("embeddings") == 6 and lake.embed(vectors) == 0
        retain(lake, 5 * DAY, where="id = 'run-0'")
        left = {node.id for _, node in lake.nearest(wanted, 18)}
        assert len(left) == 12 and left == {node.id for node in lake.nodes()}


MOVER = """
import sys
from silva.lake import Lake
from silva.lake.moving import move

with Lake.open(sys.argv[1]) as lake:
    print("begun", flush=True)
    move(lake, sys.argv[2], 86400.0)
"""


@pytest.mark.slow
def test_kill_in_the_midst_of_a_move_loses_and_doubles_nothing(tmp_path):
    with filled(tmp_path / "lake", count=60, turns=20) as lake:
        whole = counted(lake)
    chance = random.Random(7)
    for _ in range(8):
        command = [sys.executable, "-c", MOVER, str(tmp_path / "lake"), str(tmp_path / "cold")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mover:
            assert mover.stdout and mover.stdout.readline()
            time.sleep(chance.uniform(0.0, 1.2))
            mover.kill()
        with Lake.open(tmp_path / "lake", "read") as lake:
            assert counted(lake) == whole
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert counted(lake) == whole and lake.tables.count("trajectories") == 1
        assert all(len(lake.walk(each)) == 20 for each in lake.trajectories(limit=5))


def test_retention_lets_go_of_what_the_rule_says_in_both_tiers_and_of_nothing_else(tmp_path):
    with filled(tmp_path / "lake") as lake:
        first = "run-0"
        move(lake, str(tmp_path / "cold"), 5 * DAY)
        planned = retain(lake, 5 * DAY, where=f"id = '{first}'", dry=True)
        assert (planned.runs, planned.rows["nodes"]) == ((first,), 6) and lake.run(first) is not None
        assert retain(lake, 5 * DAY, where=f"id = '{first}'").rows == {**planned.rows, "runs": 2}
        assert lake.run(first) is None and not lake.nodes(run_id=first) and len(lake.runs()) == 2
        assert retain(lake, 30 * DAY).runs == ()


def test_raw_arrivals_go_once_they_are_made_and_a_late_span_then_changes_nothing(tmp_path):
    def arrival(trace: str, number: int, at: float) -> Arrival:
        return Arrival(id=f"{trace}{number}", kind="span", form="otlp-json", trace=trace, run="r", at=at, data=b"{}")

    made = [arrival("a", number, 100.0) for number in range(3)]
    result = assemble(Session(key="a", arrivals=tuple(made), at=200.0))
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync([*made, arrival("b", 0, 100.0)])
        asyncio.run(submitted(lake, result.records))
        gone = retain(lake, DAY, arrivals=True)
        assert gone.rows == {"arrivals": 3}  # those of trace b were made into nothing yet
        assert sorted(each.trace for each in lake.arrivals()) == ["", "b"]
        note = next(each for each in lake.arrivals() if each.kind == "assembled")
    late = assemble(Session(key="a", arrivals=(arrival("a", 9, 300.0),), before=(note,), at=400.0))
    assert late.records == () and "was let go" in late.troubles[0]


async def submitted(lake: Lake, records: tuple[bytes, ...]) -> None:
    await lake.submit_encoded(records)
