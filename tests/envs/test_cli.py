"""The commands, in real processes: output, JSON, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BAD = """
from silva.envs import Capabilities, Evaluation, Observation
from silva.tree import Task, assistant

class Unfair:
    capabilities = Capabilities()
    @classmethod
    def tasks(cls, split="test"):
        return [] if split == "none" else [Task(id=f"unfair/{n}", env="Unfair") for n in range(3)]
    async def reset(self, task, seed):
        self.task = task
        return Observation()
    async def step(self, action):
        if self.task.id == "unfair/2":
            raise RuntimeError("no third way")
        return Observation(done=True)
    async def evaluate(self):
        return Evaluation(score=0.5, success=False)
    async def expert(self):
        return assistant("x")
    async def null(self):
        return assistant()
    async def close(self):
        pass
"""


@pytest.fixture
def silva(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from silva.cli.main import main; main()", "envs", *arguments]
        home = {"SILVA_HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **home})

    Path(tmp_path / "bad.py").write_text(BAD)
    return run


def test_list_and_show_and_tasks(silva):
    assert "arithmetic" in silva("list").stdout
    listed = {row["name"]: row for row in json.loads(silva("list", "--json").stdout)}
    assert listed["arithmetic"]["state"] == "here"
    shown = json.loads(silva("show", "arithmetic", "--json").stdout)
    assert shown["capabilities"]["max_turns"] == 12
    assert silva("tasks", "arithmetic", "--limit", "2").stdout.count("\n") == 2
    (task,) = json.loads(silva("tasks", "arithmetic", "--id", "arithmetic/test/7", "--json").stdout)
    assert task["data"]["numbers"]


def test_test_holds(silva):
    done = silva("test", "arithmetic", "--n", "5", "--json")
    (made,) = json.loads(done.stdout)
    assert done.returncode == 0 and made["holds"] and made["sample"] == 5
    table = silva("test", "arithmetic", "--split", "chain", "--markdown").stdout
    assert "| arithmetic | chain | 200 | 20 | 1.000 | 0.000 |" in table


def test_a_check_that_fails_is_told_and_exits_1(silva):
    done = silva("test", "bad.py:Unfair")
    assert done.returncode == 1
    assert "expert 0.500 on 3 of 3 tasks (must be at least 1), 2 turns: FAILS" in done.stdout
    assert "null 0.500" in done.stdout and "FAILS" in done.stdout.splitlines()[1]
    assert "unfair/0: 0.5" in done.stderr and "unfair/2: Unfair: step: RuntimeError: no third way" in done.stderr


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["show", "arithmetik"], 2, "did you mean arithmetic"),
        (["test"], 2, "give one environment, or --all"),
        (["test", "arithmetic", "--split", "tset"], 2, "no split 'tset'"),
        (["test", "bad.py:Unfair", "--split", "none"], 2, "has no tasks"),
        (["tasks", "arithmetic", "--id", "arithmetic/test/1x"], 2, "near: arithmetic/test/1"),
        (["test", "babyai"], 3, "run: silva envs install babyai"),
        (["install", "arithmetic"], 2, "needs no install"),
        (["test", "bad.py:Absent"], 6, "AttributeError"),
    ],
)
def test_mistakes_are_one_line_with_the_right_code(silva, arguments, code, says):
    done = silva(*arguments)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_of_the_working_folder_stands_for_no_library_and_may_be_named(silva, tmp_path):
    (tmp_path / "random.py").write_text("raise SystemExit('not what was asked for')\n")
    command = [sys.executable, "-P", "-m", "silva", "envs", "tasks"]
    environ = {**os.environ, "SILVA_HOME": str(tmp_path / "home"), "COLUMNS": "200"}
    for target, first in (("arithmetic", "arithmetic/"), ("bad:Unfair", "unfair/0")):
        done = subprocess.run(
            [*command, target, "--limit", "1"], capture_output=True, text=True, cwd=tmp_path, env=environ
        )
        assert done.returncode == 0 and first in done.stdout, done.stderr
