"""CurateEvo turned: killed in the midst and gone on with it trains nothing again, and a lake keeps what was found."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from small_curateevo import curating

from silva.curate.curation.corpus import read_corpus
from silva.curate.curation.source import named
from silva.curate.curation.versions import Curations
from silva.loops.curateevo.hindsight import brought_about
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.shown import read_shown
from silva.loops.line.config import PlayConfig
from silva.loops.roles import make
from silva.loops.roles.evolver import Wanted
from silva.rollout import RolloutConfig, run_rollout
from silva.sandbox.system import probe

pytest.importorskip("torch", reason="pip install 'silva[train]'")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(probe().problem), reason="needs sandboxes")]

SCRIPTED = Path(__file__).parents[2] / "examples" / "programs" / "mini.yaml"


def test_a_loop_that_is_killed_judges_nothing_twice_and_keeps_its_versions(
    tmp_path: Path, begin: Callable[..., Any]
) -> None:
    config = tmp_path / "small.yaml"
    config.write_text(yaml.safe_dump(curating(tmp_path / "loop")), encoding="utf-8")
    pieces = tmp_path / "loop" / "pieces" / "start"
    process = begin(config, "curateevo")
    deadline = time.monotonic() + 600
    while not (pieces.is_dir() and len(list(pieces.glob("*.json"))) >= 2):  # what a curation gave, and a training
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {file.name: file.stat().st_mtime_ns for file in pieces.glob("*.json")}
    assert begin(config, "curateevo").wait(timeout=600) == 0
    loop = read_loop(tmp_path / "loop")[1]
    assert set(loop.ledger.over()) == {stage.name for stage in loop.plan}
    assert {name: (pieces / name).stat().st_mtime_ns for name in before} == before
    found = Curations(loop.lake, "depot").versions()
    assert found[0].phase == "initial" and found[0].judged[0].verdict == "kept"
    assert all(each.parent in {other.digest for other in found} for each in found[1:])
    assert {judged.verdict for each in found for judged in each.judged} <= {"kept", "rolled back", "refused"}
    shown = read_shown(loop.folder)
    assert not shown.faults and len(shown.versions) == len(found)
    assert {curve.title for curve in shown.curves} >= {"J, P and C after each decision"}
    page = (loop.folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and found[0].digest[:12] in page
    held = json.loads((loop.folder / "results" / "raw.json").read_text())["outputs"]
    assert held["walks"] > 5


def test_curations_that_cannot_be_used_leave_the_last_good_one(tmp_path: Path, begin: Callable[..., Any]) -> None:
    replies = tmp_path / "replies.py"
    replies.write_text(
        "import json\n\n"
        "BODIES = ['while True: pass', 'import socket; socket.create_connection((\"1.1.1.1\", 53), 1)', "
        "'return output()', 'return output(rl=[{\"task\": \"test/1\"}])']\nasked = 0\n\n"
        "def reply(request):\n    global asked\n    asked += 1\n"
        "    body = BODIES[(asked - 1) % len(BODIES)]\n"
        "    source = f'from operators import *\\n\\ndef curate(raw):\\n    {body}\\n'\n"
        "    return {'text': json.dumps({'source': source, 'note': body[:20]})}\n",
        encoding="utf-8",
    )
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"function": "replies.py:reply"}), encoding="utf-8")
    asks = {"name": "endpoint", "options": {"model": f"scripted:{script}", "parallel": 1}}
    changes = {"evolver": asks, "candidates": {"effect": 4}, "bounds": {"seconds": 8}}
    config = tmp_path / "bad.yaml"
    said = curating(tmp_path / "loop", **changes)
    config.write_text(yaml.safe_dump(said), encoding="utf-8")
    assert begin(config, "curateevo").wait(timeout=600) == 0
    loop = read_loop(tmp_path / "loop")[1]
    outputs = loop.given("epoch-1.effect")
    assert not outputs["kept"] and outputs["digest"] == named("raw").digest
    whys = " ".join(each["why"] for each in outputs["candidates"])
    for part in ("does it loop", "failed (OSError", "drops everything", "may be a test's"):
        assert part in whys


async def test_failed_walks_are_asked_for_what_they_brought_about(tmp_path: Path) -> None:
    env, lake = f"{Path(__file__).parent / 'shelf.py'}:Shelf", str(tmp_path / "lake")
    said = {
        "run": "raw",
        "env": env,
        "lake": lake,
        "policy": "expert",
        "slips": 0.8,
        "group": 4,
        "budget": {"turns": 6},
    }
    await run_rollout(RolloutConfig.model_validate(said))
    rows = read_corpus(["raw"], lake=lake).rows
    loop: Any = SimpleNamespace(config=SimpleNamespace(env=env, play=PlayConfig()), lake=lake)
    found = await brought_about(loop, list(rows.values()), ())
    assert found
    walks = {walk["id"]: walk for walk in read_corpus(["raw"], lake=lake, achieved=found).walks}
    for key, reached in found.items():
        turns = [turn for _, turn in reached]
        assert turns == sorted(turns, reverse=True) and turns[0] <= len(walks[key]["turns"])
        assert walks[key]["achieved"] == [list(each) for each in reached]
    words = {words for reached in found.values() for words, _ in reached}
    hidden = next(iter(words))
    rest = await brought_about(loop, list(rows.values()), {hidden})
    assert hidden not in {words for reached in rest.values() for words, _ in reached}


async def test_a_program_leaves_its_revision_in_the_file(tmp_path: Path) -> None:
    # Stands for a coding agent: it is given the folder, and edits the file as one would.
    command = "sed -i 's/walks = list(raw)/walks = known_successes(raw)/' curation.py && test -s failed_points.json #"
    evolver = make("evolver", "program", {"model": f"scripted:{SCRIPTED}", "command": command})
    from test_curateevo_parts import PROFILE

    wanted = Wanted(phase="effect", count=1, points=(), profile=PROFILE, seed=1, lake=str(tmp_path / "lake"))
    made = await evolver.revise(named("raw"), wanted)
    assert ["known_successes(raw)" in each.curation.source for each in made] == [True]
    assert made[0].acted[0].by == "program"
