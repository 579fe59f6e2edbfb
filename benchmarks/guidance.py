"""What people say: does it reach the very next turn, is any of it lost when processes are killed, what does a turn cost?

    .venv/bin/python benchmarks/guidance.py [--words 1000] [--kills 50] [--pairs 20] [--parts timings kills …]

timings   people speak at random moments to episodes at work; a word's node must stand before every turn that began after
          it was said
kills     the rollout is killed with `kill -9` and resumed, again and again, while a process that is killed too goes on
          speaking; every word that was acknowledged must be in the lake once for every episode
latency   the same run with and without a mailroom, in turns, 50 words in each that has one; a turn's time, model and all
console_kills, console_latency    the same two with a console: what people say goes through its HTTP API while it is
          killed and started again (`guidance_console.py`); and a page follows the run, or no console is there

A scripted model; `arithmetic`'s chains.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from guidance_console import console_kills, console_latency
from guidance_runs import after, serve, settings, walks

from report import RESULTS, Measurement, arguments, hand_in, load
from silva.guide import post
from silva.guide.mailroom import Mailroom
from silva.lake import Lake
from silva.rollout import run_rollout
from silva.rollout.run import Hooks
from silva.tree import Author, trajectory_id

SPEAKER = """
import random, sys, time
from silva.guide import post
from silva.errors import SilvaError
lake, seed = sys.argv[1], int(sys.argv[2])
draw = random.Random(seed)
number = 0
while True:
    time.sleep(draw.uniform(0.02, 0.3))
    id = f"k{seed}-{number}"
    try:
        post(lake, "r", "say", "ann", text=f"word {id}", id=id)
    except SilvaError as error:
        if "ended" in str(error):
            break
        continue
    print(id, flush=True)
    number += 1
"""


async def timings(count: int, episodes: int, seed: int) -> dict[str, Any]:
    """People who speak at random moments."""
    with tempfile.TemporaryDirectory() as name:
        folder, draw = Path(name), random.Random(seed)
        said: list[tuple[str, str, float]] = []  # id, to whom, when the call came back

        def speak(to: list[str]) -> None:
            with Lake.open(folder / "lake", mode="read") as lake:
                for number in range(count):
                    time.sleep(draw.uniform(0.0, 0.06))
                    whom = draw.choice(to)
                    post(lake, "r", "say", draw.choice(("ann", "ben")), to=whom, text=f"<w{number}>")
                    said.append((f"<w{number}>", whom, time.time()))
                post(lake, "r", "stop", "ann")

        async with serve(folder, 0.15) as server:
            config = settings(folder, server.url, 100_000, episodes)
            begun: list[threading.Thread] = []

            def begin(scheduler: Any, ledger: Any, total: int) -> None:
                ids = [trajectory_id("r", "arithmetic/chain/0", index, 0) for index in range(episodes)]
                thread = threading.Thread(target=after, args=(folder, lambda: speak(ids)), daemon=True)
                thread.start()
                begun.append(thread)

            await run_rollout(config, hooks=Hooks(guidance=Mailroom.of(config.lake, "r"), on_start=begin))
            begun[0].join(10)
        by_id = {each.id: nodes for each, nodes in walks(folder)}
        late = missing = 0
        for text, whom, at in said:
            nodes = by_id[whom]
            place = next(
                (i for i, node in enumerate(nodes) if node.author is Author.PERSON and text in node.message.text), None
            )
            later = next(
                (i for i, node in enumerate(nodes) if node.author is Author.POLICY and node.started > at), None
            )
            if place is None:
                missing += later is not None
            elif later is not None and place > later:
                late += 1
        return {"said": len(said), "late": late, "missing": missing}


async def kills(count: int, seed: int) -> dict[str, Any]:
    """Kills of the agent's process and of the one that speaks."""
    with tempfile.TemporaryDirectory() as name:
        folder, draw = Path(name), random.Random(seed)
        (folder / "speaker.py").write_text(SPEAKER)
        out = folder / "said.txt"
        agents = speakers = 0
        async with serve(folder, 0.2) as server:
            # Long enough that no episode ends before the last kill; then it is told to stop.
            config = settings(folder, server.url, 100_000, 4)
            file = folder / "r.json"
            file.write_text(config.model_dump_json(exclude_unset=True))
            command = [sys.executable, "-m", "silva", "rollout", "-c", str(file)]
            shell = {**os.environ, "SILVA_LAKE": config.lake}

            def start(*more: str) -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    [*command, *more], env=shell, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )

            def speaker(number: int) -> subprocess.Popen[bytes]:
                with out.open("ab") as file:
                    words = [sys.executable, str(folder / "speaker.py"), config.lake, str(number)]
                    return subprocess.Popen(words, env=shell, stdout=file, stderr=subprocess.DEVNULL)

            agent = start()
            await asyncio.to_thread(after, folder, lambda: None)
            voice = speaker(0)
            while agents + speakers < count:
                await asyncio.sleep(draw.uniform(3.0, 9.0))
                if draw.random() < 0.6:
                    agent.send_signal(signal.SIGKILL)
                    await asyncio.to_thread(agent.wait)
                    agents += 1
                    agent = start("--resume")
                else:
                    voice.send_signal(signal.SIGKILL)
                    await asyncio.to_thread(voice.wait)
                    speakers += 1
                    voice = speaker(speakers)
            await asyncio.sleep(12)
            voice.kill()
            voice.wait()
            post(config.lake, "r", "stop", "ann")
            await asyncio.to_thread(agent.wait, 120)
        said = [line for line in out.read_text().splitlines() if line.count("-") == 1]
        with Lake.open(folder / "lake", mode="read") as lake:
            kept = Counter(each.reason for each in lake.supervisions(run_id="r") if each.source == "person")
        ended = walks(folder)
        lost = sum(max(0, len(ended) - kept[f"word {word}"]) for word in said)
        twice = sum(max(0, kept[f"word {word}"] - len(ended)) for word in said)
        for _, nodes in ended:
            spoken = Counter(
                word for node in nodes if node.author is Author.PERSON for word in node.message.text.split()
            )
            twice += sum(spoken[word] > 1 for word in said)
        return {
            "agents": agents,
            "speakers": speakers,
            "said": len(said),
            "to": len(ended),
            "lost": lost,
            "twice": twice,
        }


