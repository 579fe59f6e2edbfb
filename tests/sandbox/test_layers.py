"""Layers: merged ones read as the stack they were made of; digests see every change."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.sandbox.contents import Contents
from silva.sandbox.layer_digest import Compared, digest_of
from silva.sandbox.layers import PLACES, Layer, Layers
from silva.sandbox.limits import Limits, size
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec

NAMES = st.sampled_from(["a", "b", "c"])
CHANGES = st.lists(st.tuples(st.sampled_from(["write", "remove", "folder"]), NAMES, NAMES), max_size=6)


def changed(top: Path, changes: list[tuple[str, str, str]], below: dict[str, object]) -> None:
    """What an overlay's upper folder looks like after these changes above `below`: a model of the kernel's."""
    for kind, first, second in changes:
        path = top / first
        if kind == "write":
            if path.is_dir():
                continue
            path.unlink(missing_ok=True)
            path.write_text(second)
        elif kind == "remove":
            if path.is_dir():
                for each in path.iterdir():
                    each.unlink()
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
            if first in below:
                os.mknod(path, stat.S_IFCHR, 0)
        elif not path.is_dir():
            hidden = path.exists() or first in below
            path.unlink(missing_ok=True)
            path.mkdir()
            if hidden:
                os.setxattr(path, "user.overlay.opaque", b"y")
            (path / second).write_text(first)


def read(layers: list[Path]) -> dict[str, object]:
    """What a stack of layers, oldest first, shows."""
    shown: dict[str, object] = {}
    for layer in layers:
        for entry in os.scandir(layer):
            about = entry.stat(follow_symlinks=False)
            if stat.S_ISCHR(about.st_mode):
                shown.pop(entry.name, None)
            elif entry.is_dir(follow_symlinks=False):
                try:
                    opaque = os.getxattr(entry.path, "user.overlay.opaque") == b"y"
                except OSError:
                    opaque = False
                old = shown.get(entry.name)
                base = dict(old) if isinstance(old, dict) and not opaque else {}
                shown[entry.name] = base | read([Path(entry.path)])
            else:
                shown[entry.name] = Path(entry.path).read_text()
    return shown


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(stack=st.lists(CHANGES, min_size=1, max_size=4))
def test_merged_layers_show_what_the_stack_showed(
    tmp_path_factory: pytest.TempPathFactory, stack: list[list[tuple[str, str, str]]]
) -> None:
    store = Layers(tmp_path_factory.mktemp("store"))
    layers = []
    for number, changes in enumerate(stack):
        for place in PLACES:
            (store.stack / f"l{number}" / place).mkdir(parents=True)
        below = read([store.stack / f"l{each}" / "workspace" for each in range(number)])
        changed(store.stack / f"l{number}" / "workspace", changes, below)
        layers.append(Layer(name=f"l{number}", digest=""))
    (merged,) = store._merged(tuple(layers))
    alone = read([store.stack / merged.name / "workspace"])
    assert alone == read([store.stack / layer.name / "workspace" for layer in layers])


def test_digests_see_every_change(tmp_path: Path) -> None:
    seen = {digest_of(tmp_path)[0]}
    (tmp_path / "d").mkdir()
    steps = [
        lambda: (tmp_path / "d" / "a").write_text("one"),
        lambda: (tmp_path / "d" / "a").write_text("two"),
        lambda: (tmp_path / "d" / "a").chmod(0o600),
        lambda: (tmp_path / "d" / "a").rename(tmp_path / "d" / "b"),
        lambda: (tmp_path / "l").symlink_to("x"),
        lambda: os.mknod(tmp_path / "w", stat.S_IFCHR, 0),
        lambda: os.setxattr(tmp_path / "d", "user.overlay.opaque", b"y"),
        lambda: os.setxattr(tmp_path / "d" / "b", "user.note", b"one"),
        lambda: os.setxattr(tmp_path / "d" / "b", "user.note", b"two"),
        lambda: (tmp_path / "c").write_text("two"),
        lambda: ((tmp_path / "c").unlink(), os.link(tmp_path / "d" / "b", tmp_path / "c")),
        lambda: os.truncate(tmp_path / "c", 1 << 30),
        lambda: os.truncate(tmp_path / "c", (1 << 30) + 1),
        *([lambda: os.chown(tmp_path / "c", 1234, 1234)] if os.geteuid() == 0 else []),
    ]
    for number, step in enumerate(steps):
        step()
        found = digest_of(tmp_path)[0]
        assert found not in seen, number
        assert digest_of(tmp_path)[0] == found
        seen.add(found)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(files=st.dictionaries(st.sampled_from(["a", "b", "d/a", "d/e/f"]), st.binary(max_size=50), max_size=4))
def test_contents_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("contents")
    source = folder / "source"
    source.mkdir()
    store = Contents(folder / "store")
    for name, data in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    first, second = store.keep(source, "one"), store.keep(source, "two")
    store.bring_back(first.id, folder / "back")
    assert digest_of(folder / "back") == digest_of(source)
    assert len(list(store.folder.glob("objects/*/*"))) == len(set(files.values()))
    store.forget(first.id)
    store.bring_back(second.id, folder / "again")
    store.forget(second.id)
    assert list(store.folder.glob("objects/*/*")) == [] and store.list() == []


@pytest.mark.slow
async def test_deep_stacks_are_merged_and_still_right(backend: Namespaces) -> None:
    sandbox = await backend.create(Spec(limits=Limits()))
    ids = []
    for number in range(30):
        await sandbox.exec(f"echo {number} > f{number % 7}; rm -rf d{number - 1}; mkdir d{number}; touch d{number}/x")
        ids.append(await sandbox.checkpoint(str(number)))
    deepest = max(len(snapshot.layers) for snapshot in backend.snapshots.list())
    assert deepest <= 24
    for number in (3, 23, 24, 29):
        (branch,) = await sandbox.fork(ids[number])
        assert (await branch.exec("cat f*; ls -d d*")).text.split()[-1] == f"d{number}"
        assert (await branch.exec(f"cat f{number % 7}")).text == f"{number}\n"
        await branch.destroy()


@pytest.mark.slow
async def test_the_workspaces_own_mode_is_kept(backend: Namespaces) -> None:
    sandbox = await backend.create(Spec())
    await sandbox.exec("chmod 700 /workspace; chmod 710 /home/agent")
    kept = await sandbox.checkpoint()
    (branch,) = await sandbox.fork(kept)
    for each in (sandbox, branch):
        assert (await each.exec("stat -c %a /workspace /home/agent")).text.split() == ["700", "710"]


def test_what_was_compared_is_read_again_only_where_it_was_touched(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / "file"
    file.write_bytes(b"kept")
    digest, compared = digest_of(tmp_path)[0], Compared()
    assert compared.same(tmp_path, digest) and compared.same(tmp_path, digest)
    before = file.stat()
    time.sleep(0.02)  # the kernel's times are coarse
    file.write_bytes(b"lost")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not compared.same(tmp_path, digest) and not compared.same(tmp_path, digest)
    file.write_bytes(b"kept")
    assert compared.same(tmp_path, digest)
    time.sleep(0.02)
    (tmp_path / "folder" / "more").touch()
    assert not compared.same(tmp_path, digest)


def test_sizes() -> None:
    assert [size(text) for text in ("5", "1k", "1.5M", "2GiB", " 3 gb ")] == [5, 1024, 3 << 19, 2 << 30, 3 << 30]
