"""Checkpoints that nobody refers to go; those in use, in the making, or young do not, whichever process they are of."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from silva.cli.sandbox import app
from silva.errors import StoreError, UsageError
from silva.lake import Lake
from silva.sandbox.contents import Contents
from silva.sandbox.garbage import collect
from silva.sandbox.layers import PLACES, Layers, Snapshot
from silva.tree import Author, Node, user

WRITER = Path(__file__).with_name("checkpoint_writer.py")


def kept(store: Layers | Contents, text: str, below: tuple = ()) -> Snapshot:
    """A checkpoint of one file."""
    top = store.folder.parent / f"top-{time.monotonic_ns()}"
    for place in PLACES:
        (top / place).mkdir(parents=True)
    (top / "workspace" / "file").write_text(text)
    return store.adopt(top, text, below, "", copy=False) if isinstance(store, Layers) else store.keep(top, text)


@pytest.mark.parametrize("kind", [Layers, Contents])
def test_what_nothing_refers_to_goes_and_what_a_kept_one_needs_stays(kind: type, tmp_path: Path) -> None:
    store = kind(tmp_path / "k")
    first = kept(store, "shared")
    second = kept(store, "shared", first.layers)
    third = kept(store, "alone")
    dry = collect(store.folder, {second.id}, grace=0, dry=True)
    assert [each.id for each in store.list()] == [first.id, second.id, third.id]
    assert collect(store.folder, {second.id}, grace=0) == dry
    assert dry.checkpoints == 2 and dry.bytes > 0 and dry.layers + dry.contents == 1
    assert [each.id for each in store.list()] == [second.id]
    store.find(second.id)
    with pytest.raises(StoreError, match="there is no checkpoint"):
        store.find(third.id)
    left = {path.name for path in store.folder.iterdir()}
    assert left <= {f"{second.id}.json", f"{second.id}.list", "layers", "objects", ".lock", "uses"}


def test_what_is_young_stays_and_is_counted(tmp_path: Path) -> None:
    store = Layers(tmp_path / "k")
    kept(store, "a run may be about to name me")
    (store.stack / "being-made").mkdir()
    found = collect(store.folder, (), grace=60)
    assert (found.checkpoints, found.layers, found.young) == (0, 0, 1)
    assert len(store.list()) == 1 and (store.stack / "being-made").is_dir()
    assert collect(store.folder, (), grace=0).layers == 2


def test_both_kinds_in_one_folder_know_their_own(tmp_path: Path) -> None:
    layers, contents = Layers(tmp_path / "k"), Contents(tmp_path / "k")
    one, two = kept(layers, "one"), kept(contents, "two")
    layers.forget("f" * 16)
    contents.forget("f" * 16)
    layers.find(one.id)
    contents.find(two.id)
    found = collect(tmp_path / "k", {one.id}, grace=0)
    assert (found.checkpoints, found.layers, found.contents) == (1, 0, 1)
    layers.find(one.id)


def test_layers_that_a_sandbox_of_another_process_rests_on_stay(tmp_path: Path) -> None:
    store = Layers(tmp_path / "k")
    snapshot = kept(store, "in use")
    (layer,) = snapshot.layers
    program = (
        "import sys; from pathlib import Path; from silva.sandbox.layers import Layers\n"
        "store = Layers(Path(sys.argv[1])); snapshot = store.find(sys.argv[2])\n"
        "with store.sharing.adding(): store.rest(snapshot.layers, None)\n"
        "print('resting', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(store.folder), snapshot.id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "resting\n"
            assert collect(store.folder, (), grace=0).checkpoints == 1
            store.forget(snapshot.id)
            assert (store.stack / layer.name / "workspace" / "file").read_text() == "in use"
        finally:
            other.kill()  # it has no time to say that it rests on nothing any more
    assert collect(store.folder, (), grace=0).layers == 1
    assert list(store.stack.iterdir()) == [] and list((store.folder / "uses").iterdir()) == []


def test_a_layer_that_went_meanwhile_is_a_clear_line(tmp_path: Path) -> None:
    store = Layers(tmp_path / "k")
    snapshot = store.find(kept(store, "gone").id)
    collect(store.folder, (), grace=0)
    with store.sharing.adding(), pytest.raises(StoreError, match="another process removed its checkpoint"):
        store.rest(snapshot.layers, None)


@pytest.mark.parametrize("kind", ["layers", "contents"])
def test_nothing_is_removed_while_a_checkpoint_is_being_made(kind: str, tmp_path: Path) -> None:
    store = Layers(tmp_path / "k") if kind == "layers" else Contents(tmp_path / "k")
    kept(store, "first")
    removing = Thread(target=collect, args=(store.folder, ()), kwargs={"grace": 0})
    with store.sharing.adding():  # what `adopt` and `keep` hold for as long as they take
        removing.start()
        removing.join(0.3)
        assert removing.is_alive() and len(store.list()) == 1
    removing.join(60)
    assert store.list() == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["layers", "contents"])
def test_one_process_forgets_while_another_keeps_and_every_kept_one_is_whole(kind: str, tmp_path: Path) -> None:
    store = Layers(tmp_path / "k") if kind == "layers" else Contents(tmp_path / "k")
    with subprocess.Popen(
        [sys.executable, str(WRITER), kind, str(store.folder), "150"], stdout=subprocess.PIPE, text=True
    ) as writer:
        while writer.poll() is None:
            store.forget("f" * 16)  # nobody's: but what no checkpoint names goes with it
        assert writer.stdout is not None
        ids = writer.stdout.read().split()
    assert len(ids) == 150 and writer.returncode == 0
    for number, id in enumerate(ids):
        store.find(id)
        if isinstance(store, Contents):
            store.bring_back(id, tmp_path / f"back-{number}")


@pytest.mark.slow
def test_the_command_asks_the_lakes_and_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SILVA_SANDBOXES", str(tmp_path / "state"))
    store = Layers(tmp_path / "home" / "snapshots" / "terminal")
    named, other = kept(store, "named"), kept(store, "not named")
    lake = str(tmp_path / "lake")
    node = Node(
        id="n", run_id="r", tree_id="t", parent_id=None, depth=0, author=Author.ENVIRONMENT, message=user("go"),
        snapshot_id=named.id,
    )  # fmt: skip
    with Lake.open(lake) as opened:
        opened.append_sync([node])

    def silva(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["gc", *words], standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.return_value, done.stdout

    assert "1 more are younger than 24h" in silva("--lake", lake)[1]
    code, said = silva("--lake", lake, "--older", "0s", "--dry-run")
    assert code == 0 and "snapshots/terminal: 1 checkpoints, 1 layers, 0 contents would be removed" in said
    store.find(other.id)
    told = json.loads(silva("--lake", lake, "--older", "0s", "--json")[1])
    assert [of["checkpoints"] for of in told["snapshots"].values()] == [1]
    assert [each.id for each in store.list()] == [named.id]
    with pytest.raises(UsageError, match="which lakes refer"):
        silva("--snapshots", str(store.folder))
    with pytest.raises(UsageError, match="90s, 15m, 24h or 7d"):
        silva("--lake", lake, "--older", "soon")
    with pytest.raises(UsageError, match="holds no checkpoints"):
        silva("--lake", lake, "--snapshots", str(tmp_path))
