"""Tools that a program calls with a client of its own: served over MCP, attacked, refused and kept like those of any
other agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from installed_programs import node_program
from silva.envs import Registry
from silva.envs.install import installed
from silva.errors import UsageError
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.program_client import CLIENTS, client_of, written
from silva.rollout.replay_stored import replay_stored
from silva.sandbox.system import probe
from silva.tree import Author, Node, Trajectory

pytest.importorskip("mcp", reason="pip install 'silva[mcp]'")

HERE = Path(__file__).parent


async def played(folder: Path, function: str, *words: str, **more: Any) -> RolloutConfig:
    """A run of one program, whose model does what `function` of obedient.py does; its environment has tools."""
    async with ScriptedServer(
        Script(function=f"obedient.py:{function}", folder=str(HERE.parent / "redteam"))
    ) as server:
        config = RolloutConfig.model_validate(
            {
                "run": "r",
                "env": ("arithmetic",),
                "tasks": {"split": "chain", "limit": 1},
                "model": f"{server.url}#scripted",
                "agent": f"program: {sys.executable} {HERE / 'mcp_chat.py'} {{prompt}} {' '.join(words)}",
                "program": {"sandbox": "process", "mounts": [str(HERE)]},
                "lake": str(folder),
                "hosts": {"inline": True},
                "retries": 0,
                **more,
            }
        )
        await run_rollout(config)
    return config


def left(folder: Path) -> tuple[Trajectory, list[Node], list[Node]]:
    """The trajectory of a run, its walk, and every node of its tree."""
    with Lake.open(folder, mode="read") as lake:
        (trajectory,) = lake.trajectories(run_id="r")
        return trajectory, list(lake.walk(trajectory)), list(lake.nodes(run_id="r"))


@pytest.mark.slow
async def test_a_program_plays_an_environment_with_tools_by_its_own_client(tmp_path: Path) -> None:
    await played(tmp_path, "sums")
    trajectory, walk, nodes = left(tmp_path)
    assert trajectory.outcome.failure is None and trajectory.outcome.score is not None, trajectory.outcome
    assert trajectory.attributes["served"] == {"asked": True, "called": 2}, trajectory.attributes
    results = [node.message.text for node in walk if node.message.role == "tool"]
    assert len(results) == 2 and all("total" in each for each in results), results
    assert len(nodes) == len(walk) and trajectory.turns == 3
    with Lake.open(tmp_path, mode="read") as lake:
        again = await replay_stored(lake, trajectory)
    assert again.divergence is None and again.turns == trajectory.turns, again


async def test_what_a_tool_says_is_attacked_and_the_attackers_node_stands_beside_the_environments(
    tmp_path: Path,
) -> None:
    await played(tmp_path, "obeys", stages={"attack": {"attack": "tool_result/plain/answer"}})
    trajectory, walk, nodes = left(tmp_path)
    told = trajectory.attributes["attack"]
    assert (told["launched"], told["exposed"], told["reached"]) == (True, 2, 2), told
    (attacked,) = [node for node in walk if node.author is Author.ATTACKER]
    (beside,) = [node for node in nodes if "rewritten" in node.attributes]
    assert attacked.attributes["rewrites"] == beside.id and attacked.parent_id == beside.parent_id
    assert attacked.message.text.startswith(beside.message.text) and told["canary"] not in beside.message.text


@pytest.mark.slow
async def test_a_program_that_never_asks_for_its_tools_is_told_and_not_scored(tmp_path: Path) -> None:
    await played(tmp_path, "sums", "deaf")
    trajectory, _, _ = left(tmp_path)
    failure = trajectory.outcome.failure
    assert failure is not None and failure.code == "agent.tools" and "never asked for the tools" in failure.message
    assert trajectory.outcome.score is None


def test_a_program_is_known_by_its_command_and_one_without_a_client_is_refused() -> None:
    assert client_of(("examples/codex.sh", "/x/node_modules/.bin/codex", "{prompt}")).name == "codex"
    assert client_of(("node", "my-agent.js", "{prompt}")).name == "any"
    assert client_of(("x",), "claude").name == "claude"
    own = client_of(("x",), {".own/tools.json": '{"at": "$url", "key": "$token"}'})
    assert written(own, "http://u", "t")[".own/tools.json"] == '{"at": "http://u", "key": "t"}'
    for row in CLIENTS:
        assert all("http://u" in text or "$" not in text for text in written(row, "http://u", "t").values())
    with pytest.raises(UsageError, match="mini-swe-agent has no client of MCP"):
        client_of(("mini/bin/mini", "-t", "{prompt}"))
    with pytest.raises(UsageError, match=r"program\.client 'nobody': there are claude"):
        client_of(("x",), "nobody")


@pytest.mark.slow
@pytest.mark.skipif(bool(probe().problem), reason="no sandboxes here")
@pytest.mark.parametrize(
    ("package", "program", "name"),
    [
        ("@anthropic-ai/claude-code@2.1.197", "claude", "mcp__silva__sums__add"),
        ("@openai/codex@0.169.0", "codex", "mcp__silva__sums__add"),
    ],
)
async def test_real_programs_call_the_tools_of_added_servers(
    package: str, program: str, name: str, tmp_path: Path
) -> None:
    command = node_program(package.rpartition("@")[0].rpartition("/")[2], package, program)
    if not installed(Registry.load().entry("mcp")):
        pytest.skip("run: silva envs install mcp")
    examples = HERE.parents[1] / "examples" / "programs"
    async with ScriptedServer(Script(function="calls_sums.py:adds", folder=str(HERE))) as server:
        config = RolloutConfig.model_validate(
            {
                "run": "r",
                "env": "workspace",
                "tasks": {"ids": ["workspace/fix"]},
                "tools": "mcp",
                "model": f"{server.url}#scripted",
                "agent": f"program: {examples / program}.sh {command} {{prompt}}",
                "program": {"mounts": [str(command.parents[2]), str(examples)]},
                "lake": str(tmp_path),
                "retries": 0,
                "deadlines": {"environment": 300},
                "stages": {"attack": {"attack": "tool_result/plain/answer"}},
            }
        )
        await run_rollout(config)
    trajectory, walk, nodes = left(tmp_path)
    assert trajectory.outcome.failure is None, trajectory.outcome
    assert trajectory.attributes["served"] == {"asked": True, "called": 1}
    assert [made.name for node in walk for made in node.message.tool_calls] == [name]
    (result,) = [node for node in walk if node.message.role == "tool"]
    assert result.author is Author.ATTACKER and "The sum is 5 now." in result.message.text
    assert any(node.id == result.attributes["rewrites"] for node in nodes)
    assert trajectory.attributes["attack"]["exposed"] == 2
