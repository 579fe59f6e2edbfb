"""Two machines write one lake in an object store, one after the other: nothing acknowledged is lost, nobody is robbed
of a lease that it renews, and nobody acknowledges without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from lake_records import environment, episode

from silva.errors import StoreError
from silva.lake import Lake
from silva.lake.segment import segments
from silva.tree import Run

DIES = """
import json, os, sys
from lake_records import episode
from silva.lake import Lake, lease
lease.SECONDS = 1.0
lake = Lake.open(sys.argv[1], storage_options=json.loads(sys.argv[2]))
for number in map(int, sys.argv[3:]):
    nodes, trajectory = episode(number)
    lake.append_sync([*nodes, trajectory])
os._exit(9)
"""


def dies(url, options, machine, *episodes):
    """A writer on that machine acknowledges the episodes and is gone at once."""
    given = [sys.executable, "-c", DIES, url, json.dumps(options), *map(str, episodes)]
    done = subprocess.run(given, env={**environment(), "XDG_STATE_HOME": str(machine)}, timeout=120)
    assert done.returncode == 9


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Be on the machine of that name: it has a disk of its own."""

    def on(name):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))
        return tmp_path / name

    return on


@pytest.fixture
def brief(monkeypatch):
    """Leases of a second."""
    monkeypatch.setattr("silva.lake.lease.SECONDS", 1.0)


def waited(url, options):
    """The lake, open to write once whoever had it is known to be gone."""
    for _ in range(300):
        try:
            return Lake.open(url, storage_options=options)
        except StoreError as error:
            assert "being written by pid" in str(error)
            time.sleep(0.1)
    raise AssertionError("the lease never ended")


def test_what_a_dead_machine_acknowledged_is_there_whoever_wrote_meanwhile(store, machine, brief):
    url, options, _ = store
    first = machine("a")
    with Lake.open(url, storage_options=options) as lake:
        lake.append_sync(episode(0)[0])
    dies(url, options, first, 1, 2)
    machine("b")
    with waited(url, options) as lake:
        lake.append_sync([*episode(3)[0], *episode(4)[0]])
        lake.compact()
        lake.append_sync(episode(5)[0])
    with Lake.open(url, "read", storage_options=options) as lake:
        (finding,) = lake.doctor()
        assert finding.kind == "writer" and "open the lake to write there" in finding.message
        assert len(lake.nodes()) == 24
    machine("a")
    with Lake.open(url, storage_options=options):
        pass
    with Lake.open(url, "read", storage_options=options) as lake:
        assert {node.id for node in lake.nodes()} == {node.id for number in range(6) for node in episode(number)[0]}
        assert len(lake.trajectories()) == 2 and lake.doctor() == []


def test_a_living_writer_keeps_its_lease_whatever_its_pid_is_called_here(store, machine):
    url, options, client = store
    machine("a")
    with Lake.open(url, storage_options=options) as lake:
        key = f"{url.removeprefix('s3://forest/')}/writer.json"
        held = json.loads(client.get_object(Bucket="forest", Key=key)["Body"].read())
        machine("b")  # of another container: this host's name, and no such process here
        with pytest.raises(StoreError, match="being written by pid"):
            Lake.open(url, storage_options=options)
        assert held["pid"] == os.getpid() and held["writer"] == 1
        lake.append_sync(episode(1)[0])


def test_a_dead_writers_successor_on_its_machine_does_not_wait(store, machine):
    url, options, _ = store
    home = machine("a")
    dies(url, options, home, 1)
    with Lake.open(url, storage_options=options) as lake:
        assert len(lake.nodes()) == 6


def test_a_writer_that_cannot_renew_acknowledges_nothing_more(store, machine, brief):
    url, options, client = store
    machine("a")
    lake = Lake.open(url, storage_options=options)
    lake.append_sync(episode(1)[0])
    key = f"{url.removeprefix('s3://forest/')}/writer.json"
    taken = {"pid": 4242, "node": "another machine", "until": time.time() + 60}
    client.put_object(Bucket="forest", Key=key, Body=json.dumps(taken))
    time.sleep(1.0)
    with pytest.raises(StoreError, match="took the lease over"):
        lake.append_sync(episode(2)[0])
    assert "took the lease over" in str(lake.failure)
    lake.close_sync()
    client.delete_object(Bucket="forest", Key=key)
    with Lake.open(url, storage_options=options) as lake:  # what it had acknowledged before is kept
        assert len(lake.nodes()) == 6


def test_a_lease_that_lapsed_is_no_leave_to_acknowledge_though_nobody_took_it(store, machine, monkeypatch):
    url, options, _ = store
    machine("a")
    lake = Lake.open(url, storage_options=options)
    lake.append_sync(episode(1)[0])
    clock = lake._hold._lease  # pyright: ignore
    monkeypatch.setattr(clock, "_until", 0.0)  # as after a suspension of the machine
    with pytest.raises(StoreError, match="could not be renewed"):
        lake.append_sync(episode(2)[0])
    lake.close_sync()
    machine("b")
    with Lake.open(url, storage_options=options):
        pass
    assert [finding.kind for finding in Lake.open(url, "read", storage_options=options).doctor()] == ["writer"]
    machine("a")
    with Lake.open(url, storage_options=options) as lake:
        assert len(lake.nodes()) == 6
    assert Lake.open(url, "read", storage_options=options).doctor() == []


def test_segments_of_an_older_version_are_taken_up_under_a_number_of_their_own(store, machine, brief):
    url, options, _ = store
    home = machine("a")
    with Lake.open(url, storage_options=options) as lake:
        lake.append_sync(episode(0)[0])
    dies(url, options, home, 1)
    (journal,) = home.glob("silva/spool/*/journal")
    ((number, path),) = segments(journal).items()
    path.rename(journal / "0000000001.open")  # as it was called by who did not know of other machines
    with Lake.open(url, storage_options=options) as lake:
        (old, new) = segments(journal)
        assert number < old < new
        assert len(lake.nodes()) == 12
    assert len(Lake.open(url, "read", storage_options=options).nodes()) == 12


def test_what_a_dead_writer_left_does_not_replace_what_its_successor_wrote(store, machine, brief):
    url, options, _ = store
    home = machine("a")
    script = DIES.replace(
        "os._exit(9)", "from silva.tree import Run\nlake.append_sync([Run(id='r', status='running')])\nos._exit(9)"
    )
    env = {**environment(), "XDG_STATE_HOME": str(home)}
    subprocess.run([sys.executable, "-c", script, url, json.dumps(options)], env=env, timeout=120)
    machine("b")
    with waited(url, options) as lake:
        lake.append_sync([Run(id="r", status="finished")])
    machine("a")
    with Lake.open(url, storage_options=options):
        pass
    run = Lake.open(url, "read", storage_options=options).run("r")
    assert run is not None and run.status == "finished"
