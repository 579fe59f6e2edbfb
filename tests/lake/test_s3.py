"""The same lake on an object store, against a real S3 server on loopback."""

from __future__ import annotations

import json
import time

import pytest
from lake_records import episode, task

from silva.errors import StoreError
from silva.lake import Lake


async def test_the_same_code_works_on_s3(store):
    url, options, client = store
    async with Lake.open(url, storage_options=options) as lake:
        nodes, trajectory = episode(1)
        await lake.append([task(1), *nodes, trajectory])
        blob = await lake.put_blob(b"picture", "image/png")
        with Lake.open(url, "read", storage_options=options) as near:  # same machine: sees the spool too
            assert near.walk(near.trajectory(trajectory.id)) == tuple(nodes)
        lake.compact()
        lake.optimize()
        lake.tag("v1")
        await lake.append(episode(2)[0])
        with pytest.raises(StoreError, match="being written by pid"):
            Lake.open(url, storage_options=options)
    with Lake.open(url, "read", storage_options=options) as lake:
        assert len(lake.nodes()) == 12 and lake.get_blob(blob) == b"picture"
        assert lake.sql("select count(*) n from nodes").to_pylist() == [{"n": 12}]
        assert lake.search("reply") and lake.doctor() == []
    assert len(Lake.open(url, "read", storage_options=options, version="v1").nodes()) == 6
    with Lake.open(url, storage_options=options) as lake:  # the lease was given back
        assert lake.stats().rows["nodes"] == 12
    keys = client.list_objects_v2(Bucket="forest", Prefix=url.removeprefix("s3://forest/"))["Contents"]
    names = {item["Key"].split("/")[2] for item in keys}
    assert names == {"lake.json", "tables", "blobs", "tags", "writers", "writer.json", "tables.json"}


def test_the_next_writer_on_the_machine_picks_up_what_a_dead_one_left(store):
    url, options, _ = store
    lake = Lake.open(url, storage_options=options)
    lake.append_sync(episode(1)[0])
    lake._hold.release()  # pyright: ignore  # what a death does to the lock and, after its time, to the lease
    with Lake.open(url, storage_options=options) as second:
        assert len(second.nodes()) == 6
    assert len(Lake.open(url, "read", storage_options=options).nodes()) == 6


def test_another_machines_lease_holds_until_it_runs_out(store):
    url, options, client = store
    with Lake.open(url, storage_options=options):
        pass
    lease = {"pid": 4242, "node": "another machine", "until": time.time() + 60}
    client.put_object(Bucket="forest", Key=f"{url.removeprefix('s3://forest/')}/writer.json", Body=json.dumps(lease))
    with pytest.raises(StoreError, match="being written by pid 4242") as caught:
        Lake.open(url, storage_options=options)
    assert "\n" not in str(caught.value)
    lease["until"] = time.time() - 1
    client.put_object(Bucket="forest", Key=f"{url.removeprefix('s3://forest/')}/writer.json", Body=json.dumps(lease))
    with Lake.open(url, storage_options=options) as lake:
        lake.append_sync([task(1)])


def test_a_writer_whose_lease_was_taken_commits_nothing_more(store):
    url, options, client = store
    lake = Lake.open(url, storage_options=options)
    lake.append_sync(episode(1)[0])
    taken = {"pid": 4242, "node": "another machine", "until": time.time() + 60}
    client.put_object(Bucket="forest", Key=f"{url.removeprefix('s3://forest/')}/writer.json", Body=json.dumps(taken))
    with pytest.raises(StoreError, match="took the lease over"):
        lake.compact()
    with pytest.raises(StoreError, match="took the lease over"):
        lake.close_sync()
    assert (
        json.loads(
            client.get_object(Bucket="forest", Key=f"{url.removeprefix('s3://forest/')}/writer.json")["Body"].read()
        )["pid"]
        == 4242
    )


def test_a_bucket_that_is_not_there_is_one_line(store):
    _, options, _ = store
    for mode, line in (("read", "is not a lake"), ("write", "object store refuses")):
        with pytest.raises(StoreError, match=line) as caught:
            Lake.open("s3://no-such-bucket/lake", mode, storage_options=options)
        assert "\n" not in str(caught.value) and "secret" not in str(caught.value)
