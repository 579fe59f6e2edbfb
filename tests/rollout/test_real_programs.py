"""Unmodified programs as agents: found by their variables alone, scored by the task's own check, on one tree, played
again and exported. Each is told by a script what to do about the task workspace/fix."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installed_programs import node_program, python_program
from silva.lake import Lake
from silva.rollout import RolloutConfig, run_rollout
from silva.sandbox.system import probe
from silva.tree import Author, Node, Trajectory, Tree

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"
SHELL = EXAMPLES / "shell.yaml"
# What shell.yaml makes of every program with one tool: two calls at once in the second turn.
LOOP = ["system", "user", "assistant", "tool", "assistant", "tool", "tool", "assistant"]

both = pytest.mark.parametrize(
    "sandbox",
    [
        pytest.param("namespaces", marks=pytest.mark.skipif(bool(probe().problem), reason="no sandboxes here")),
        pytest.param("process", marks=pytest.mark.weekly),
    ],
)


def silva(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "silva", *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False
    )


class Played:
    """A rollout by the command line: what it left, and the commands that look at it."""

    def __init__(
        self, folder: Path, command: str, script: Path, sandbox: str, *mounts: Path, group: int = 1, **variables: str
    ) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        settings = {"mounts": [str(path) for path in mounts], "variables": variables, "sandbox": sandbox}
        given = [f"program.{name}={json.dumps(value)}" for name, value in settings.items()]
        what = ("--env", "workspace", "--task", "workspace/fix", "--model", f"scripted:{script}", "--run", "real")
        done = silva("rollout", *what, "--agent", f"program: {command}", "--lake", self.lake, f"group={group}", *given)
        assert done.returncode == 0, done
        with Lake.open(self.lake, mode="read") as lake:
            self.trajectories: list[Trajectory] = lake.trajectories(run_id="real")
            self.tree = Tree(lake.nodes(run_id="real"))
            self.walk: list[Node] = list(lake.walk(self.trajectories[0]))
        for trajectory in self.trajectories:
            assert trajectory.outcome.score == 1.0, trajectory
            assert (trajectory.attributes["exit"], trajectory.attributes["sandbox"]) == (0, sandbox)

    @property
    def trajectory(self) -> Trajectory:
        return self.trajectories[0]

    @property
    def roles(self) -> list[str]:
        return [node.message.role for node in self.walk]

    def is_one_walk(self) -> None:
        """All it said is one conversation: no branch, no second root, no request recorded twice."""
        assert len(self.tree) == len(self.walk) and len(self.tree.roots) == 1
        requests = [node.attributes["request"] for node in self.walk if node.message.role == "assistant"]
        assert len(set(requests)) == len(requests) == self.trajectory.turns

    def replays_the_same(self) -> None:
        again = silva("trees", "replay", self.trajectory.id, "--lake", self.lake)
        assert again.returncode == 0 and f"same: {self.trajectory.turns} turns, {len(self.walk)} messages" in (
            again.stdout
        ), again

    def exports(self) -> None:
        for name in ("messages", "inspect"):
            out = self.folder / f"out.{name}"
            done = silva("trees", "export", "--run", "real", "--format", name, "--output", out, "--lake", self.lake)
            assert done.returncode == 0, done
        (line,) = (self.folder / "out.messages").read_bytes().splitlines()
        assert [message["role"] for message in msgspec.json.decode(line)["messages"]] == self.roles
        with zipfile.ZipFile(self.folder / "out.inspect") as log:
            assert json.loads(log.read("header.json"))["status"] == "success"
            (member,) = [name for name in log.namelist() if name.startswith("samples/")]
            sample = json.loads(log.read(member))
        said = [(message["role"], _text(message["content"])) for message in sample["messages"]]
        assert said == [(node.message.role, "".join(node.message.text.split())) for node in self.walk]
        called = [call["function"] for message in sample["messages"] for call in message.get("tool_calls") or ()]
        assert called == [call.name for node in self.walk for call in node.message.tool_calls]
        assert {score["value"] for score in sample["scores"].values()} & {1, "C"}, sample["scores"]


def _text(content: Any) -> str:
    """The words of a message of Inspect's, without what stands between them: its parts are not joined as ours are."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "".join("".join(part["text"].split()) for part in parts if part["type"] == "text")


async def sdk_loop(program: Path, folder: Path) -> tuple[Trajectory, list[Node], list[Node]]:
    """A rollout in this process: its trajectory, its walk, and all nodes there are."""
    given: dict[str, Any] = {
        "run": "sdk",
        "env": ("workspace",),
        "model": f"scripted:{SHELL}",
        "agent": f"program: {sys.executable} {program} {{prompt}}",
        "lake": str(folder / "lake"),
        "tasks": {"ids": ("workspace/fix",)},
        "program": {"mounts": [str(program.parent)]},
    }
    (trajectory,) = (await run_rollout(RolloutConfig.model_validate(given))).trajectories
    with Lake.open(folder / "lake", mode="read") as lake:
        return trajectory, list(lake.walk(trajectory)), lake.nodes(run_id="sdk")


@pytest.mark.parametrize("program", ["shell_chat.py", "runner_stream.py"])
async def test_the_loop_of_a_vendors_sdk_is_one_walk(program: str, tmp_path: Path) -> None:
    trajectory, walk, nodes = await sdk_loop(EXAMPLES / program, tmp_path)
    assert trajectory.outcome.score == 1.0 and trajectory.turns == 3, trajectory
    assert [node.message.role for node in walk] == LOOP and len(nodes) == len(walk)
    assert all(node.tokens for node in walk if node.message.role == "assistant")


