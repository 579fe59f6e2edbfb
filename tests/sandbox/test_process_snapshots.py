"""Checkpoints that take along what runs: a shell, its functions and jobs, a Python session, go on in every branch."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from silva.errors import StoreError
from silva.sandbox import criu, criu_trial, owner
from silva.sandbox.capabilities import Fidelity
from silva.sandbox.namespace import NamespaceSandbox
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec
from silva.sandbox.reaper import reap
from silva.sandbox.session import Session

WHY = criu_trial.trial()
CRIU = pytest.mark.skipif(bool(WHY), reason=WHY)
ALIVE = Spec(processes=True)


async def says(session: Session, typed: str, expected: str) -> bool:
    """Whether a session answers with this line."""
    since = session.position
    await session.send(typed + "\n")
    return await session.until(f"{expected}\r\n", since, within=60)


async def python_in_a_shell(sandbox: NamespaceSandbox) -> Session:
    """A session with a function, a variable, a job in the background, and Python on top of it."""
    session = await sandbox.session()
    assert await says(session, "twice() { echo $(($1 * 2)); }; V=there; cd /tmp; (sleep 5000 &); echo se''t", "set")
    await session.send("sleep 6000 &\n")
    await session.send("python3 -i -q\n")
    assert await session.until(">>> ", within=60)
    assert await says(session, "n = 7; f = open('/workspace/log', 'a'); print('n', n)", "n 7")
    return session


def parent(pid: int) -> owner.Process:
    """A process's parent."""
    return owner.Process.of(int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1]))


def ends(process: owner.Process) -> bool:
    """Whether it ends."""
    until = time.monotonic() + 30
    while process.alive() and time.monotonic() < until:
        time.sleep(0.02)
    return not process.alive()


def left(state: Path, groups: tuple[str, ...]) -> list[Path]:
    """Folders and control groups that are still there."""
    return [path for path in (*state.iterdir(), *map(Path, groups)) if path.exists()]


@CRIU
async def test_a_python_session_its_shell_and_jobs_go_on_in_every_branch(backend: Namespaces) -> None:
    sandbox = await backend.create(ALIVE)
    session = await python_in_a_shell(sandbox)
    kept = backend.snapshots.find(await sandbox.checkpoint("live"))
    assert (kept.fidelity, kept.note) == ("exact", "")
    assert await says(session, "n += 1; print('n', n)", "n 8"), "the sandbox itself runs on"
    first, second = await sandbox.fork(kept.id, 2)
    assert (first.lost, second.lost) == ("", "")
    for branch, number in ((first, 10), (second, 20)):
        again = branch.sessions[session.id]
        assert await says(again, f"n += {number}; print('n', n)", f"n {7 + number}")
        assert await says(again, f"print(f.write('{number}\\n'), f.flush())", "3 None")
    again = first.sessions[session.id]
    await again.send("exit()\n")
    assert await says(again, "twice 21; echo $V $PWD; jobs | wc -l", "there /tmp\r\n1")
    assert (await first.exec("pgrep -c sleep")).text == "3\n", "process 1's own, the shell's, and one that left it"
    assert [(await each.exec("cat log")).text for each in (first, second, sandbox)] == ["10\n", "20\n", ""]
    assert await says(session, "print('n', n)", "n 8")
    since = again.position
    await again.send("exit 3\n")
    assert await again.ended(60) and again.code == 3 and again.read(since)[1] > since


@CRIU
async def test_going_back_brings_back_what_ran_and_what_had_been_said(backend: Namespaces) -> None:
    sandbox = await backend.create(ALIVE)
    session = await python_in_a_shell(sandbox)
    kept = await sandbox.checkpoint()
    position, said = session.position, session.read()[0]
    assert await says(session, "del n; print('gone')", "gone")
    await sandbox.exec("echo later > /workspace/later")
    await sandbox.restore(kept)
    assert sandbox.lost == "" and not session.alive
    again = sandbox.sessions[session.id]
    assert (again.position, again.read()[0]) == (position, said)
    assert await says(again, "print('n', n)", "n 7")
    assert (await sandbox.exec("ls /workspace")).text == "log\n"
    other = await sandbox.session()
    assert other.id not in (session.id,) and await says(other, "echo $((1 + 1))", "2")
    await again.kill()
    assert not again.alive and (await sandbox.exec("pgrep -c python3")).text == "0\n"
    assert other.alive


