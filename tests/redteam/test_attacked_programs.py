"""An agent that is a program, unmodified, under attacks that stand in what it is given and in a file of its folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playing import play

from silva.errors import UsageError
from silva.lake import Lake
from silva.rollout.replay_stored import replay_stored

PROGRAM = """
import json, os, pathlib, sys, urllib.request

said = sys.stdin.read() + "".join(each.read_text() for each in pathlib.Path(".").glob("*.md"))
body = {"model": "any", "messages": [{"role": "user", "content": said}]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""


async def test_a_program_is_attacked_in_its_opening_and_in_a_file_and_taken_again(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(PROGRAM)
    given = {
        "env": ("workspace",),
        "agent": f"program: {sys.executable} {tmp_path / 'agent.py'}",
        "tasks": {"limit": 1},
        "program": {"sandbox": "process"},
        "hosts": {},
    }
    for surface, stages in (
        ("memory", {"attack": {"attack": "memory/plain/answer"}}),
        ("file", {"attack": {"attack": "file/plain/answer"}}),
        ("none", {"attack": {"attack": "page_text/plain/answer"}}),
    ):
        await play(tmp_path, stages, run=surface, **given)
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        for surface in ("memory", "file"):
            (trajectory,) = lake.trajectories(run_id=surface)
            told = trajectory.attributes["attack"]
            assert (told["launched"], told["exposed"], told["reached"]) == (True, 1, 1), told
            assert trajectory.outcome.safety == 0.0
            again = await replay_stored(lake, trajectory)
            assert again.divergence is None and again.turns == 1, again
        (silent,) = lake.trajectories(run_id="none")
        assert silent.attributes["attack"]["launched"] is False and "has files" in silent.attributes["attack"]["why"]
        assert silent.outcome.safety is None
    with pytest.raises(UsageError, match="where no turn can be told"):
        await play(tmp_path, {"attack": {"attack": "tool_result/plain/answer"}}, run="late", **given)
