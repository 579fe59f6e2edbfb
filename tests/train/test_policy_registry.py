"""The registry of policy versions: what was acknowledged is there, whoever else writes and whoever is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from policy_folders import adapter, base

from silva.errors import StoreError, UsageError
from silva.lake import Lake
from silva.train.registry import Data, Registry
from silva.train.registry.materialise import base_of, materialise

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return base(tmp_path / "small")


@pytest.fixture
def registry(tmp_path: Path, small: Path) -> Registry:
    opened = Registry.open(tmp_path / "lake", make=True)
    opened.begin("tools", small, by="ann")
    return opened


def test_versions_are_registered_promoted_and_rolled_back_and_another_reader_sees_it_all(
    registry: Registry, tmp_path: Path
) -> None:
    data = Data(runs=("night",), filters=("score >= 0.5",), samples=("ab" * 32,))
    first = registry.register("tools", adapter(tmp_path / "a"), data=data, metrics={"success": 0.4}, by="trainer")
    assert (first.name, first.parent, first.kind) == ("tools-1", "tools-0", "adapter")
    registry.promote("tools-1", by="ann", note="better by 0.2", over="tools-0")
    second = registry.register("tools", adapter(tmp_path / "b", seed=2))
    assert second.parent == "tools-1"
    registry.promote("tools-2")
    registry.promote("tools-2")  # again: nothing happens
    registry.rollback("tools-2", by="bob", note="worse on dev")
    line, head = Registry.open(tmp_path / "lake").find("tools")
    assert head == first and first.data == data
    assert line.statuses == ["promoted", "promoted", "rolled back"]
    told = [(event.what, event.number, event.by) for event in line.events]
    assert told[2:] == [("promoted", 1, "ann"), ("registered", 2, ""), ("promoted", 2, ""), ("rolled back", 1, "bob")]
    with pytest.raises(UsageError, match="head of line tools is tools-1, not tools-2"):
        registry.rollback("tools-2")
    registry.reject("tools-2", note="it says nothing")
    for refused in (registry.promote, lambda name: registry.rollback("tools", to=name)):
        with pytest.raises(UsageError, match="was rejected"):
            refused("tools-2")
    with pytest.raises(UsageError, match="is the head: roll it back first"):
        registry.reject("tools-1")


def test_a_promotion_that_compared_with_an_older_head_is_refused(registry: Registry, tmp_path: Path) -> None:
    for number in (1, 2):
        registry.register("tools", adapter(tmp_path / str(number), seed=number))
    registry.promote("tools-1", over="tools-0")
    with pytest.raises(UsageError, match="compared to tools-0, but the head is tools-1 by now"):
        registry.promote("tools-2", over="tools-0")
    assert registry.line("tools").head == 1


def test_a_key_given_again_is_the_same_version_and_never_other_weights(registry: Registry, tmp_path: Path) -> None:
    one = registry.register("tools", adapter(tmp_path / "a"), key="round-1")
    shutil.rmtree(tmp_path / "a")
    folder = adapter(tmp_path / "a", target_modules=["q_proj", "up_proj"])  # peft's order is another every time
    assert registry.register("tools", folder, key="round-1") == one
    with pytest.raises(UsageError, match=r"key 'round-1' named other weights \(tools-1\)"):
        registry.register("tools", adapter(tmp_path / "b", seed=9), key="round-1")
    assert len(registry.line("tools").versions) == 2


def test_an_adapter_is_materialised_as_it_was_and_damage_is_mended_or_named(registry: Registry, tmp_path: Path) -> None:
    version = registry.register("tools", adapter(tmp_path / "a"))
    folder = materialise(registry, version, tmp_path / "served")
    assert folder.name == "tools-1"
    assert {file.name for file in folder.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    weights = folder / "adapter_model.safetensors"
    whole = (tmp_path / "a" / weights.name).read_bytes()
    assert weights.read_bytes() == whole
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == "small"
    weights.write_bytes(whole[:-1] + b"?")
    assert materialise(registry, version, tmp_path / "served") == folder and weights.read_bytes() == whole
    blob = next(file.blob for file in version.files if file.name == weights.name)
    (tmp_path / "lake" / "blobs" / blob[:2] / blob).write_bytes(b"other")
    with pytest.raises(StoreError, match=f"blob {blob} is damaged"):
        materialise(registry, version, tmp_path / "elsewhere")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"base_model_name_or_path": "../other"}, r"trained on other \([0-9a-f]{12}\), the line grows from small@"),
        ({"base_model_name_or_path": "org/Large-7B"}, "trained on Large-7B, this line grows from small@"),
        ({"rank": 3, "r": 4}, r"lora_A.weight has shape \[3, 8\], the base small@\w+ needs \[4, 8\]"),
        ({"use_dora": True}, "it uses use_dora"),
        ({"peft_type": "IA3"}, "of type IA3"),
        ({"value": float("nan")}, "values that are not finite numbers"),
    ],
)
def test_an_adapter_of_another_base_is_refused_by_name(
    registry: Registry, tmp_path: Path, changes: dict, said: str
) -> None:
    base(tmp_path / "other", seed=7)
    with pytest.raises(UsageError, match=said):
        registry.register("tools", adapter(tmp_path / "a", **changes))
    assert len(registry.line("tools").versions) == 1


def test_a_line_keeps_its_base_and_knows_it_again(registry: Registry, tmp_path: Path, small: Path) -> None:
    other = base(tmp_path / "other", seed=7)
    with pytest.raises(UsageError, match=r"line tools grows from small@.*, not from other@"):
        registry.begin("tools", other)
    first = registry.begin("tools", small)
    with pytest.raises(UsageError, match="give --base FOLDER"):
        base_of(registry, first)
    with pytest.raises(UsageError, match="other holds other weights"):
        base_of(registry, first, str(other))
    assert base_of(registry, first, str(small)).path == small


def test_whole_weights_are_versions_where_their_shapes_are_the_base_s(registry: Registry, tmp_path: Path) -> None:
    kept = registry.begin("tiny", base(tmp_path / "tiny"), keep=True)
    assert base_of(registry, kept).digest() == kept.base.digest
    version = registry.register("tiny", base(tmp_path / "trained", seed=3))
    assert version.kind == "full" and {file.name for file in version.files} == {
        *("config.json", "tokenizer.json", "model.safetensors")
    }
    with pytest.raises(UsageError, match=r"has shape \[8, 9\], the base tiny@\w+ needs \[8, 8\]"):
        registry.register("tiny", base(tmp_path / "wider", width=9))


def test_versions_are_registered_while_another_writes_the_lake_and_the_doctor_knows_their_blobs(
    registry: Registry, tmp_path: Path
) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        version = registry.register("tools", adapter(tmp_path / "a"))
        assert lake.get_blob(version.files[0].blob) == registry.contents(version.files[0])
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert lake.doctor() == []
        blob = version.files[0].blob
        (tmp_path / "lake" / "blobs" / blob[:2] / blob).unlink()
        assert [(finding.kind, finding.where) for finding in lake.doctor()] == [("blob", f"blobs/{blob}")]


@pytest.mark.parametrize("damage", ["empty", "gone", "newer"])
def test_a_damaged_ledger_is_one_line_that_names_the_file(registry: Registry, tmp_path: Path, damage: str) -> None:
    registry.register("tools", adapter(tmp_path / "a"))
    file = tmp_path / "lake" / "ledgers" / "policies" / "tools" / "0000000001.json"
    if damage == "empty":
        file.write_bytes(b"")
    elif damage == "gone":
        file.unlink()
    else:
        entry = json.loads(file.read_text())
        entry["data"]["what"] = "blessed"
        file.write_text(json.dumps(entry))
    with pytest.raises(StoreError, match=r"0000000001.json is|event 1 of policy line tools cannot be read"):
        Registry.open(tmp_path / "lake").line("tools")
    with Lake.open(tmp_path / "lake") as lake:
        assert (damage == "newer") or next(finding.kind for finding in lake.doctor()) == "ledger"


def work(lake: Path, folders: list[Path], said: Connection, promoting: bool) -> None:
    """A process that registers the folders, again and again if it is to be killed, and says what was acknowledged."""
    registry = Registry.open(lake)
    for folder in folders:
        version = registry.register("tools", folder, by=str(os.getpid()))
        if promoting:
            registry.promote(version.name, by=str(os.getpid()))
        said.send((version.name, str(os.getpid())))
    said.close()


def started(lake: Path, folders: list[Path], promoting: bool) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    ours, theirs = FORK.Pipe(duplex=False)
    process = FORK.Process(target=work, args=(lake, folders, theirs, promoting))
    process.start()
    theirs.close()
    return process, ours


def heard(said: Connection) -> list[tuple[str, str]]:
    found = []
    while True:
        try:
            found.append(said.recv())
        except (EOFError, OSError):
            return found


def test_two_processes_on_one_registry_lose_nothing_and_number_without_a_gap(
    registry: Registry, tmp_path: Path
) -> None:
    folders = [adapter(tmp_path / str(number), seed=number) for number in range(15)]
    workers = [started(tmp_path / "lake", folders, True) for _ in range(2)]
    acknowledged = [each for _, said in workers for each in heard(said)]
    for process, _ in workers:
        process.join(30)
        assert process.exitcode == 0
    line = registry.line("tools")
    assert len(line.versions) == 31 and len(acknowledged) == len(set(acknowledged)) == 30
    assert {(version.name, version.by) for version in line.versions[1:]} == set(acknowledged)
    promoted = [event for event in line.events if event.what == "promoted"]
    assert len(promoted) == 30 and line.head == promoted[-1].number
    heads = [0, *(event.number for event in promoted)]
    assert [event.before for event in promoted] == heads[:-1], "each promotion knew the head it took the place of"


def test_a_writer_killed_at_any_moment_leaves_a_registry_that_reads_with_all_it_acknowledged(
    registry: Registry, tmp_path: Path
) -> None:
    folders = [adapter(tmp_path / str(number), seed=number) for number in range(10)] * 100
    draw = random.Random(5)
    acknowledged: set[tuple[str, str]] = set()
    for _ in range(12):
        process, said = started(tmp_path / "lake", folders, promoting=True)
        assert said.poll(20), "it began"
        time.sleep(draw.uniform(0, 0.05))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        acknowledged |= set(heard(said))
        process.join(10)
        line = Registry.open(tmp_path / "lake").line("tools")
        assert acknowledged <= {(version.name, version.by) for version in line.versions}
    assert len(acknowledged) >= 12
    line = registry.line("tools")
    for number, version in enumerate(line.versions[1:], 1):
        assert version.number == number
        for file in version.files:
            assert len(registry.contents(file)) == file.size
    with Lake.open(tmp_path / "lake") as lake:
        assert {finding.kind for finding in lake.doctor(repair=True)} <= {"unlisted"}


@pytest.mark.slow
def test_the_same_registry_on_an_object_store_lets_one_of_two_writers_decide_again(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boto3 = pytest.importorskip("boto3")
    server_module = pytest.importorskip("moto.server")
    pytest.importorskip("obstore")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        endpoint = f"http://{host}:{port}"
        boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys).create_bucket(Bucket="forest")
        options = {**keys, "aws_region": "us-east-1", "aws_endpoint": endpoint, "allow_http": "true"}
        options["aws_virtual_hosted_style_request"] = "false"
        one, two = (Registry.open("s3://forest/lake", make=True, storage_options=options) for _ in range(2))
        one.begin("tools", small)
        two.begin("tools-more", small)
        assert two.line("tools").begun
        ledger = two._ledgers["tools"]
        stale = ledger.entries()
        first = one.register("tools", adapter(tmp_path / "a"))
        assert not ledger.append(len(stale) + 1, b"{}"), "the number is taken"
        second = two.register("tools", adapter(tmp_path / "b", seed=2))
        assert (first.name, second.name) == ("tools-1", "tools-2")
        assert [line.name for line in one.lines()] == ["tools", "tools-more"]
        assert materialise(one, second, tmp_path / "out").name == "tools-2"
    finally:
        server.stop()
