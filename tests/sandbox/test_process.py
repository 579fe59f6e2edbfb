"""The backend that isolates nothing keeps what it promises all the same; and backends that are not here say so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silva.errors import MissingError, StoreError, UsageError
from silva.sandbox import open_backend
from silva.sandbox.capabilities import Isolation
from silva.sandbox.process import Processes, labelled
from silva.sandbox.protocol import Spec
from silva.sandbox.result import Killed
from silva.sandbox.system import bubblewrap


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with await Processes.open(state=tmp_path / "state") as opened:
        yield opened
    assert list((tmp_path / "state").iterdir()) == []


async def test_commands_files_and_going_back(processes: Processes, tmp_path: Path) -> None:
    assert processes.capabilities().isolation is Isolation.NONE
    sandbox = await processes.create()
    await sandbox.put(b"one", "a/b")
    done = await sandbox.exec("cat a/b; cat; echo $HOME >&2", stdin=b" two")
    assert done.text == "one two" and b"/rest/home" in done.stderr
    kept = await sandbox.checkpoint()
    await sandbox.exec("rm -r a; ln -s /etc/passwd link; mkdir -m 500 c")
    later = await sandbox.checkpoint()
    await sandbox.restore(kept)
    assert await sandbox.get("/workspace/a/b") == b"one"
    (branch,) = await sandbox.fork(later)
    assert (await branch.exec("ls; readlink link; stat -c %a c")).text == "c\nlink\n/etc/passwd\n500\n"
    with pytest.raises(StoreError, match="no checkpoint"):
        await sandbox.fork("../../etc")
    with pytest.raises(UsageError, match="is no place of this sandbox"):
        await sandbox.put(b"x", "/etc/evil")


@pytest.mark.slow
async def test_what_it_started_ends_with_it(processes: Processes) -> None:
    sandbox = await processes.create()
    late = await sandbox.exec("setsid sleep 99 & sleep 99", seconds=0.2)
    assert late.killed is Killed.TIME and labelled(sandbox.id) == set()
    await sandbox.exec("(setsid sleep 98 &); echo")
    assert len(labelled(sandbox.id)) == 1
    await sandbox.destroy()
    assert labelled(sandbox.id) == set()


async def test_it_takes_no_promise_it_cannot_keep(processes: Processes, tmp_path: Path) -> None:
    for spec in (Spec(network=("pypi.org",)), Spec(mounts={tmp_path: "/opt/x"})):
        with pytest.raises(UsageError, match="without isolation"):
            await processes.create(spec)


@pytest.mark.slow
async def test_a_damaged_content_is_refused_and_the_files_stay(processes: Processes) -> None:
    sandbox = await processes.create()
    await sandbox.put(b"one", "a")
    kept = await sandbox.checkpoint()
    await sandbox.put(b"two", "a")
    for path in processes.snapshots.folder.glob("objects/*/*"):
        path.write_bytes(b"0ne")
    with pytest.raises(StoreError, match="not what was kept"):
        await sandbox.restore(kept)
    assert await sandbox.get("a") == b"two"


async def test_backends_that_are_not_here_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="need podman or docker: install it"):
        await open_backend("container", state=tmp_path)
    monkeypatch.setenv("SILVA_CONTAINER_ENGINE", "sh")
    with pytest.raises(UsageError, match="'sh': it can be podman or docker"):
        await open_backend("container", state=tmp_path)
    with pytest.raises(MissingError, match="apt-get install bubblewrap"):
        bubblewrap()
    with pytest.raises(UsageError, match="'jail' is not known; possible are namespaces, container, process"):
        await open_backend("jail")