async def test_the_anthropic_tool_runner_with_its_default_thread_is_one_walk(tmp_path: Path) -> None:
    trajectory, walk, nodes = await sdk_loop(EXAMPLES / "runner_stream.py", tmp_path)
    assert trajectory.attributes["exit"] == 0
    assert [node.message.role for node in walk] == LOOP and len(nodes) == len(walk)


@pytest.mark.slow
@both
@pytest.mark.parametrize("program", [pytest.param("shell_chat.py", marks=pytest.mark.weekly), "runner_stream.py"])
def test_sdk_loops_go_all_the_way(program: str, sandbox: str, tmp_path: Path) -> None:
    played = Played(tmp_path, f"{sys.executable} {EXAMPLES / program} {{prompt}}", SHELL, sandbox, EXAMPLES)
    assert played.roles == LOOP
    played.is_one_walk()
    played.replays_the_same()
    played.exports()


@pytest.mark.slow
@pytest.mark.weekly  # README.md has it run, replayed and exported in a sandbox
@both
def test_mini_swe_agent_goes_all_the_way(sandbox: str, tmp_path: Path) -> None:
    # litellm imports mcp where tools are used, and does not say so among its dependencies.
    bin_ = python_program("mini-swe-agent", "mini-swe-agent==2.4.6", "litellm==1.106.2", "mcp==2.3.0")
    command = f"{bin_ / 'mini'} -y --exit-immediately -m openai/any -t {{prompt}}"
    settings = {"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors"}
    once = {"MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1"}
    played = Played(tmp_path, command, EXAMPLES / "mini.yaml", sandbox, **settings, **once)
    assert played.roles == LOOP
    played.is_one_walk()
    played.replays_the_same()
    played.exports()


@pytest.mark.slow
@both
def test_agents_that_ask_and_hand_over_are_walks_of_one_tree(sandbox: str, tmp_path: Path) -> None:
    bin_ = python_program("openai-agents", "openai-agents==0.24.0", "openai==3.54.0")
    command = f"{bin_ / 'python'} {EXAMPLES / 'handoffs.py'} {{prompt}}"
    played = Played(tmp_path, command, EXAMPLES / "handoffs.yaml", sandbox, EXAMPLES)
    openings = {root.message.text.split()[1]: root for root in played.tree.roots}
    assert set(openings) == {"ask", "say", "mend"}, "triage, reviewer, mender"
    assert played.trajectory.turns == 6 and len(played.trajectory.attributes["leaves"]) == 3
    assert played.walk[0].id == openings["mend"].id, "the mender has the last word"
    assert played.walk[-1].message.text == "Mended: it prints the product now."
    sampled = [node for node in played.walk if node.author is Author.POLICY]
    assert len(sampled) == 2, "what triage said before is told to the mender, not sampled again"
    played.replays_the_same()
    played.exports()


@pytest.mark.slow
@both
def test_claude_code_goes_all_the_way(sandbox: str, tmp_path: Path) -> None:
    claude = node_program("claude-code", "@anthropic-ai/claude-code@2.1.197", "claude")
    command = f"{EXAMPLES / 'claude.sh'} {claude} {{prompt}}"
    played = Played(tmp_path, command, EXAMPLES / "claude.yaml", sandbox, claude.parents[2])
    assert played.trajectory.turns == 3
    played.is_one_walk()
    assert json.loads(played.trajectory.attributes["output"])["result"] == "Mended: it prints the product now."
    if sandbox == "namespaces":  # it tells the model the path of its folder, which is another one every time without
        played.replays_the_same()
    played.exports()


@pytest.mark.slow
@both
def test_codex_goes_all_the_way(sandbox: str, tmp_path: Path) -> None:
    codex = node_program("codex", "@openai/codex@0.169.0", "codex")
    command = f"{EXAMPLES / 'codex.sh'} {codex} {{prompt}}"
    played = Played(tmp_path, command, EXAMPLES / "codex.yaml", sandbox, codex.parents[2])
    assert played.trajectory.turns == 3
    played.is_one_walk()
    played.exports()  # not played again: it gives every command's output a random number


@pytest.mark.slow
@pytest.mark.skipif(bool(probe().problem), reason="no sandboxes here")
def test_a_group_of_programs_that_name_their_folder_shares_its_prompt(tmp_path: Path) -> None:
    names = tmp_path / "names.py"
    main = f"import os, sys; sys.path.insert(0, {str(EXAMPLES)!r}); from shell_chat import main\n"
    names.write_text(main + "main(f'In {os.getcwd()}: {sys.argv[1]}')\n")
    played = Played(tmp_path, f"{sys.executable} {names} {{prompt}}", SHELL, "namespaces", tmp_path, EXAMPLES, group=2)
    assert "/workspace" in played.walk[1].message.text
    assert len(played.tree.roots) == 1 and len(played.tree.leaves) == 2


EXAMPLE = re.compile(r"^\$ (silva rollout (?:.*\\\n)*.*)$", re.MULTILINE)


def test_the_commands_of_the_examples_are_taken_as_they_stand_and_the_first_one_works(tmp_path: Path) -> None:
    commands = EXAMPLE.findall((EXAMPLES / "README.md").read_text("utf-8"))
    assert len(commands) == 5
    shutil.copytree(EXAMPLES, tmp_path / "examples" / "programs")
    for folder in ("claude", "codex"):
        (tmp_path / folder).mkdir()
    silva_here = f'silva() {{ "{sys.executable}" -m silva "$@"; }}\n'
    paths = f"PATH={Path(sys.executable).parent}:$PATH\n"
    for place, command in enumerate(commands):
        script = f"{silva_here}{paths}{command} --lake lake" + ("" if place == 0 else " --dry-run")
        done = subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, (command, done)
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        (trajectory,) = lake.trajectories(run_id="loop")
    assert trajectory.outcome.score == 1.0, trajectory
