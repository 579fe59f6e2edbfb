"""Containers by every engine that is here, of an image made of this machine's programs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from machine_image import make_image

from silva.errors import MissingError, StoreError, UsageError
from silva.sandbox import open_backend
from silva.sandbox.capabilities import Held, Isolation
from silva.sandbox.container import Containers
from silva.sandbox.container_engine import ENGINES, Engine, find
from silva.sandbox.limits import Limits
from silva.sandbox.protocol import Spec
from silva.sandbox.reaper import reap, survey
from silva.sandbox.result import Killed

IMAGE = "localhost/silva-machine:test"
SMALL = Limits(memory=128 << 20, processes=30, disk=1 << 20, flood=1 << 20)


def trouble(engine: Engine, folder: Path) -> str:
    """What keeps the engine from running a container; "" where nothing does."""
    make_image(engine.name, IMAGE, folder)
    words = ["run", "--rm", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4000:4000"]
    done = subprocess.run([engine.name, *words, IMAGE, "true"], capture_output=True, text=True, timeout=120)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it ends with an error"])[-1]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    try:
        found = find(request.param)
    except MissingError as error:
        pytest.skip(str(error))
    wrong = trouble(found, tmp_path_factory.mktemp("image"))
    if wrong:
        pytest.skip(f"{found.name} runs no container here: {wrong}")
    os.environ["SILVA_CONTAINER_ENGINE"] = found.name
    yield found
    del os.environ["SILVA_CONTAINER_ENGINE"]
    subprocess.run([found.name, "rmi", "-f", IMAGE], capture_output=True)


@pytest.fixture
async def containers(engine: Engine, tmp_path: Path) -> AsyncIterator[Containers]:
    async with await Containers.open(state=tmp_path / "state") as opened:
        yield opened
    assert list((tmp_path / "state").iterdir()) == []
    assert images(engine) == [] and standing(engine) == []


def images(engine: Engine) -> list[str]:
    return engine.run("images", "--quiet", "--filter", "reference=localhost/silva-snapshot").split()


def standing(engine: Engine) -> list[str]:
    return engine.run("ps", "--all", "--quiet", "--filter", "label=silva").split()


pytestmark = pytest.mark.slow


async def test_commands_files_and_going_back(containers: Containers, tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "given").write_text("from the task")
    sandbox = await containers.create(Spec(image=IMAGE, files=tmp_path / "task", variables={"MINE": "a b"}))
    assert (await sandbox.exec("pwd; cat given; echo $MINE $HOME >&2")).text == "/workspace\nfrom the task"
    await sandbox.put(b"one", "a/b")
    done = await sandbox.exec("cat a/b; cat; exit 3", stdin=b" two")
    assert (done.text, done.code) == ("one two", 3)
    kept = await sandbox.checkpoint("before 'it' $x\nand after")
    await sandbox.exec("rm -r a given; mkdir -m 500 c; ln -s /etc/passwd link")
    later = await sandbox.checkpoint()
    await sandbox.restore(kept)
    assert await sandbox.get("/workspace/a/b") == b"one"
    left, right = await sandbox.fork(later, 2)
    assert (await left.exec("ls; readlink link; stat -c %a c")).text == "c\nlink\n/etc/passwd\n500\n"
    await left.exec("touch only-here")
    assert "only-here" not in (await right.exec("ls")).text
    fetched = await right.get_folder("/workspace", tmp_path / "out")
    assert fetched.left_out and not (tmp_path / "out" / "link").exists()  # a link that leads out
    for id in ("f" * 16, "../../etc"):
        with pytest.raises(StoreError, match="no checkpoint"):
            await sandbox.fork(id)


async def test_limits_hold_and_say_which(
    containers: Containers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    about = containers.capabilities()
    assert about.isolation is Isolation.CONTAINER and about.seccomp
    sandbox = await containers.create(Spec(image=IMAGE, limits=SMALL))
    late = await sandbox.exec("setsid sleep 77 & (env -i sleep 78 &); sleep 79", seconds=1.5)
    assert late.killed is Killed.TIME
    assert (await sandbox.exec("ps ax | grep -c 'sleep [7]'")).text == "0\n", "all that it started has ended"
    loud = await sandbox.exec("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done")
    assert loud.killed is Killed.OUTPUT
    large = await sandbox.exec("head -c 5000000 /dev/zero > file; stat -c %s file")
    assert int(large.text.split()[-1]) <= SMALL.disk
    if about.limits["memory"] is Held.ENGINE:
        greedy = await sandbox.exec("head -c 900000000 /dev/zero | tail -c 800000000 > /dev/null")
        assert greedy.killed is Killed.MEMORY and "134,217,728 bytes" in greedy.reason
    if about.limits["processes"] is Held.ENGINE:
        bomb = await sandbox.exec("f() { f | f & }; f; sleep 5", seconds=20)
        assert bomb.killed in (Killed.PROCESSES, Killed.TIME)
    assert (await sandbox.exec("echo still here")).text == "still here\n"
    assert not list((tmp_path / "mine").iterdir()), "nothing is left where the caller works"


async def test_nothing_of_the_machine_is_reached(containers: Containers, tmp_path: Path) -> None:
    (tmp_path / "lent").mkdir()
    (tmp_path / "lent" / "book").write_text("read me")
    os.environ["SILVA_TEST_SECRET"] = "sesame"
    try:
        sandbox = await containers.create(Spec(image=IMAGE, mounts={tmp_path / "lent": "/lent"}))
        seen = (await sandbox.exec("env; cat /proc/1/environ | tr '\\0' '\\n'")).text
    finally:
        del os.environ["SILVA_TEST_SECRET"]
    assert "sesame" not in seen
    assert (await sandbox.exec("cat /lent/book")).text == "read me"
    assert (await sandbox.exec("echo x > /lent/book")).code != 0
    assert (tmp_path / "lent" / "book").read_text() == "read me"
    assert not (await sandbox.exec("ls -d /work /home/* /root/.ssh")).text.replace("/home/agent\n", "")
    assert (await sandbox.exec("ls /sys/class/net")).text.split() == ["lo"]
    assert (await sandbox.exec("exec 3<>/dev/tcp/1.1.1.1/80")).code != 0
    for way in ("echo 1 > /proc/sys/kernel/panic", "echo x > /proc/sysrq-trigger", "mkdir /sys/fs/cgroup/memory/mine"):
        assert (await sandbox.exec(way)).code != 0, way
    bits = (await sandbox.exec("grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status")).text.split()
    assert bits[bits.index("NoNewPrivs:") + 1] == "1" and bits[bits.index("Seccomp:") + 1] == "2"
    bound = int(bits[bits.index("CapBnd:") + 1], 16)
    for name, number in {"NET_RAW": 13, "SYS_ADMIN": 21, "SYS_PTRACE": 19, "MKNOD": 27, "SYS_MODULE": 16}.items():
        assert not bound >> number & 1, name


async def test_a_session_is_talked_with_and_ended(containers: Containers) -> None:
    sandbox = await containers.create(Spec(image=IMAGE, limits=SMALL))
    session = await sandbox.session(rows=33, columns=101)
    await session.send("stty size; sleep 60\n")
    assert await session.until("33 101", within=20)
    await asyncio.sleep(0.3)
    await session.send(b"\x03")
    await session.send("echo st''ill\n")
    assert await session.until("still", within=20)
    await session.send("sleep 4321 &\n")
    await asyncio.sleep(0.5)
    await session.kill()
    assert not session.alive
    assert (await sandbox.exec("ps ax | grep -c 'sleep 432[1]'")).text == "0\n"
    other = await sandbox.session("cat")
    await sandbox.restore(await sandbox.checkpoint())
    assert await other.ended(20)


async def test_what_cannot_be_is_refused_in_a_line(containers: Containers, tmp_path: Path) -> None:
    for spec, said in (
        (Spec(), "needs an image"),
        (Spec(image=IMAGE, network=("pypi.org",)), "have no network"),
        (Spec(image=IMAGE, mounts={tmp_path / "no": "/x"}), "there is no"),
        (Spec(image="--privileged"), "is no image"),
    ):
        with pytest.raises(UsageError, match=said):
            await containers.create(spec)
    with pytest.raises(MissingError, match="run"):
        await containers.create(Spec(image="localhost/silva-no-such:image"))
    assert not containers.sandboxes


def test_a_killed_owner_leaves_nothing_after_gc(engine: Engine, tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from silva.sandbox import open_backend\n"
        "from silva.sandbox.protocol import Spec\n"
        "async def main():\n"
        "    backend = await open_backend('container', state=Path(sys.argv[1]))\n"
        "    sandbox = await backend.create(Spec(image=sys.argv[2]))\n"
        "    await sandbox.exec('(setsid sleep 4321 &); echo x > file')\n"
        "    await sandbox.checkpoint()\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(1000)\n"
        "asyncio.run(main())\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "s"), IMAGE], stdout=subprocess.PIPE)
    assert owner.stdout is not None and owner.stdout.readline() == b"ready\n"
    (before,) = survey(tmp_path / "s")
    assert before.standing == "alive" and before.sandboxes[0].container.startswith(f"{engine.name}:silva-")
    assert reap(tmp_path / "s").owners == 0 and len(standing(engine)) == 1
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    done = reap(tmp_path / "s")
    assert (done.owners, done.containers, done.left) == (1, 1, ())
    assert standing(engine) == [] and images(engine) == [] and list((tmp_path / "s").iterdir()) == []


def test_the_command_line_keeps_and_begins_again(engine: Engine, tmp_path: Path) -> None:
    def silva(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SILVA_SANDBOXES": str(tmp_path / "s"), "SILVA_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "silva", "sandbox", "run", "--backend", "container", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)

    kept = silva("--image", IMAGE, "--keep", "one", "--", "echo 1 > a; exit 4")
    assert kept.returncode == 4
    id = kept.stderr.split()[-1]
    assert silva("--from", id, "--", "cat a").stdout == "1\n"
    late = silva("--image", IMAGE, "--timeout", "1", "--", "sleep", "60")
    assert late.returncode == 6 and late.stderr == "killed: it took longer than 1 s\n"
    assert silva("--", "true").returncode == 2
    engine.run("rmi", f"localhost/silva-snapshot:{id}")
    gone = silva("--from", id, "--", "cat a")
    assert gone.returncode == 5 and f"there is no checkpoint '{id}'" in gone.stderr


async def test_an_engine_that_runs_commands_side_by_side(engine: Engine, tmp_path: Path) -> None:
    async with await open_backend("container", state=tmp_path) as backend:
        sandbox = await backend.create(Spec(image=IMAGE))
        server = asyncio.create_task(sandbox.exec("(while :; do sleep 0.2; done) & echo up; sleep 30", seconds=30))
        await asyncio.sleep(1.0)
        began = time.monotonic()
        late = await sandbox.exec("sleep 60", seconds=0.5)
        assert late.killed is Killed.TIME and time.monotonic() - began < 10
        assert not server.done(), "another command's end ends none but it"
        await sandbox.destroy()
        assert (await server).killed is Killed.SANDBOX