@CRIU
async def test_a_checkpoint_of_a_branch_on_layers_and_shared_memory(backend: Namespaces, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "given").write_text("given\n")
    spec = Spec(processes=True, files=files, mounts={files: "/data/here"})
    sandbox = await backend.create(spec)
    session = await sandbox.session()
    assert await says(session, "exec 7<given; echo mem > /dev/shm/m; cd /data/here; echo o''k", "ok")
    kept = await sandbox.checkpoint()
    for turn in range(2):
        (branch,) = await sandbox.fork(kept)
        assert branch.lost == ""
        again = branch.sessions[session.id]
        assert await says(again, f"echo {turn} >> /workspace/turns; cat /workspace/turns | wc -l", str(turn + 1))
        kept = await branch.checkpoint()
        assert backend.snapshots.find(kept).note == ""
        await branch.destroy()
    (branch,) = await sandbox.fork(kept)
    again = branch.sessions[session.id]
    assert await says(again, "cat <&7; cat /dev/shm/m given", "given\r\nmem\r\ngiven")


WATCHING = """
import ctypes, fcntl, os
held = open("/workspace/held", "w"); fcntl.flock(held, fcntl.LOCK_EX)
watch = ctypes.CDLL(None)
fd = watch.inotify_init1(os.O_NONBLOCK); print("watch", watch.inotify_add_watch(fd, b"/home/agent/seen", 2) > 0)
def news():
    try: return len(os.read(fd, 4096)) > 0
    except BlockingIOError: return False
"""


@CRIU
async def test_watched_files_and_locks_are_taken_along_further_and_further_down(backend: Namespaces) -> None:
    sandbox = await backend.create(ALIVE)
    await sandbox.put(WATCHING.encode(), "/tmp/watching.py")
    await sandbox.exec("echo 0 > /home/agent/seen")
    session = await sandbox.session(["python3", "-iq", "/tmp/watching.py"])
    assert await session.until(b"watch True", within=60) and await session.until(b">>> ", within=60)
    branch = sandbox
    for _ in range(3):  # from the first branch on, the files lie on layers
        kept = backend.snapshots.find(await branch.checkpoint())
        assert (kept.fidelity, kept.note) == ("exact", "")
        (branch,) = await branch.fork(kept.id)
        again = branch.sessions[session.id]
        assert await says(again, "print('news', news())", "news False")
        await branch.exec("echo more >> /home/agent/seen")
        assert await says(again, "print('news', news())", "news True")
        assert (await branch.exec("flock -n /workspace/held true")).code == 1, "it is locked"


@CRIU
async def test_what_is_printed_meanwhile_is_neither_lost_nor_doubled(backend: Namespaces) -> None:
    sandbox = await backend.create(ALIVE)
    session = await sandbox.session()
    await session.send("stty -opost; for i in $(seq 3000); do echo $i; done; echo e''nd\n")
    kept = await sandbox.checkpoint()
    (branch,) = await sandbox.fork(kept)
    expected = "\n".join(map(str, range(1, 3001))) + "\nend\n"
    for each in (session, branch.sessions[session.id]):
        assert await each.until("end\n", within=60)
        assert expected in each.read()[0].decode()


@CRIU
async def test_a_branch_is_held_in_as_its_sandbox_was(backend: Namespaces) -> None:
    ask = (
        "id -u; grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; awk '{print $5, $6}'"
        " /proc/self/mountinfo | sort; cat /proc/self/uid_map /proc/1/cgroup; ls /proc/net/dev | wc -l; hostname;"
        " touch /usr/x /x /etc/x 2>&1; unshare -m true 2>&1; ls /root /sys 2>&1; ip -o addr 2>/dev/null | wc -l"
    )
    sandbox = await backend.create(ALIVE)
    session = await sandbox.session()
    assert await says(session, "echo he''re", "here")
    (branch,) = await sandbox.fork(await sandbox.checkpoint())
    assert branch.lost == ""
    before, after = [(await each.exec(ask)).text for each in (sandbox, branch)]
    assert before == after and "Seccomp:\t2" in after and "CapEff:\t0000000000000000" in after
    plain = await backend.create()
    assert (await plain.exec("touch /usr/x /x /etc/x 2>&1; unshare -m true 2>&1; ls /root /sys 2>&1")).text in after
    # What was in it already is held in too, not only what enters later.
    again = branch.sessions[session.id]
    assert await says(again, "grep -c . /root/x; grep NoNewPrivs /proc/$$/status | tr -d '\\t'", "NoNewPrivs:1")
    assert await says(again, "(exec 3<>/dev/tcp/1.1.1.1/80) 2>/dev/null || echo no''-way", "no-way")
    assert await says(again, "(exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -o refused", "refused"), "a loopback is there"


@CRIU
async def test_limits_hold_in_a_branch(backend: Namespaces) -> None:
    sandbox = await backend.create(ALIVE)
    session = await sandbox.session()
    assert await says(session, "echo he''re", "here")
    (branch,) = await sandbox.fork(await sandbox.checkpoint())
    again = branch.sessions[session.id]
    hog = "python3 -c 'x = bytearray(900 << 20)'"
    assert await says(again, f"{hog}; echo code $?", "code 137")
    assert (await branch.exec("echo up")).text == "up\n" and (await sandbox.exec("echo up")).text == "up\n"


