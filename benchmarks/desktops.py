"""Eight desktops with an application each: how long they take to stand, to be seen, to be acted on; what they weigh.

python benchmarks/desktops.py [--rounds 20] [--quick]; needs `silva envs install desktop` and Debian's packages

start       one desktop alone, to its application's window; then eight at once
screenshot  a picture of each in turn while all eight run, after something on it has changed; PNG, from asking to having it
pyautogui   the same by `pyautogui.screenshot()` and PIL's PNG, inside, as OSWorld's server takes it: the peer beside it
at once     all eight asked for a picture at the same moment
tree        the accessibility tree of each           click  the pointer moved and a button pressed
weight      memory of all processes of a desktop, each page once
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

APPLICATIONS = (
    "editor-list",
    "calc-total",
    "files-invoices",
    "mail-answer",
    "writer-name",
    "editor-secret",
    "calc-price",
    "files-script",
)
SIZE = (1280, 720)
PEER = (
    "import io\nfor _ in range({rounds}):\n    a = time.perf_counter()\n    pyautogui.screenshot().save(io.BytesIO(), 'png')\n"
    "    print('took', time.perf_counter() - a)"
)


async def probe(count: int, rounds: int) -> dict[str, Any]:
    """Run in the environment's own interpreter."""
    from silva.envs.gyms.desktop.tasks import TASKS
    from silva.envs.gyms.desktop.world import World
    from silva.sandbox.namespaces import Namespaces

    names = APPLICATIONS[:count]
    found: dict[str, Any] = {"shots": [], "peer": [], "at_once": [], "trees": {}, "clicks": [], "bytes": []}
    with tempfile.TemporaryDirectory(prefix="silva-desktops-") as folder:
        async with await Namespaces.open(state=Path(folder)) as backend:

            async def timed(name: str) -> tuple[World, float]:
                began = time.perf_counter()
                return await World.begin(TASKS[name], backend, *SIZE), time.perf_counter() - began

            alone: dict[str, float] = {}
            for name in ("editor-list", "calc-total"):
                world, alone[name] = await timed(name)
                await world.end()
            began = time.perf_counter()
            worlds, each = zip(*await asyncio.gather(*map(timed, names)), strict=True)
            found |= {"alone": alone, "eight": time.perf_counter() - began, "each": each}
            await asyncio.sleep(3)
            looking = {"still": 0, "most": 0, "elements": 0, "seconds": 0}
            for turn in range(rounds):
                for world in worlds:
                    display = world.display
                    began = time.perf_counter()
                    await display.ask("act", name="click", arguments={"x": 20.0 + turn, "y": 700.0})
                    found["clicks"].append(time.perf_counter() - began)
                    # What changes must be on the screen, and not take the application's time: a window of the root's.
                    await display.ask("act", name="move_to", arguments={"x": 640.0, "y": 8.0})
                    await display.ask("act", name="double_click", arguments={})  # the title bar: maximised and back
                    await display.ask("look", still=0.3, most=3, every=0, elements=0, seconds=0)
                    began = time.perf_counter()
                    reply = await display.ask("look", every=1, **looking)
                    found["shots"].append(time.perf_counter() - began)
                    found["bytes"].append(len(reply.picture))
            for _ in range(rounds):
                for world in worlds:  # each different from the one before
                    await world.display.ask("act", name="double_click", arguments={"x": 640.0, "y": 8.0})
                await asyncio.sleep(1)

                async def once(world: World) -> float:
                    began = time.perf_counter()
                    await world.display.ask("look", every=1, **looking)
                    return time.perf_counter() - began

                found["at_once"] += await asyncio.gather(*map(once, worlds))
            for name, world in zip(names, worlds, strict=True):
                said = await world.display.ask("code", within=90, code=PEER.format(rounds=rounds), seconds=60)
                if said.exit or said.late:
                    raise SystemExit(f"pyautogui.screenshot: {said.output[-300:]}")
                found["peer"] += [
                    float(line.split()[1]) for line in said.output.splitlines() if line.startswith("took")
                ]
                began = time.perf_counter()
                reply = await world.display.ask("look", still=0, most=0, every=0, elements=400, seconds=20)
                found["trees"][name] = [time.perf_counter() - began, len(reply.elements)]
            found["weights"] = [weight(world.display.sandbox._pid) for world in worlds]
            await asyncio.gather(*(world.end() for world in worlds))
    return found


def weight(first: int) -> int:
    """Bytes of all processes of a sandbox, by its process 1; pages that several share counted once."""
    inside, total = Path(f"/proc/{first}/ns/pid").readlink(), 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "ns/pid").readlink() != inside:
                continue
            for line in (place / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
        except OSError:
            continue
    return total


def row(what: str, seconds: list[float], bar: str = "") -> dict[str, Any]:
    """One line of the table, in milliseconds."""
    ordered = sorted(1e3 * each for each in seconds)
    return {
        "what": what,
        "p50 ms": round(statistics.median(ordered), 1),
        "p95 ms": round(ordered[int(0.95 * (len(ordered) - 1))], 1),
        "least ms": round(ordered[0], 1),
        "bar": bar,
        "n": len(ordered),
    }


def main() -> int:
    from report import Measurement, arguments, hand_in, load
    from silva.envs import Registry
    from silva.envs.install import interpreter, links

    options = arguments(__doc__)
    options.add_argument("--rounds", type=int, default=20)
    given = options.parse_args()
    count, rounds = (2, 3) if given.quick else (8, given.rounds)
    entry, before = Registry.load().entry("desktop"), load()
    environ = {**os.environ, "PYTHONPATH": str(links(entry))}
    command = [interpreter(entry), __file__, "--probe", str(count), str(rounds)]
    found = json.loads(subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True, timeout=3000).stdout)
    shot, peer = statistics.median(found["shots"]), statistics.median(found["peer"])
    rows = [
        row(f"screenshot, {count} desktops open", found["shots"], "p50 at most 20"),
        row("the same by pyautogui.screenshot and PIL", found["peer"]),
        row(f"screenshot, all {count} at the same moment", found["at_once"]),
        row("click", found["clicks"]),
        *(row(f"tree of {name}, {size} elements", [seconds]) for name, (seconds, size) in found["trees"].items()),
        *(row(f"start of {name} alone", [seconds]) for name, seconds in found["alone"].items()),
        row(f"start of {count} at once, each", list(found["each"])),
    ]
    measured = Measurement(
        name="desktops",
        question="Eight desktops with an application each, in parallel",
        bar="screenshot p50 at most 20 ms with eight desktops open",
        ratio=peer / shot,
        holds=shot <= 0.020 and count == 8,
        rows=rows,
        details={
            "screen": f"{SIZE[0]} x {SIZE[1]}",
            "applications": list(APPLICATIONS[:count]),
            "png_bytes_median": statistics.median(found["bytes"]),
            "mb_each": {name: round(each / 1e6) for name, each in zip(APPLICATIONS, found["weights"], strict=False)},
            "seconds_until_all_stood": round(found["eight"], 1),
            "ratio_is": "pyautogui.screenshot and PIL's PNG, against Silva's, p50",
        },
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--probe"]:
        sys.stdout.write(json.dumps(asyncio.run(probe(*map(int, sys.argv[2:4])))))
        sys.exit(0)
    sys.exit(main())
