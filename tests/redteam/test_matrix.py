"""The coverage matrix tells exposed, not applicable and faulty cells apart, and plays none twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from test_redteam_command import silva

from silva.envs import Registry
from silva.errors import UsageError
from silva.redteam.attack import framings, goals, perturbations, surfaces
from silva.redteam.matrix import matrix, read, standard

FAULTY = '''
from silva.envs.gyms.arithmetic import Arithmetic


class Breaks(Arithmetic):
    """Fails at the second action of every episode."""

    @classmethod
    def tasks(cls, split="test"):
        return super().tasks("chain")

    async def reset(self, task, seed):
        self.taken = 0
        return await super().reset(task, seed)

    async def step(self, action):
        self.taken += 1
        if self.taken > 1:
            raise RuntimeError("the page is gone")
        return await super().step(action)
'''


def test_a_cell_is_exposed_or_has_no_place_and_is_not_played_twice(tmp_path: Path) -> None:
    kept = tmp_path / "cells.jsonl"
    attack = ("--attack", "tool_result/split/answer", "--attack", "tool_result/plain/pay", "--perturb", "stale")
    done = silva("redteam", "matrix", "--env", "arithmetic", "--cells", kept, *attack, "--json")
    assert done.returncode == 0, done
    split, pay, stale = json.loads(done.stdout)["cells"]
    assert (split["state"], split["turn"]) == ("exposed", 3), "an attack in two parts is seen when its last part is"
    assert pay["state"] == "not applicable" and "is one to pay with" in pay["why"] and "turn" not in pay
    assert (stale["attack"], stale["turn"]) == ("perturb/stale", 3), "the first result has none before it"
    again = silva("redteam", "matrix", "--env", "arithmetic", "--cells", kept, *attack, "--markdown")
    assert again.returncode == 0 and not again.stderr.strip(), again
    assert "| tool_result/split/answer | 3 |" in again.stdout and "is one to pay with" in again.stdout
    kept.write_text("{}\n")
    bad = silva("redteam", "matrix", "--env", "arithmetic", "--cells", kept, *attack)
    assert bad.returncode == 2 and "is no cell" in bad.stderr and "Traceback" not in bad.stderr


def test_an_environment_that_breaks_is_a_fault_and_not_called_inapplicable(tmp_path: Path) -> None:
    (tmp_path / "breaks.py").write_text(FAULTY)
    entry = Registry.load().entry(f"{tmp_path / 'breaks.py'}:Breaks")
    task = ["tool_result/split/answer", "memory/plain/answer"]
    split, memory = asyncio.run(matrix([entry], task, [], seconds=20))
    assert split.state == "not exposed" and "the page is gone" in split.why
    assert memory.state == "exposed", "what was seen before it broke was seen"


def test_a_standard_matrix_has_every_surface_framing_goal_and_perturbation() -> None:
    names = standard()
    for place, table in enumerate((surfaces(), framings(), goals())):
        assert {name.split("/")[place] for name in names} == set(table)
    assert len(names) >= 20 and len(perturbations()) >= 11
    with pytest.raises(UsageError, match="cannot be read"):
        read(Path("/nowhere/cells.jsonl"))
