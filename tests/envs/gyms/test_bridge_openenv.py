"""OpenEnv servers played by Silva's agent. Slow: needs `silva envs install openenv` (skipped where it is missing)."""

import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import msgspec
import pytest

from silva.cli.main import run
from silva.envs import HostPool, Registry
from silva.envs.check import check
from silva.envs.errors import EnvError
from silva.envs.install import installed, interpreter
from silva.errors import UsageError
from silva.tree import ToolCall, assistant, call

FOLDER = Path(__file__).with_name("bridged")
ECHO = Path(os.environ.get("OPENENV_ENVS", ""), "echo_env", "server", "app.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed(Registry.load().entry("openenv")), reason="silva envs install openenv"),
]


def pool(place: str, **how) -> HostPool:
    return HostPool(Registry.load().entry(f"openenv/{place}"), **how)


async def test_the_bridge_scores_its_own_server_as_it_must():
    made = await check(Registry.load().entry("openenv"), n=4)
    assert made.holds and made.tasks == 100, made


async def test_the_tools_of_an_mcp_environment_and_the_tasks_it_lists():
    async with pool(f"{FOLDER / 'openenv_tools.py'}@app") as letters, letters.lease() as env:
        tasks = await letters.tasks()
        assert [task.data for task in tasks] == [{"split": "test", "index": number} for number in range(3)]
        opening = await env.reset(tasks[1], 0)
        assert [tool.name for tool in opening.tools] == ["first_letter", "name_word"]
        assert opening.tools[1].parameters["required"] == ["word"]
        seen = await env.step(assistant("", call("first_letter", {})))
        assert seen.messages[0].text == "a" and not seen.done
        seen = await env.step(assistant("", call("name_word", {"word": "ash"})))
        assert seen.done and seen.reward == 1.0
        assert (await env.evaluate()).success
        with pytest.raises(UsageError, match="no split 'train'; the server has test"):
            await letters.tasks("train")


async def test_an_action_class_is_a_tool_and_bad_actions_are_answered_in_words():
    async with pool(f"{FOLDER / 'openenv_broken.py'},start=1") as counters, counters.lease() as env:
        opening = await env.reset((await counters.tasks(limit=1))[0], 0)
        assert opening.messages[1].text == '{"count": 1}'
        (tool,) = opening.tools
        assert tool.name == "act" and set(tool.parameters["properties"]) == {"what", "times"}
        for made in (
            ToolCall(id="a", name="act", arguments="{oops"),
            call("act", {"what": 3}, "b"),
            call("fly", {}, "c"),
        ):
            seen = await env.step(assistant("", made))
            assert not seen.done and seen.messages[0].tool_call_id == made.id
            assert seen.messages[0].text.startswith("error: ")
        seen = await env.step(assistant("", call("act", {"what": "go", "times": 2}), call("act", {"what": "go"})))
        assert [message.text for message in seen.messages] == ['{"count": 3}', '{"count": 4}']
        assert seen.done and seen.reward == 0.75
        found = await env.evaluate()
        assert found.score == 0.75 and found.metrics["last_reward"] == 0.25


async def test_a_server_inside_a_package_finds_what_lies_beside_it():
    async with pool(f"{FOLDER / 'openenv_package' / 'server' / 'app.py'}@app") as parrots, parrots.lease() as env:
        await env.reset((await parrots.tasks(limit=1))[0], 0)
        seen = await env.step(assistant("", call("act", {"word": "oak"})))
        assert seen.done and seen.messages[0].text == '{"word": "oak"}'
        assert (await env.evaluate()).success


# OpenEnv publishes its servers in its repository alone: no package of an index has them.
@pytest.mark.skipif(not ECHO.is_file(), reason="OPENENV_ENVS=FOLDER: the folder envs of a checkout of OpenEnv")
async def test_openenvs_own_echo_server_answers_as_it_says():
    async with pool(f"{ECHO}@app") as echoes, echoes.lease() as env:
        opening = await env.reset((await echoes.tasks(limit=1))[0], 0)
        assert [tool.name for tool in opening.tools] == ["echo_message", "echo_with_length"]
        made = call("echo_message", {"message": "acorn"}, "a"), call("echo_with_length", {"message": "acorn"}, "b")
        seen = await env.step(assistant("", *made))
        assert [message.tool_call_id for message in seen.messages] == ["a", "b"]
        assert seen.messages[0].text == "acorn" and '"length":5' in seen.messages[1].text.replace(" ", "")
        assert (await env.evaluate()).score == 0.0


async def test_the_last_reward_can_be_the_score_and_silence_gives_up():
    place = f"{FOLDER / 'openenv_broken.py'}"
    async with pool(place, options={"score": "last"}) as counters, counters.lease() as env:
        await env.reset((await counters.tasks(limit=1))[0], 0)
        await env.step(assistant("", call("act", {"what": "go"}), call("act", {"what": "go", "times": 2})))
        assert (await env.step(assistant("enough"))).done
        assert (await env.evaluate()).score == 0.5


async def test_a_server_that_is_killed_with_its_instance_when_it_hangs_and_one_that_raises():
    async with pool(f"{FOLDER / 'openenv_broken.py'}", step_timeout=12) as counters:
        (task,) = await counters.tasks(limit=1)
        for what, kind in (("raise", "env.raised"), ("hang", "env.timeout")):
            async with counters.lease() as env:
                await env.reset(task, 0)
                with pytest.raises(EnvError) as caught:
                    await env.step(assistant("", call("act", {"what": what})))
                assert caught.value.kind == kind
        async with counters.lease() as env:
            assert not (await env.reset(task, 0)).done


@pytest.fixture
def running():
    """The address of a server that runs already, as a user would run it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [interpreter(Registry.load().entry("openenv")), "-m", "uvicorn", "--fd", str(listening.fileno())]
        environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        server = subprocess.Popen(
            [*command, "--app-dir", str(FOLDER), "openenv_broken:app"], pass_fds=(listening.fileno(),), env=environ
        )
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


async def test_a_server_that_runs_already_is_used_and_tells_when_it_is_full(running):
    async with pool(running) as counters, counters.lease() as env:
        (task,) = await counters.tasks(limit=1)
        await env.reset(task, 0)
        assert (await env.step(assistant("", call("act", {"what": "go", "times": 4})))).done
        async with counters.lease() as second:  # the server was made for one session
            with pytest.raises(EnvError, match="CAPACITY_REACHED"):
                await second.reset(task, 0)


async def test_a_server_that_cannot_be_had_is_told_in_one_line():
    for place, why in (
        ("http://127.0.0.1:9", "no OpenEnv server answers at http://127.0.0.1:9"),
        (f"{FOLDER / 'openenv_broken.py'}@nix", "ended before it answered; last words: .*nix"),
    ):
        async with pool(place) as unknown:
            with pytest.raises(UsageError, match=why):
                await unknown.tasks()


def test_a_rollout_with_a_scripted_model_end_to_end(tmp_path, capsys):
    script = tmp_path / "script.yaml"
    script.write_text("otherwise: {tool_calls: [{name: first_letter}, {name: name_word, arguments: {word: oak}}]}\n")
    name = f"openenv/{FOLDER / 'openenv_tools.py'}"
    command = f"rollout --env {name} --model scripted:{script} --lake {tmp_path / 'lake'} --run letters --json"
    told = run(command.split())
    made = msgspec.json.decode(capsys.readouterr().out)
    assert told == 0 and made["status"] == "finished", made
    scores = {task["task_id"]: task["score"] for task in made["summary"]["by_task"]}
    assert [scores[name] for name in sorted(scores)] == [1.0, 0.0, 0.0]