@CRIU
async def test_what_cannot_be_taken_falls_back_to_files_and_says_why(backend: Namespaces) -> None:
    sandbox = await backend.create(ALIVE)
    running = asyncio.ensure_future(sandbox.exec("echo 1 > a; sleep 300"))
    await sandbox.exec("until [ -s a ]; do sleep 0.02; done")
    kept = backend.snapshots.find(await sandbox.checkpoint())
    assert (kept.fidelity, kept.processes) == ("files", None) and "a command was running" in kept.note
    (branch,) = await sandbox.fork(kept.id)
    assert "a command was running" in branch.lost and (await branch.exec("cat a")).text == "1\n"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    session = await sandbox.session(["dash", "-i"])
    assert await says(session, "echo he''re", "here")
    kept = backend.snapshots.find(await sandbox.checkpoint())
    assert kept.fidelity == "files" and "tty" in kept.note
    assert await says(session, "echo sti''ll", "still"), "what could not be taken runs on"


@CRIU
async def test_damaged_processes_are_refused_and_nothing_lost(backend: Namespaces) -> None:
    sandbox = await backend.create(ALIVE)
    session = await sandbox.session()
    assert await says(session, "echo he''re", "here")
    kept = backend.snapshots.find(await sandbox.checkpoint())
    assert kept.processes is not None
    page = next((backend.snapshots.folder / "layers" / kept.processes.name).glob("pages-*.img"))
    with page.open("r+b") as file:
        file.write(b"damaged!")
    with pytest.raises(StoreError, match="is not what was kept"):
        await sandbox.restore(kept.id)
    assert await says(session, "echo sti''ll", "still")
    backend.snapshots.forget(kept.id)
    assert list((backend.snapshots.folder / "layers").iterdir()) == [], "processes go with their checkpoint"


@CRIU
async def test_another_process_takes_up_what_runs(tmp_path: Path) -> None:
    store = tmp_path / "kept"
    async with await Namespaces.open(state=tmp_path / "one", snapshots=store) as backend:
        sandbox = await backend.create(ALIVE)
        session = await python_in_a_shell(sandbox)
        kept = await sandbox.checkpoint()
    async with await Namespaces.open(state=tmp_path / "two", snapshots=store) as backend:
        again = await backend.create(ALIVE, at=kept)
        assert again.lost == "" and await says(again.sessions[session.id], "print('n', n)", "n 7")
        files = await backend.create(at=kept)
        assert files.sessions == {} and (await files.exec("ls")).text == "log\n"


@CRIU
async def test_what_was_brought_back_ends_with_its_fork_server(tmp_path: Path) -> None:
    backend = await Namespaces.open(state=tmp_path)
    sandbox = await backend.create(ALIVE)
    session = await sandbox.session()
    assert await says(session, "echo he''re", "here")
    (branch,) = await sandbox.fork(await sandbox.checkpoint())
    first = parent(branch.sessions[session.id].child.pid)
    groups = backend.groups.paths
    os.kill(backend.spawner.pid, 9)
    assert await asyncio.to_thread(ends, first)
    await backend.close()
    reap(tmp_path)
    assert left(tmp_path, groups) == []


async def test_without_criu_files_are_kept_and_a_line_says_so(
    backend: Namespaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILVA_CRIU", "/nowhere/criu")
    criu_trial.trial.cache_clear()
    try:
        reached = backend.capabilities()
        assert reached.fidelity is Fidelity.FILES
        assert any("SILVA_CRIU" in note and "install CRIU" in note for note in reached.notes)
        sandbox = await backend.create(ALIVE)
        session = await sandbox.session()
        assert await says(session, "echo he''re > f; echo o''k", "ok")
        kept = backend.snapshots.find(await sandbox.checkpoint())
        assert kept.fidelity == "files" and "/nowhere/criu" in kept.note
        (branch,) = await sandbox.fork(kept.id)
        assert "/nowhere/criu" in branch.lost and (await branch.exec("cat f")).text == "here\n"
    finally:
        criu_trial.trial.cache_clear()


def test_why_criu_failed_is_its_first_error(tmp_path: Path) -> None:
    log = tmp_path / "criu.log"
    assert criu.complaint(log) == "it did not start"
    log.write_text(
        "(0.1) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self\n"
        "(0.2) Error (criu/tty.c:1): tty: first\n(0.3) Error (criu/cr-dump.c:2): Dumping FAILED.\n"
    )
    assert criu.complaint(log) == "tty: first"
