"""A sandbox of namespaces: what goes in, what comes out, and going back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from silva.errors import StoreError, UsageError
from silva.sandbox.capabilities import Fidelity, Isolation
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec
from silva.sandbox.result import Killed
from silva.sandbox.spawner import SandboxGone


async def test_runs_a_command_and_tells_all_of_it(backend: Namespaces) -> None:
    async with await backend.create(Spec(variables={"TASK": "seven"})) as sandbox:
        done = await sandbox.exec("cat; echo $TASK; pwd; echo wrong >&2; exit 3", stdin=b"given\n")
        assert (done.code, done.text, done.stderr) == (3, "given\nseven\n/workspace\n", b"wrong\n")
        assert done.killed is None and not done.ok and done.first_output is not None
        missing = await sandbox.exec(["nonesuch"])
        assert missing.code == 127 and b"no such program: nonesuch" in missing.stderr
        assert (await sandbox.exec(["sh", "-c", 'printf %s "$1"', "x", "a b'c"])).stdout == b"a b'c"


@pytest.mark.slow
async def test_its_environment_is_its_own(backend: Namespaces) -> None:
    os.environ["SILVA_TEST_SECRET"] = "told-nobody"
    try:
        async with await backend.create() as sandbox:
            seen = await sandbox.exec("env; cat /proc/*/environ")
    finally:
        del os.environ["SILVA_TEST_SECRET"]
    assert "told-nobody" not in seen.text and "HOME=/home/agent" in seen.text


async def test_files_in_and_out(backend: Namespaces, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.txt").write_text("one")
    (folder / "link").symlink_to("deep/a.txt")
    async with await backend.create() as sandbox:
        await sandbox.put(folder, "got")
        await sandbox.put(b"\x00\xff", "/tmp/raw/bytes")
        assert await sandbox.get("got/link") == b"one"
        assert await sandbox.get("/tmp/raw/bytes") == b"\x00\xff"
        fetched = await sandbox.get_folder("got", tmp_path / "out")
        assert (fetched.files, fetched.left_out) == (1, ())
        assert (tmp_path / "out" / "link").readlink() == Path("deep/a.txt")
        with pytest.raises(UsageError, match="no plain file"):
            await sandbox.get("got")
        with pytest.raises(UsageError, match="larger than 1 bytes"):
            await sandbox.get("got/link", most=1)
        with pytest.raises(UsageError, match="exists already"):
            await sandbox.get_folder("got", tmp_path / "out")
        with pytest.raises(UsageError, match="cannot be written"):
            await sandbox.put(b"", "/usr/bin/evil")


@pytest.mark.slow
async def test_output_is_bounded_and_time_too(backend: Namespaces) -> None:
    async with await backend.create(Spec(limits=Limits(output=100))) as sandbox:
        done = await sandbox.exec("seq 1000000; echo end")
        assert done.truncated and done.stdout.startswith(b"1\n2\n") and done.stdout.endswith(b"end\n")
        assert done.stdout_bytes == sum(len(str(n)) + 1 for n in range(1, 1000001)) + 4
        late = await sandbox.exec("sleep 60", seconds=0.1)
        assert late.killed is Killed.TIME and late.reason == "killed: it took longer than 0.1 s" and late.seconds < 5
        assert (await sandbox.exec("echo on")).text == "on\n"


@pytest.mark.slow
async def test_a_session_keeps_its_state(backend: Namespaces) -> None:
    async with await backend.create() as sandbox:
        session = await sandbox.session()
        await session.send("stty -echo; cd /tmp; X=5; echo rea''dy\n")
        assert await session.until("ready", within=30)
        mark = session.position
        await session.send("echo [$X $PWD $(tty) $(stty size)]\n")
        assert await session.until("[5 /tmp /dev/pts/0 40 120]", since=mark, within=30)
        session.resize(10, 20)
        await session.send("stty size\n")
        assert await session.until("10 20", within=30)
        await session.send("sh -c 'echo go; sleep 100'; echo over\n")
        assert await session.until("go\r\n", within=30)
        # A dash that is just starting `sleep` loses an interrupt (it is ignored between vfork and exec).
        assert await session.until_idle(quiet=0.5, within=30)
        await session.interrupt()
        await session.send("exit 4\n")
        await asyncio.wait_for(asyncio.shield(session.child.ended), 30)
        assert session.code == 4 and not session.alive
        with pytest.raises(UsageError, match="has ended"):
            await session.send("x")
        second = await sandbox.session(["sleep", "100"])
        assert await second.kill() == -9


async def test_going_back_and_branching(backend: Namespaces) -> None:
    sandbox = await backend.create()
    await sandbox.exec("echo one > a; mkdir d; touch d/old; echo t > /tmp/t; echo h > ~/h")
    first = await sandbox.checkpoint("first")
    await sandbox.exec("echo two > a; rm -r d; mkdir d; touch d/new; rm /tmp/t")
    second = await sandbox.checkpoint("second")
    show = "cat a; ls d; cat /tmp/t ~/h 2>/dev/null"
    before, after = "one\nold\nt\nh\n", "two\nnew\nh\n"
    assert (await sandbox.exec(show)).text == after
    one, other = await sandbox.fork(first, 2)
    await one.exec("echo mine > a")
    assert (await one.exec("cat a")).text == "mine\n" and (await other.exec(show)).text == before
    (third,) = await other.fork(second)
    assert (await third.exec(show)).text == after
    await sandbox.restore(first)
    assert (await sandbox.exec(show)).text == before
    assert [each.label for each in backend.snapshots.list()] == ["first", "second"]
    with pytest.raises(StoreError, match="no checkpoint"):
        await sandbox.restore("0" * 16)
    assert (await sandbox.exec("cat a")).text == "one\n"


@pytest.mark.slow
async def test_a_checkpoint_leaves_running_programs_alone(backend: Namespaces) -> None:
    async with await backend.create() as sandbox:
        session = await sandbox.session()
        await session.send("stty -echo; cd /workspace; Y=7; echo kept > f; echo rea''dy\n")
        assert await session.until("ready", within=30) and await session.until_idle(quiet=0.1)
        kept = await sandbox.checkpoint("while it runs")
        await session.send("echo changed > f; echo still $Y\n")
        assert await session.until("still 7") and session.alive
        (branch,) = await sandbox.fork(kept)
        assert await branch.get("f") == b"kept\n"
        assert await sandbox.get("f") == b"changed\n"


@pytest.mark.slow
async def test_a_damaged_checkpoint_is_refused_and_nothing_lost(backend: Namespaces) -> None:
    sandbox = await backend.create()
    await sandbox.exec("echo one > a")
    kept = await sandbox.checkpoint()
    await sandbox.exec("echo two > a")
    (layer,) = backend.snapshots.folder.glob("layers/*/workspace/a")
    layer.write_text("0ne\n")
    with pytest.raises(StoreError, match="not what was kept"):
        await sandbox.restore(kept)
    with pytest.raises(StoreError, match="not what was kept"):
        await sandbox.fork(kept)
    assert await sandbox.get("a") == b"two\n"


@pytest.mark.slow
async def test_files_given_at_first_are_never_written(backend: Namespaces, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "a").write_text("given")
    one, other = await asyncio.gather(*(backend.create(Spec(files=folder)) for _ in range(2)))
    await one.exec("echo changed > a; touch b")
    assert (await other.exec("cat a; ls")).text == "givena\n"
    kept = await one.checkpoint()
    later = await backend.create(at=kept)
    assert (await later.exec("cat a; ls")).text == "changed\na\nb\n"
    assert (folder / "a").read_text() == "given" and not (folder / "b").exists()


@pytest.mark.slow
async def test_mounts_can_be_read_and_not_written(backend: Namespaces, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "a").write_text("readable")
    async with await backend.create(Spec(mounts={shared: "/opt/shared"})) as sandbox:
        assert (await sandbox.exec("cat /opt/shared/a")).text == "readable"
        assert not (await sandbox.exec("echo x > /opt/shared/a")).ok
    with pytest.raises(UsageError, match="cannot be where"):
        await backend.create(Spec(mounts={shared: "/usr"}))
    with pytest.raises(UsageError, match="there is no"):
        await backend.create(Spec(mounts={tmp_path / "none": "/opt/x"}))


@pytest.mark.slow
async def test_what_is_gone_says_so(backend: Namespaces) -> None:
    sandbox = await backend.create()
    running = asyncio.ensure_future(sandbox.exec("sleep 60"))
    await asyncio.sleep(0.1)
    await sandbox.destroy()
    done = await running
    assert done.killed is Killed.SANDBOX and done.reason == "killed: the sandbox was destroyed"
    with pytest.raises(SandboxGone, match="has ended"):
        await sandbox.exec("true")
    await sandbox.destroy()


async def test_capabilities_say_what_is_reached(backend: Namespaces) -> None:
    reached = backend.capabilities()
    assert reached.isolation is Isolation.NAMESPACES and reached.seccomp
    expected = Fidelity.FILES if backend.without_processes else Fidelity.EXACT
    assert reached.fidelity is expected and reached.files in ("overlay", "copy")
    assert set(reached.limits) >= {"memory", "processes", "cpus", "disk", "wall"}


@pytest.mark.slow
async def test_limits_that_make_no_sense(backend: Namespaces) -> None:
    with pytest.raises(UsageError, match=r"limits\.memory is 1: at least 8388608 is needed"):
        await backend.create(Spec(limits=Limits(memory=1)))
    with pytest.raises(UsageError, match=r"limits\.cpus is nan"):
        await backend.create(Spec(limits=Limits(cpus=float("nan"), disk=MIB)))
    async with await backend.create() as sandbox:
        with pytest.raises(UsageError, match="too long"):
            await sandbox.exec(["echo", "x" * (1 << 18)])
        with pytest.raises(UsageError, match="null byte"):
            await sandbox.exec(["echo", "\0"])