async def latency(pairs: int, seed: int) -> dict[str, Any]:
    """Turns with and without a mailroom."""
    found: dict[bool, list[float]] = {True: [], False: []}
    order = [guided for _ in range(pairs) for guided in (True, False)]
    random.Random(seed).shuffle(order)
    for guided in order:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            async with serve(folder, 0.05) as server:
                config = settings(folder, server.url, 60, 4)
                mailroom = Mailroom.of(config.lake, "r") if guided else None
                over = threading.Event()

                def speak(folder: Path = folder, over: threading.Event = over) -> None:
                    with Lake.open(folder / "lake", mode="read") as lake:
                        for number in range(50):
                            if over.is_set():
                                return
                            post(lake, "r", "good", "ann", text=f"{number}")
                            time.sleep(0.05)

                if guided:
                    threading.Thread(target=after, args=(folder, speak), daemon=True).start()
                await run_rollout(config, hooks=Hooks(guidance=mailroom))
                over.set()
            for _, nodes in walks(folder):
                starts = [node.started for node in nodes if node.author is Author.POLICY]
                found[guided] += [end - begin for begin, end in zip(starts, starts[1:], strict=False)]
    with_it, without = statistics.median(found[True]), statistics.median(found[False])
    return {"with_ms": with_it * 1000, "without_ms": without * 1000, "more": with_it / without - 1}


PARTS = ("timings", "kills", "latency", "console_kills", "console_latency")


def main() -> int:
    """Measure, print, write. What is not measured now keeps the figures of the last time."""
    parser = arguments(__doc__)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    if given.quick:
        given.words, given.kills, given.pairs = 60, 3, 2
    before = load()
    found: dict[str, Any] = {}
    if set(given.parts) < set(PARTS):
        kept = RESULTS / f"guidance{'.quick' if given.quick else ''}.json"
        found |= json.loads(kept.read_text())["details"] if kept.exists() else {}
    work = {
        "timings": lambda: timings(given.words, 8, given.seed),
        "kills": lambda: kills(given.kills, given.seed),
        "latency": lambda: latency(given.pairs, given.seed),
        "console_kills": lambda: console_kills(given.kills, given.seed),
        "console_latency": lambda: console_latency(given.pairs, given.seed),
    }
    for part in given.parts:
        found[part] = json.loads(json.dumps(asyncio.run(work[part]())))
    wrong, more = _wrong(found), [found[part]["more"] for part in ("latency", "console_latency") if part in found]
    measured = Measurement(
        name="guidance",
        question="Words of people to agents at work",
        bar="0 words late, lost or heard twice; a turn at most 1 % longer",
        ratio=round(max(more, default=0.0), 4),
        holds=not wrong and all(each < 0.01 for each in more),
        rows=[row for part in PARTS if part in found for row in ROWS[part](found[part])],
        details=found,
        quick=given.quick,
    )
    return hand_in(measured, before)


def _wrong(found: dict[str, Any]) -> int:
    """How many words came late, were lost, or were heard twice."""
    return sum(part.get(name, 0) for part in found.values() for name in ("late", "missing", "lost", "twice"))


def _row(what: str, measured: object) -> dict[str, Any]:
    return {"what": what, "measured": measured}


ROWS = {
    "timings": lambda heard: [
        _row("words said at random moments", heard["said"]),
        _row("of them after a turn that began later", heard["late"]),
        _row("of them never delivered", heard["missing"]),
    ],
    "kills": lambda killed: [
        _row("kills of the agent / of who speaks", f"{killed['agents']} / {killed['speakers']}"),
        _row("words acknowledged meanwhile, each to every episode", f"{killed['said']} to {killed['to']}"),
        _row("of them lost", killed["lost"]),
        _row("of them heard twice", killed["twice"]),
    ],
    "latency": lambda cost: [
        _row("a turn without a mailroom, ms (median)", round(cost["without_ms"], 3)),
        _row("a turn with one, and words, ms (median)", round(cost["with_ms"], 3)),
    ],
    "console_kills": lambda killed: [
        _row("kills of the agent / of the console people speak through", f"{killed['agents']} / {killed['consoles']}"),
        _row("words acknowledged by the console, each to every episode", f"{killed['said']} to {killed['to']}"),
        _row("of them said again, for no answer had come", killed["said_again"]),
        _row("of those lost", killed["lost"]),
        _row("of those heard twice", killed["twice"]),
    ],
    "console_latency": lambda cost: [
        _row("a turn without a console, ms (median)", round(cost["without_ms"], 3)),
        _row("a turn with one, and a page that follows, ms (median)", round(cost["with_ms"], 3)),
    ],
}


if __name__ == "__main__":
    sys.exit(main())
