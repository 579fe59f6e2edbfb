"""What people say: does it reach the very next turn, is any of it lost when processes are killed, what does a turn cost?

    .venv/bin/python benchmarks/guidance.py [--words 1000] [--kills 50] [--pairs 20]

timings   people speak at random moments to episodes at work; a word's node must stand before every turn that began after
          it was said
kills     the rollout is killed with `kill -9` and resumed, again and again, while a process that is killed too goes on
          speaking; every word that was acknowledged must be in the lake once for every episode
latency   the same run with and without a mailroom, in turns, 50 words in each that has one; a turn's time, model and all

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

from report import Measurement, arguments, hand_in, load
from silva.errors import StoreError
from silva.guide import post
from silva.guide.mailroom import Mailroom
from silva.lake import Lake
from silva.models.scripted import Latency, Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.run import Hooks
from silva.tree import Author, Node, Trajectory, trajectory_id

MODEL = '''
def reply(request):
    """Adds 1 for as long as it may."""
    made = sum(message["role"] == "tool" for message in request["messages"])
    return {"tool_calls": [{"name": "add", "arguments": {"number": 1}, "id": f"c{made}"}]}
'''
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


def settings(folder: Path, url: str, turns: int, episodes: int) -> RolloutConfig:
    """A run of chains that last `turns` turns."""
    return RolloutConfig.model_validate(
        {
            "run": "r",
            "env": ("arithmetic",),
            "lake": str(folder / "lake"),
            "model": f"{url}#scripted",
            "tasks": {"split": "chain", "limit": 1},
            "group": episodes,
            "pool": episodes,
            "budget": {"turns": turns},
            "retries": 0,
            "hosts": {"inline": True},
        }
    )


def serve(folder: Path, seconds: float) -> ScriptedServer:
    """The model; a reply takes `seconds` in the mean."""
    (folder / "model.py").write_text(MODEL)
    return ScriptedServer(Script(function="model.py:reply", folder=str(folder), latency=Latency(mean=seconds)))


def walks(folder: Path) -> list[tuple[Trajectory, list[Node]]]:
    """Every attempt with its nodes, root first."""
    with Lake.open(folder / "lake", mode="read") as lake:
        return [(each, list(lake.walk(each))) for each in lake.trajectories(run_id="r")]


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
                thread = threading.Thread(target=_after, args=(folder, lambda: speak(ids)), daemon=True)
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
            after = next(
                (i for i, node in enumerate(nodes) if node.author is Author.POLICY and node.started > at), None
            )
            if place is None:
                missing += after is not None
            elif after is not None and place > after:
                late += 1
        return {"said": len(said), "late": late, "missing": missing}


def _after(folder: Path, speak: Any) -> None:
    """Speak once the run is in its lake."""
    while True:
        try:
            with Lake.open(folder / "lake", mode="read") as lake:
                if lake.run("r") is not None and lake.nodes(run_id="r", limit=1):
                    break
        except StoreError:
            time.sleep(0.05)  # there is no lake yet
            continue
        time.sleep(0.05)
    speak()


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
            await asyncio.to_thread(_after, folder, lambda: None)
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
                    threading.Thread(target=_after, args=(folder, speak), daemon=True).start()
                await run_rollout(config, hooks=Hooks(guidance=mailroom))
                over.set()
            for _, nodes in walks(folder):
                starts = [node.started for node in nodes if node.author is Author.POLICY]
                found[guided] += [after - before for before, after in zip(starts, starts[1:], strict=False)]
    with_it, without = statistics.median(found[True]), statistics.median(found[False])
    return {"with_ms": with_it * 1000, "without_ms": without * 1000, "more": with_it / without - 1}


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.quick:
        given.words, given.kills, given.pairs = 60, 3, 2
    before = load()
    heard = asyncio.run(timings(given.words, 8, given.seed))
    killed = asyncio.run(kills(given.kills, given.seed))
    cost = asyncio.run(latency(given.pairs, given.seed))
    rows = [
        {"what": "words said at random moments", "measured": heard["said"]},
        {"what": "of them after a turn that began later", "measured": heard["late"]},
        {"what": "of them never delivered", "measured": heard["missing"]},
        {"what": "kills of the agent / of who speaks", "measured": f"{killed['agents']} / {killed['speakers']}"},
        {
            "what": "words acknowledged meanwhile, each to every episode",
            "measured": f"{killed['said']} to {killed['to']}",
        },
        {"what": "of them lost", "measured": killed["lost"]},
        {"what": "of them heard twice", "measured": killed["twice"]},
        {"what": "a turn without a mailroom, ms (median)", "measured": round(cost["without_ms"], 3)},
        {"what": "a turn with one, and words, ms (median)", "measured": round(cost["with_ms"], 3)},
    ]
    measured = Measurement(
        name="guidance",
        question="Words of people to agents at work",
        bar="0 words late, lost or heard twice; a turn at most 1 % longer",
        ratio=round(cost["more"], 4),
        holds=not any((heard["late"], heard["missing"], killed["lost"], killed["twice"])) and cost["more"] < 0.01,
        rows=rows,
        details=json.loads(json.dumps({"timings": heard, "kills": killed, "latency": cost})),
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
