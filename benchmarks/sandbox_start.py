"""A sandbox of namespaces: how long until its first output, what it weighs idle, what a checkpoint costs.

python benchmarks/sandbox_start.py [--rounds 200] [--idle 500] [--quick]

start       create, then `sh -c 'echo hi'`, to its first byte; destroyed again, back to back
ready       the same from a pool with some standing ready
bubblewrap  the same command by bubblewrap alone, read-only, nothing else: the bound beside it
command     one more command in a sandbox that stands
idle        sandboxes at once, each having run a command: memory of all their processes (each page once), per sandbox
checkpoint  a workspace of 10,000 files with 100 changed since the last one; then back to it, and a branch of it
processes   where CRIU works: a shell with a Python session on it written down and running on, and a branch of both
cold        the first start of a backend, before it has anything ready: control group, folders, all of it
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import Measurement, arguments, hand_in, load
from silva.sandbox.capabilities import Held
from silva.sandbox.limits import Limits
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.pool import Pool, Room
from silva.sandbox.protocol import Spec

SAY = ["sh", "-c", "echo hi"]
FILES, CHANGED = 10_000, 100


async def start(backend: Namespaces, rounds: int) -> list[float]:
    """Seconds from nothing to the first output."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        sandbox = await backend.create()
        asked = time.perf_counter()
        done = await sandbox.exec(SAY)
        assert done.first_output is not None
        found.append(asked - began + done.first_output)
        await sandbox.destroy()
    return found


async def ready(backend: Namespaces, rounds: int) -> list[float]:
    """Seconds to the first output of one that stood ready."""
    pool = Pool(backend, room=Room(memory=10**12, cpus=10**6), warm=4)
    found = []
    for _ in range(rounds):
        await pool.fill()
        began = time.perf_counter()
        async with pool.take() as sandbox:
            asked = time.perf_counter()
            done = await sandbox.exec(SAY)
            assert done.first_output is not None
            found.append(asked - began + done.first_output)
        await asyncio.sleep(0.02)
    await pool.close()
    return found


def bubblewrap(rounds: int) -> list[float]:
    """Seconds to the first output of bubblewrap alone."""
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *SAY]
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(1)
        found.append(time.perf_counter() - began)
        process.stdout.read()
        process.stdout.close()
        process.wait()
    return found


async def command(backend: Namespaces, rounds: int) -> list[float]:
    """Seconds of one command, to its first output."""
    async with await backend.create() as sandbox:
        return [(await sandbox.exec(SAY)).first_output or 0.0 for _ in range(rounds)]


async def idle(backend: Namespaces, count: int) -> dict[str, Any]:
    """Many at once."""
    began = time.perf_counter()
    free = available()
    made = []
    for first in range(0, count, 8):
        made += await asyncio.gather(*(backend.create() for _ in range(min(8, count - first))))
    for sandbox in made:
        await sandbox.exec(SAY)
    seconds = time.perf_counter() - began
    await asyncio.sleep(1)
    pss = weight(backend.spawner.pid)
    system = free - available()
    last = made[-1]
    responses = [(await last.exec(SAY)).seconds for _ in range(20)]
    await asyncio.gather(*(sandbox.destroy() for sandbox in made))
    return {
        "count": count,
        "seconds": seconds,
        "mb_each": pss / count / 1e6,
        "mb_each_of_the_machine": system / count / 1e6,
        "command_ms": statistics.median(responses) * 1e3,
    }


def weight(root: int) -> int:
    """Bytes of a process and all below it, pages that several share counted once."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    total = 0
    for pid in found:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
        except OSError:
            continue
    return total


def available() -> int:
    """Bytes the machine could still give."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) << 10
    return 0


def workspace(folder: Path) -> None:
    """Many files."""
    for number in range(FILES):
        path = folder / f"d{number // 100}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(2000))


async def checkpoints(backend: Namespaces, rounds: int) -> dict[str, list[float]]:
    """A large workspace, little changed."""
    found: dict[str, list[float]] = {"checkpoint": [], "checkpoint, a shell running": [], "restore": [], "branch": []}
    with tempfile.TemporaryDirectory(dir=backend.folder.parent) as place:
        workspace(Path(place, "files"))
        sandbox = await backend.create(Spec(files=Path(place, "files"), limits=Limits(wall=60)))
        for turn in range(rounds):
            change = f"for i in $(seq 0 {CHANGED - 1}); do echo {turn} > d$i/f$((i * 100)) || exit 1; done"
            assert (await sandbox.exec(change)).ok
            began = time.perf_counter()
            kept = await sandbox.checkpoint(f"turn {turn}")
            found["checkpoint"].append(time.perf_counter() - began)
            began = time.perf_counter()
            (branch,) = await sandbox.fork(kept)
            found["branch"].append(time.perf_counter() - began)
            await branch.destroy()
            began = time.perf_counter()
            await sandbox.restore(kept)
            found["restore"].append(time.perf_counter() - began)
        session = await sandbox.session()
        change = change.replace("echo ", "echo again ")
        for _ in range(rounds):
            assert (await sandbox.exec(change)).ok
            began = time.perf_counter()
            await sandbox.checkpoint()
            found["checkpoint, a shell running"].append(time.perf_counter() - began)
        await session.kill()
        await sandbox.destroy()
    return found


