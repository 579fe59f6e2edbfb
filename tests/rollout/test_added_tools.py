"""Tools of MCP servers beside an environment's own: real servers, called out of process, attacked and taken again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from silva.envs import Registry
from silva.errors import MissingError, UsageError
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.opening import host_pool
from silva.rollout.replay_stored import replay_stored
from silva.tree import Author, assistant, call

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"tools": "babyai"}, "tools 'babyai': a set of MCP servers, mcp/FILE.yaml"),
        ({"tools": "a=mcp", "agent": "program: x"}, "a program plays alone, so name no role"),
    ],
)
def test_what_cannot_be_added_is_refused(more: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        RolloutConfig.model_validate({"env": "arithmetic", **more})


def test_a_file_of_servers_that_is_not_there_is_told() -> None:
    config = RolloutConfig.model_validate({"env": "arithmetic", "tools": "mcp/nowhere.yaml"})
    with pytest.raises(UsageError, match=r"there is no file nowhere\.yaml"):
        host_pool("arithmetic", Registry.load().entry("arithmetic"), config)


def added(tools: str = "mcp", env: str = "arithmetic", **more: Any) -> RolloutConfig:
    given = {"run": "r", "env": env, "tools": tools, "tasks": {"split": "chain", "limit": 1}, "pool": 1, "retries": 0}
    config = RolloutConfig.model_validate({**given, **more})
    try:
        host_pool(env, Registry.load().entry(env), config)
    except MissingError as error:
        pytest.skip(str(error))
    return config


@pytest.mark.slow
async def test_an_action_is_shared_out_between_the_servers_and_the_environment() -> None:
    config = added(budget={"turns": 9})
    async with (
        host_pool("arithmetic", Registry.load().entry("arithmetic"), config) as pool,
        pool.lease() as env,
    ):
        (task,) = await pool.tasks(split="chain", limit=1)
        opening = await env.reset(task, 0)
        names = [tool.name for tool in opening.tools or ()]
        assert names == ["add", "sums__add", "sums__total", "sums__read_resource", "sums__get_prompt"], names
        alone = await env.step(assistant("", call("sums__add", {"number": 5}, "a")))
        assert [message.text for message in alone.messages] == ["The sum is 5 now."] and not alone.done
        both = await env.step(assistant("", call("add", {"number": 1}, "own"), call("sums__total", {}, "b")))
        assert {message.tool_call_id: message.text for message in both.messages}["b"] == "5"
        assert {message.tool_call_id for message in both.messages} == {"own", "b"}
        await env.reset(task, 0)
        anew = await env.step(assistant("", call("sums__total", {}, "c")))
        assert anew.messages[0].text == "0", "servers start anew for every episode"


@pytest.mark.slow
@pytest.mark.parametrize("surface", ["tool_description", "tool_schema", "mcp_rug_pull", "mcp_shadow", "mcp_resource"])
async def test_the_servers_tools_are_attacked_and_the_walk_is_taken_again(surface: str, tmp_path: Path) -> None:
    goal = {"tool": "sums__add", "arguments": {"number": 4417}}
    script = Script(function="obedient.py:obeys", folder=str(HERE.parent / "redteam"))
    async with ScriptedServer(script) as server:
        model = {"model": f"{server.url}#scripted", "lake": str(tmp_path), "budget": {"turns": 6}}
        stages = {"attack": {"attack": f"{surface}/plain/call", "goal": goal}}
        await run_rollout(added(stages=stages, **model))
    with Lake.open(tmp_path, mode="read") as lake:
        (trajectory,) = lake.trajectories(run_id="r")
        verdict, walk = trajectory.attributes["attack"], lake.walk(trajectory)
        assert verdict["exposed"] and verdict["reached"], verdict
        results = [node for node in walk if node.message.tool_call_id == "evil"]
        assert [(node.author, "The sum is 4417 now." in node.message.text) for node in results] in (
            [(Author.ENVIRONMENT, True)],
            [(Author.ATTACKER, True)],
        )
        listed = [
            tool for node in walk for tool in node.tools or () if "4417" in str((tool.description, tool.parameters))
        ]
        assert all("sums__" in tool.name for tool in listed), "it is the stranger's tool that is poisoned"
        again = await replay_stored(lake, trajectory)
        assert again.divergence is None and again.turns == trajectory.turns


@pytest.mark.slow
async def test_of_several_agents_one_has_the_tools() -> None:
    env = "debate:Debate"
    entry, more = Registry.load().entry(env), {"hosts": {"inline": True}, "tasks": {"limit": 1}}
    async with host_pool(env, entry, added("contra=mcp", env, **more)) as pool, pool.lease() as lease:
        (task,) = await pool.tasks(split="test", limit=1)
        opening = await lease.reset(task, 0)
        assert opening.role == "pro" and opening.tools == ()
        theirs = await lease.step(assistant("7"))
        assert theirs.role == "contra" and [tool.name for tool in theirs.tools or ()][:2] == [
            "sums__add",
            "sums__total",
        ]
        alone = await lease.step(assistant("", call("sums__add", {"number": 5}, "a")))
        assert (alone.role, alone.messages[0].text, alone.tools) == ("contra", "The sum is 5 now.", None)
        back = await lease.step(assistant("9"))
        assert back.role == "pro" and back.tools is None
        await lease.step(assistant("7"))
        chair = await lease.step(assistant("9"))
        assert chair.role == "chair" and [tool.name for tool in chair.tools or ()] == ["award"]
    with pytest.raises(UsageError, match="has no agent jury; there are pro, contra, chair"):
        async with host_pool(env, entry, added("jury=mcp", env, **more)):
            pass
