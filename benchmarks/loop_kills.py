"""A loop that is killed again and again, against one that was left alone.

    .venv/bin/python benchmarks/loop_kills.py --loop flywheel --kills 50

One loop runs undisturbed. Others, of the same configuration in folders of their own, are killed with `kill -9` after a
time drawn from the seed: the loop alone (its worker must end itself), every process it has started, or one of those
alone (`--what`: a worker, a model server, a host of environments). A loop that goes on or stops in one line after the
last is right; what has ended is begun again with the same command, until the loop is done. Both must hold the same:
versions (weights by digest, parents, what became of them), decisions with their figures, samples by file digest (by
content where an attempt was played again, whose number stands in the file), and of every run the tree of every attempt
that counts: ids, texts, scores, exactly one record for each.

A tiny policy, real rollouts, training and promotion. `--loop sport`: searches, pairs and the check of its verifier must be
the same, too. `--loop coevolve`: contexts, candidates and the tasks that grew, with their solutions and why others were
refused. `--loop curateevo`: the curations, with every judgement.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "loops"))

from small_coevolve import growing
from small_curateevo import curating
from small_flywheel import COMMAND, configuration, sums
from small_sport import preferring

RESULTS = Path(__file__).with_name("results")
LOOPS = ("flywheel", "sport", "coevolve", "curateevo")
KINDS = ("loop", "everything", "one")
KEPT = (
    *("verdict", "promoted", "rolled_back", "candidate", "head", "sha256", "content", "tasks", "success", "reward"),
    *("pairs", "statistics", "right", "told"),
    *(
        "played",
        "mixed",
        "signals",
        "contexts",
        "turns",
        "candidates",
        "known",
        "accepted",
        "waiting",
        "refused",
        "by_signal",
    ),
    *("digest", "data", "p", "j", "by_seed", "versions", "kept", "why", "points", "parent"),
)
"""What a stage says that no time and no place is in."""
MOST_SECONDS = 900.0
"""A part of a loop that lasts longer hangs."""


def begin(config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the loop as a command of its own session."""
    os.environ["SILVA_LOCAL_DTYPE"] = "float64"  # what is computed beside a reply changes nothing of it
    kind = str(yaml.safe_load(config.read_text(encoding="utf-8")).get("loop", LOOPS[0]))
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, kind, str(config)], stdout=out, stderr=out, start_new_session=True
        )


def descendants(pid: int) -> list[int]:
    """A process and all it has started, the deepest first."""
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [below for child in children for below in descendants(child)] + [pid]


def kill(process: subprocess.Popen[bytes], what: str, chance: random.Random) -> str:
    """Kill the `loop`, `everything` it has started too, or `one` of the processes it has started, alone; return which it
    was: that one by the module it runs, "" where there was none."""
    below = descendants(process.pid)
    if what == "one":
        below = [pid for pid in below if pid != process.pid]
        below = [chance.choice(below)] if below else []
    elif what == "loop":
        below = [process.pid]
    told = ", ".join(map(module, below)) if what == "one" else what
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if what != "one":
        process.wait()
    return told


