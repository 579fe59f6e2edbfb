"""Two thousand sandboxes made and destroyed while their owners are killed at random: what is left after `silva sandbox gc`?

python benchmarks/sandbox_leaks.py [--cycles 2000] [--quick]

owner       makes sandboxes, runs something that hides from its parents in each, destroys some, goes on
killed      at a random moment with signal 9; every third time its fork server too, first or last
after gc    processes (sandboxes' and fork servers'), mounts, control groups, folders: all must be 0
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import Measurement, arguments, hand_in, load
from silva.sandbox.cgroup import Groups
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.reaper import reap, survey

EACH = 25
"""Sandboxes an owner makes if it is left alone long enough; killed earlier as a rule."""


async def own(state: Path) -> None:
    """An owner: tells its fork server's id, then a line for every sandbox."""
    backend = await Namespaces.open(state=state)
    print("server", backend.spawner.pid, flush=True)
    made = []
    while True:
        sandbox = await backend.create()
        await sandbox.exec("(setsid sleep 8642 &); echo x > f")
        made.append(sandbox)
        print("made", flush=True)
        if len(made) > 3:
            await made.pop(random.randrange(len(made))).destroy()
        elif random.random() < 0.3:
            await sandbox.checkpoint()


def killed(state: Path, generator: random.Random, both: bool) -> tuple[int, int]:
    """Start an owner, kill it; its process id, and how many sandboxes it had made."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--own", str(state)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    server = int(process.stdout.readline().split()[1])
    cycles, wanted = 0, generator.randint(1, EACH)
    while cycles < wanted and process.stdout.readline():
        cycles += 1
    time.sleep(generator.random() * 0.05)
    victims = [process.pid, server] if both else [process.pid]
    generator.shuffle(victims)
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    cycles += process.stdout.read().count("made")
    process.wait()
    return process.pid, cycles


def leaks(state: Path, owners: set[int]) -> dict[str, int]:
    """What is left of all that these owners made."""
    sleeping = servers = mounts = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            sleeping += words == b"sleep\x008642\x00"
            servers += str(state).encode() in words
            mounts += str(state) in (path / "mountinfo").read_text()
        except OSError:
            continue
    bases = Groups.find().paths
    groups = sum(len(list(Path(base).glob(f"silva-{owner}-*"))) for base in bases for owner in owners)
    return {"processes": sleeping + servers, "mounts": mounts, "groups": groups, "folders": len(survey(state))}


def measure(cycles: int, state: Path) -> tuple[list[dict[str, Any]], int]:
    """Kill owners until so many sandboxes were made."""
    generator = random.Random(7)
    owners: set[int] = set()
    done = 0
    began = time.perf_counter()
    reaped = 0
    while done < cycles:
        owner, made = killed(state, generator, len(owners) % 3 == 0)
        owners.add(owner)
        done += made
        if len(owners) % 10 == 0:
            reaped += reap(state).owners
    until = time.monotonic() + 30
    while any(leaks(state, owners).values()) and time.monotonic() < until:
        reaped += reap(state).owners
        time.sleep(0.2)
    left = leaks(state, owners)
    row = {
        "sandboxes": done,
        "owners_killed": len(owners),
        "left_to_gc": reaped,
        "seconds": time.perf_counter() - began,
        **left,
    }
    return [row], sum(left.values())


def main() -> int:
    """Measure and hand in."""
    if sys.argv[1:2] == ["--own"]:
        asyncio.run(own(Path(sys.argv[2])))
        return 0
    parser = arguments(__doc__)
    parser.add_argument("--cycles", type=int, default=2000)
    given = parser.parse_args()
    before = load()
    state = Path(tempfile.mkdtemp(prefix="silva-leaks-"))
    try:
        rows, left = measure(60 if given.quick else given.cycles, state)
    finally:
        shutil.rmtree(state, ignore_errors=True)
    measured = Measurement(
        name="sandbox_leaks",
        question="Sandboxes whose owners are killed: what is left after gc",
        bar="0 processes, mounts, control groups and folders",
        ratio=float(left),
        holds=left == 0,
        rows=rows,
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