async def processes(backend: Namespaces, rounds: int) -> dict[str, list[float]]:
    """A live shell with a Python session; nothing where CRIU does not work."""
    if backend.without_processes:
        sys.stdout.write(f"processes: {backend.without_processes}\n")
        return {}
    found: dict[str, list[float]] = {"checkpoint of a shell and Python": [], "a branch of both": []}
    async with await backend.create(Spec(processes=True)) as sandbox:
        session = await sandbox.session()
        await session.send("f() { echo hi; }; sleep 5000 &\npython3 -i -q\n")
        assert await session.until(">>> ", within=60)
        await session.send("n = list(range(100_000)); print(len(n))\n")
        assert await session.until("100000\r\n", within=60)
        for turn in range(rounds + 1):
            began = time.perf_counter()
            kept = await sandbox.checkpoint(f"turn {turn}")
            taken = time.perf_counter() - began
            began = time.perf_counter()
            (branch,) = await sandbox.fork(kept)
            forked = time.perf_counter() - began
            assert not branch.lost, branch.lost
            again = branch.sessions[session.id]
            since = again.position
            await again.send("print(sum(n))\n")
            assert await again.until("4999950000", since, within=60)
            await branch.destroy()
            backend.snapshots.forget(kept)
            if turn:  # the first has CRIU find out what the kernel can do
                found["checkpoint of a shell and Python"].append(taken)
                found["a branch of both"].append(forked)
    return found


async def cold(rounds: int, state: Path) -> list[float]:
    """Seconds from a backend just opened to the first output of its first sandbox."""
    found = []
    for _ in range(rounds):
        async with await Namespaces.open(state=state) as backend:
            found += await start(backend, 1)
    return found


def row(what: str, seconds: list[float], bar: str = "") -> dict[str, Any]:
    """One line of the table, in milliseconds."""
    ordered = sorted(1e3 * each for each in seconds)
    return {
        "what": what,
        "p50_ms": statistics.median(ordered),
        "p95_ms": ordered[int(0.95 * (len(ordered) - 1))],
        "min_ms": ordered[0],
        "bar": bar,
    }


async def measure(rounds: int, count: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Everything, in a state folder of its own."""
    state = Path(tempfile.mkdtemp(prefix="silva-bench-"))
    try:
        async with await Namespaces.open(state=state) as backend:
            await asyncio.sleep(0.5)
            await start(backend, 5)
            rows = [
                row("start to first output", await start(backend, rounds), "15 ms"),
                row("the same, from a pool", await ready(backend, rounds)),
                row("bubblewrap alone", await asyncio.to_thread(bubblewrap, rounds)),
                row("one more command", await command(backend, rounds)),
            ]
            for name, seconds in (await checkpoints(backend, max(5, rounds // 10))).items():
                rows.append(
                    row(f"{name}: {FILES:,} files, {CHANGED} changed", seconds, "50 ms" if name[0] == "c" else "")
                )
            bars = {"checkpoint of a shell and Python": "150 ms", "a branch of both": "100 ms"}
            for name, seconds in (await processes(backend, max(5, rounds // 10))).items():
                rows.append(row(name, seconds, bars[name]))
            rows.append(row("the first start of a backend, nothing ready", await cold(max(5, rounds // 20), state)))
            details = {"idle": await idle(backend, count), "limits": dict(backend.capabilities().limits)}
            details["control groups"] = Held.CGROUP in backend.capabilities().limits.values()
    finally:
        shutil.rmtree(state, ignore_errors=True)
    return rows, details


def main() -> int:
    """Measure and hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--idle", type=int, default=500)
    given = parser.parse_args()
    rounds, count = (20, 20) if given.quick else (given.rounds, given.idle)
    before = load()
    rows, details = asyncio.run(measure(rounds, count))
    idling = details["idle"]
    sys.stdout.write(
        f"{idling['count']} idle: {idling['mb_each']:.2f} MB each ({idling['mb_each_of_the_machine']:.2f} by what the"
        f" machine has less), made in {idling['seconds']:.1f} s; a command among them {idling['command_ms']:.1f} ms\n"
    )
    first = rows[0]["p50_ms"]
    kept = rows[4]["p50_ms"]
    live = {each["what"]: each["p50_ms"] for each in rows if each["bar"] in ("150 ms", "100 ms")}
    shares = [first / 15, idling["mb_each"] / 2, kept / 50]
    shares += [each["p50_ms"] / float(each["bar"].split()[0]) for each in rows if each["what"] in live]
    measured = Measurement(
        name="sandbox_start",
        question="A sandbox of namespaces: start, weight, checkpoints",
        bar="start p50 at most 15 ms, 2 MB each idle, a checkpoint at most 50 ms; with processes 150 ms, a branch 100 ms"
        " (largest share of a bar)",
        ratio=max(shares),
        holds=max(shares) <= 1,
        rows=rows,
        details=details,
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