def module(pid: int) -> str:
    """The module that a process runs, or its program's name."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return words[words.index("-m") + 1] if "-m" in words[:-1] else Path(words[0]).name


def state(folder: Path) -> dict[str, Any]:
    """What a finished loop holds, without times and paths."""

    from silva.curate.curation.versions import Curations
    from silva.lake import Lake
    from silva.loops.kernel.kinds import read_loop
    from silva.loops.line.head import registry
    from silva.loops.roles import born

    loop = read_loop(folder)[1]
    line = registry(loop).line(loop.config.line)
    versions = [(v.name, v.digest, v.parent, v.kind, line.status(v), v.data.samples) for v in line.versions]
    events = [(event.what, event.number, event.before) for event in line.events]
    outputs = {
        name: {key: entry.outputs[key] for key in KEPT if key in entry.outputs} | {"event": entry.event}
        for name, entry in loop.ledger.over().items()
    }
    lake = Lake.open(loop.lake, mode="read")
    runs: dict[str, Any] = {}
    again = 0
    for run in sorted(lake.runs(), key=lambda each: each.id):
        attempts: dict[str, str] = {}
        for t in lake.trajectories(run_id=run.id):
            if t.superseded:
                again += 1
                continue
            place = f"{t.task_id} #{t.index}"
            assert place not in attempts, f"{run.id}: {place} stands twice"
            known = hashlib.sha256(f"{t.outcome.status} {t.outcome.score}".encode())
            for node in lake.walk(t):
                ids = node.tokens.ids if node.tokens else ()
                known.update(f"{node.author} {node.message.text} {list(ids)}".encode())
            attempts[place] = known.hexdigest()[:16]
        runs[run.id] = attempts
    made = {
        "curations": [_judged(each) for each in Curations(loop.lake, loop.config.line).versions()],
        "grown": {run: dict(_born(*each) for each in born(lake, run)) for run in runs},
    }
    held = {"versions": versions, "events": events, "stages": outputs, "runs": runs, "again": again, **made}
    return json.loads(json.dumps(held))


def _judged(version: Any) -> list[Any]:
    found = [
        (each.p, each.c, each.j, each.turns, each.seeds, each.epoch, each.verdict, each.why) for each in version.judged
    ]
    return [version.digest, version.parent, version.author, version.phase, version.note, found]


def _born(task: Any, how: Any) -> tuple[str, list[Any]]:
    solution = [str(each) for each in how.solution]
    return f"{task.id} {how.goal.words}", [how.verdict, how.reason, how.parent, how.source.signal, solution]


def differences(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """Where two loops differ, in words."""
    found = [f"{part} differ" for part in ("versions", "events", "curations") if left[part] != right[part]]
    # The file names the attempt a sample is of; `content` holds what is trained on.
    passed_over = {"sha256"} if left["again"] or right["again"] else set[str]()
    for part in ("stages", "runs", "grown"):
        for name in sorted(left[part].keys() | right[part].keys()):
            one, other = left[part].get(name), right[part].get(name)
            if one != other:
                keys = sorted((one or {}).keys() | (other or {}).keys())
                places = [key for key in keys if (one or {}).get(key) != (other or {}).get(key)]
                places = [key for key in places if key not in passed_over]
                if keys and not places:
                    continue
                found.append(f"{part} {name}: {', '.join(places[:4])}{' …' if len(places) > 4 else ''}")
    return found


def undisturbed(root: Path, loop: str) -> tuple[dict[str, Any], float]:
    """The loop that is left alone: what it holds, and its seconds."""
    config = write(root / "alone", loop)
    started = time.monotonic()
    process = begin(config, root / "alone.log")
    code = process.wait(MOST_SECONDS)
    assert code == 0, f"the undisturbed loop ended with {code}: {(root / 'alone.log').read_text()[-2000:]}"
    return state(root / "alone"), time.monotonic() - started


def write(folder: Path, loop: str) -> Path:
    """The configuration's file, beside the loop's folder."""
    config = folder.with_suffix(".yaml")
    config.parent.mkdir(parents=True, exist_ok=True)
    tasks = sums(folder.with_name("tasks.jsonl"), 90)
    match loop:
        case "sport":
            values = preferring(folder, tasks, line="killed")
        case "coevolve":
            values = growing(folder, line="killed")
        case "curateevo":
            values = curating(folder, line="killed", candidates={"effect": 2, "efficiency": 1}, ablate={})
        case _:
            values = configuration(folder, tasks, line="killed", seeds=2, played=16, steps=12, every=10)
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
    return config


def stopped(folder: Path) -> bool:
    """Whether a loop ended because a stage failed, which it then says how to go on from."""

    from silva.loops.kernel.kinds import read_loop

    entries = read_loop(folder)[1].ledger.entries
    return bool(entries) and entries[-1].event == "failed"


def disturbed(
    root: Path, loop: str, number: int, most: int, chance: random.Random, longest: float, kinds: list[str]
) -> tuple[dict[str, Any], list[str]]:
    """A loop that is killed at most so often; what it holds, and what was killed."""
    folder = root / f"killed-{number}"
    config, log = write(folder, loop), root / f"killed-{number}.log"
    kills = list[str]()
    struck = 0
    process = begin(config, log)
    while True:
        try:
            code = process.wait(chance.uniform(0.2, longest) if len(kills) < most else MOST_SECONDS)
        except subprocess.TimeoutExpired:
            if len(kills) >= most:
                kill(process, "everything", chance)
                raise SystemExit(f"loop {number} hangs: {log.read_text()[-2000:]}") from None
            killed = kill(process, chance.choice(kinds), chance)
            kills += [killed] if killed else []
            if process.poll() is None:  # one of its processes was killed, and it may live with that
                struck += 1
                continue
            process = begin(config, log)
            continue
        if code and struck and stopped(folder):
            struck = 0  # of what was killed, and said so
            process = begin(config, log)
            continue
        assert code == 0, f"loop {number} ended with {code} after {len(kills)} kills: {log.read_text()[-2000:]}"
        return state(folder), kills


def main() -> int:
    """Run, compare, write the result."""
    parser = argparse.ArgumentParser(description="A loop killed again and again, against one left alone.")
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[0], help="the kind of loop")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--longest", type=float, default=20.0, help="seconds after which a part is killed at the latest"
    )
    parser.add_argument("--what", choices=KINDS, action="append", help="only these kinds of kills; repeat for several")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=None, help="work here, and leave it there")
    parser.add_argument("--output", type=Path, default=None, help="results/LOOP_kills.json")
    given = parser.parse_args()
    root = given.keep or Path(tempfile.mkdtemp(prefix="silva-kills-"))
    chance = random.Random(given.seed)
    expected, seconds = undisturbed(root, given.loop)
    print(
        f"undisturbed: {seconds:.0f} s, {len(expected['versions'])} versions, {len(expected['runs'])} runs", flush=True
    )
    kinds, loops, wrong, again = given.what or list(KINDS), 0, list[str](), 0
    kills = list[str]()
    while len(kills) < given.kills:
        loops += 1
        found, more = disturbed(root, given.loop, loops, given.kills - len(kills), chance, given.longest, kinds)
        kills += more
        again += found["again"]
        wrong += [f"loop {loops}: {each}" for each in differences(expected, found)]
        print(f"loop {loops}: {len(more)} kills, {len(wrong)} differences so far", flush=True)
    if given.keep is None:
        shutil.rmtree(root, ignore_errors=True)
    attempts = sum(map(len, expected["runs"].values()))
    body = {
        "kills": len(kills),
        "killed": dict(Counter(kills).most_common()),
        "played_again": again,
        "loops": loops,
        "differences": wrong,
        "versions": len(expected["versions"]),
        "attempts": attempts,
        "undisturbed_seconds": round(seconds, 1),
    }
    (given.output or RESULTS / f"{given.loop}_kills.json").write_text(
        json.dumps(body, indent=2) + "\n", encoding="utf-8"
    )
    print(json.dumps(body, indent=2))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
