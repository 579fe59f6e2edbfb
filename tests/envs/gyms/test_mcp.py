"""MCP servers as an environment: real servers in a sandbox, real clients, and servers that misbehave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from silva.envs import HostPool, Registry
from silva.envs.check import play
from silva.errors import MissingError, SilvaError, UsageError
from silva.tree import assistant, call

HERE = Path(__file__).parent
TASK = "tasks: [{id: one, instruction: Do it., check: {answer: done}}]"


def written(folder: Path, text: str) -> str:
    path = folder / "file.yaml"
    path.write_text(text)
    return f"mcp/{path}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("servers: {}\ntasks: []", "names no server"),
        ("servers: {a: {command: [x], url: http://x}}\ntasks: []", "server a: give a command or a url"),
        ("servers: {a/b: {command: [x]}}\ntasks: []", "server 'a/b': letters"),
        ("servers: {a: {comand: [x]}}\ntasks: []", "unknown field `comand`"),
        ("servers: {a: {command: [x]}}\ntasks: [{id: t, instruction: i, check: {}}]", "task t: check is empty"),
        ("servers: {a: {command: [x]}}\ntasks: [{id: t, instruction: i, check: {answer: '('}}]", "is no expression"),
        ("servers: [", "file.yaml: while parsing"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(text: str, line: str, tmp_path: Path) -> None:
    from silva.envs.gyms.mcp_tasks import read

    written(tmp_path, text)
    with pytest.raises(UsageError, match=line) as caught:
        read(tmp_path / "file.yaml")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match=r"there is no file nowhere\.yaml"):
        Registry.load().entry("mcp/nowhere.yaml")


def pool(name: str, **options: Any) -> HostPool:
    try:
        return HostPool(Registry.load().entry(name), options=options)
    except MissingError as error:
        pytest.skip(str(error))


@pytest.mark.slow
async def test_the_expert_and_one_that_gives_up_score_what_they_should() -> None:
    async with pool("mcp") as hosts, hosts.lease() as env:
        for task in await hosts.tasks():
            assert (await play(env, task, "expert"))[0].score == 1.0, task.id
            assert (await play(env, task, "null"))[0].score == 0.0, task.id


@pytest.mark.slow
async def test_servers_that_misbehave_are_told_in_a_line_and_the_next_episode_is_whole(tmp_path: Path) -> None:
    (tmp_path / "rogue.py").write_text((HERE / "bridged" / "mcp_rogue.py").read_text())
    name = written(tmp_path, f"servers: {{rogue: {{command: [python, rogue.py]}}}}\n{TASK}")
    lines = {
        "die": "server rogue: it ended; its last words: out of ink",
        "hang": "server rogue: it did not answer the call of act within 10 s",
        "flood": "server rogue: it floods",
    }
    async with pool(name, seconds=10.0) as hosts:
        (task,) = await hosts.tasks()
        for how, line in lines.items():
            async with hosts.lease() as env:
                opening = await env.reset(task)
                names = {tool.name for tool in opening.tools}
                assert names == {"act", "calm", "read_resource", "get_prompt"}
                with pytest.raises(SilvaError, match=line):
                    await env.step(assistant("", call("act", {"how": how}, "c")))
        async with hosts.lease() as env:
            await env.reset(task)
            acts = [call("act", {"how": how}, how) for how in ("fail", "long")]
            acts += [call("read_resource", {"uri": "rogue://note"}, "r"), call("nothing", {}, "n")]
            acts += [call("get_prompt", {"name": "greet", "who": "Ada"}, "p")]
            failed, long, note, nothing, greeting = (await env.step(assistant("", *acts))).messages
            assert failed.text.startswith("error: ")
            assert long.text.endswith("characters more]") and len(long.text) < 1_100_000
            assert note.text == "what the note says" and greeting.text == "Greet Ada."
            assert "no tool 'nothing'" in nothing.text
            turned = await env.step(assistant("", call("act", {"how": "turn"}, "t")))
            (calm,) = [tool for tool in turned.tools or () if tool.name == "calm"]
            assert "call act with how=die" in calm.description, "what a server says anew of its tools is shown"
            await env.step(assistant("it is done"))
            assert (await env.evaluate()).score == 1.0


@pytest.mark.slow
async def test_of_several_servers_each_tool_is_the_servers_own(tmp_path: Path) -> None:
    proof = Path(__file__).parents[3] / "src/silva/envs/gyms/proofs/mcp_sums.py"
    (tmp_path / "sums.py").write_text(proof.read_text())
    servers = "servers: {a: {command: [python, sums.py]}, b: {command: [python, sums.py]}}"
    check = "{after: {tool: b__total, expect: '^5$'}, calls: [{tool: b__add, arguments: {number: 5}}]}"
    name = written(tmp_path, f"{servers}\ntasks: [{{id: one, instruction: Add 5 to b., check: {check}}}]")
    async with pool(name) as hosts, hosts.lease() as env:
        (task,) = await hosts.tasks()
        for server, score in (("a", 0.0), ("b", 1.0)):
            await env.reset(task)
            await env.step(assistant("", call(f"{server}__add", {"number": 5}, "c")))
            await env.step(assistant("done"))
            assert (await env.evaluate()).score == score, server


@pytest.mark.slow
async def test_a_server_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('no database')\n")
    name = written(tmp_path, f"servers: {{broken: {{command: [python, broken.py]}}}}\n{TASK}")
    async with pool(name) as hosts, hosts.lease() as env:
        (task,) = await hosts.tasks()
        with pytest.raises(SilvaError, match="server broken: it ended; its last words: no database"):
            await env.reset(task)
