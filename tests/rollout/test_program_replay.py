"""A program's trajectory is played with what the policy said, and is the same only where all of it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from silva.lake import Lake
from silva.rollout import RolloutConfig, run_rollout
from silva.tree import Trajectory, Tree
from silva.tree.copies import REWRITES, turns_on

# Asks twice with the same words, sends replies back in words of its own, and has a sub-agent.
AGENT = """
import json, os, pathlib, sys, urllib.request

def ask(*messages):
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "any", "messages": messages}).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]

said = lambda role, content: {"role": role, "content": content}
first, second = ask(said("user", "draw")), ask(said("user", "draw"))
inner = [said("system", "sub-agent"), said("user", f"add {first} and {second}")]
found = ask(*inner)
if pathlib.Path(os.environ["NOTE"]).exists():
    found = ask(*inner, said("assistant", found), said("user", "sure?"))
history = [said("user", "work")]
for step in range(3):
    reply = ask(*history)
    history += [said("assistant", f"I noted: {reply}"), said("user", f"step {step}: {found}")]
pathlib.Path("sum.txt").write_text("43")
print(reply)
"""
# Says another number each time: nothing but a record of it can say the same again.
MODEL = """
count = 0

def reply(request):
    global count
    count += 1
    return f"number {count}"
"""

# Gives every message of its own an id that it draws, as Codex does, and the last one a number in its words, too.
DRAWS = """
import json, os, urllib.request, uuid

def ask(*items):
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses",
        json.dumps({"model": "any", "input": items}).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["output"]

def said(text):
    parts = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "id": f"msg_{uuid.uuid4()}", "content": parts}

history = [said("work")]
history += [*ask(*history), said(f"go on {uuid.uuid4()}")]
ask(*history)
"""


def replayed(trajectory: str, lake: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "silva", "trees", "replay", trajectory, "--lake", str(lake)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


async def rolled_out(agent: str, folder: Path) -> Trajectory:
    """What an agent of these lines came to; NOTE names the file `note` of the folder."""
    (folder / "agent.py").write_text(agent)
    (folder / "model.py").write_text(MODEL)
    (folder / "script.json").write_text(json.dumps({"function": "model.py:reply"}))
    given: dict[str, Any] = {
        "run": "p",
        "env": ("workspace",),
        "model": f"scripted:{folder / 'script.json'}",
        "agent": f"program: {sys.executable} {folder / 'agent.py'} {{prompt}}",
        "lake": str(folder / "lake"),
        "tasks": {"ids": ("workspace/sum",)},
        "program": {"mounts": [str(folder)], "variables": {"NOTE": str(folder / "note")}},
    }
    (trajectory,) = (await run_rollout(RolloutConfig.model_validate(given))).trajectories
    return trajectory


async def test_a_client_that_rewrites_draws_twice_and_delegates_is_played_as_it_was(tmp_path: Path) -> None:
    trajectory, note = await rolled_out(AGENT, tmp_path), tmp_path / "note"
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        tree = Tree(lake.nodes(run_id="p"))
    walk = tree.walk(trajectory.leaf_id or "")
    assert trajectory.turns == 6 and len(turns_on(walk)) == 3, (
        "one conversation of three turns, however it is rewritten"
    )
    assert sum(REWRITES in node.attributes for node in walk) == 2
    same = replayed(trajectory.id, tmp_path / "lake")
    assert same.returncode == 0 and same.stdout.startswith("same: 6 turns"), same
    note.write_text("the sub-agent asks once more now")
    other = replayed(trajectory.id, tmp_path / "lake")
    assert other.returncode == 1 and "the program ended with code 1" in other.stdout, "a turn that was never taken"


async def test_ids_that_a_client_draws_are_not_compared_and_numbers_in_its_words_are_named(tmp_path: Path) -> None:
    trajectory = await rolled_out(DRAWS, tmp_path)
    other = replayed(trajectory.id, tmp_path / "lake")
    assert other.returncode == 1 and other.stdout.startswith("diverged at turn 1, message 2:"), other
