"""verifiers tasksets played by Silva's agent. Slow: needs `silva envs install verifiers` (skipped where missing)."""

from pathlib import Path

import msgspec
import pytest

from silva.cli.main import run
from silva.envs import HostPool, Registry
from silva.envs.check import check
from silva.envs.errors import EnvError
from silva.envs.gyms import proofs
from silva.envs.install import installed
from silva.errors import UsageError
from silva.tree import ToolCall, assistant, call

FOLDER = Path(__file__).with_name("bridged")
SUMS = Path(proofs.__path__[0]) / "verifiers_sums.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed(Registry.load().entry("verifiers")), reason="silva envs install verifiers"),
]


def pool(place: str, **how) -> HostPool:
    return HostPool(Registry.load().entry(f"verifiers/{place}"), **how)


async def test_the_bridge_scores_its_own_taskset_as_it_must():
    made = await check(Registry.load().entry("verifiers"), n=3)
    assert made.holds and made.tasks == 24, made


async def test_tools_run_in_the_tasksets_own_server_and_bad_calls_are_answered_in_words():
    async with pool(f"{SUMS},size=2,task.tools=true", step_timeout=120) as sums, sums.lease() as env:
        (task, _) = await sums.tasks()
        opening = await env.reset(task, 0)
        assert [message.role for message in opening.messages] == ["system", "user"]
        assert [tool.name for tool in opening.tools] == ["calculator_add"]
        made = ToolCall(id="a", name="calculator_add", arguments="{oops"), call("nix", {}, "b")
        seen = await env.step(assistant("", *made))
        assert [message.tool_call_id for message in seen.messages] == ["a", "b"]
        assert all(message.text.startswith("error: ") for message in seen.messages)
        seen = await env.step(assistant("", call("calculator_add", {"first": 11, "second": 12}, "c")))
        assert [message.text for message in seen.messages] == ["23"]
        assert (await env.step(assistant("It is 23"))).done
        assert (await env.evaluate()).metrics["right"] == 1.0


async def test_an_environment_that_speaks_as_the_user_is_played_and_scored_by_its_own_rewards():
    async with pool(f"{FOLDER / 'verifiers_games.py'},highest=5") as games, games.lease() as env:
        tasks = await games.tasks()
        assert len(tasks) == 5 and tasks[3].id.endswith("3:find 4")
        assert (await env.reset(tasks[3], 0)).messages[0].text == "Guess!"
        assert (await env.step(assistant("2"))).messages[0].text == "higher"
        assert (await env.step(assistant("5"))).messages[0].text == "lower"
        assert (await env.step(assistant("please 4"))).done
        found = await env.evaluate()
        assert found.success and found.metrics | {"turns": 3} == found.metrics
        assert found.metrics["polite"] == found.metrics["found"] == 0.5 and found.metrics["turns_taken"] == 3.0


async def test_a_stop_of_the_task_and_an_end_by_silva_are_both_scored_as_they_stand():
    async with pool(f"{FOLDER / 'verifiers_games.py'}") as games, games.lease() as env:
        (task, *_) = await games.tasks()
        await env.reset(task, 0)
        assert (await env.step(assistant("damn, please"))).done
        assert (await env.evaluate()).score == 0.5
        await env.reset(task, 0)
        assert not (await env.step(assistant("please 9"))).done
        found = await env.evaluate()
        assert found.score == 0.5 and found.metrics["turns"] == 1.0
        assert (await env.step(assistant("more"))).done


async def test_two_instances_in_a_host_keep_apart():
    async with pool(f"{FOLDER / 'verifiers_games.py'}") as games, games.lease() as one, games.lease() as two:
        tasks = await games.tasks()
        await one.reset(tasks[0], 0)
        await two.reset(tasks[2], 0)
        assert (await one.step(assistant("2"))).messages[0].text == "lower"
        assert (await two.step(assistant("2"))).messages[0].text == "higher"


async def test_what_a_reward_raises_is_the_environments_failure():
    async with pool(f"{FOLDER / 'verifiers_games.py'},task.fault=oops") as games, games.lease() as env:
        await env.reset((await games.tasks(limit=1))[0], 0)
        with pytest.raises(EnvError, match=r"TaskError: .*oops") as caught:
            await env.step(assistant("1"))
        assert caught.value.kind == "env.raised"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (f"{FOLDER / 'verifiers_duel.py'}", "the roles left, right; Silva plays one"),
        (f"{FOLDER / 'verifiers_games.py'},colour=red", "colour: Extra inputs are not permitted"),
        ("not_there", "no taskset not_there: no module not_there"),
    ],
)
async def test_what_cannot_be_played_is_told_in_one_line(place, why):
    with pytest.raises(UsageError, match=why):
        async with pool(place):
            pass


def test_a_rollout_with_a_scripted_model_end_to_end(tmp_path, capsys):
    script = tmp_path / "script.yaml"
    script.write_text(
        "rules:\n"
        "  - {when: {last: Guess}, reply: {text: '1'}}\n"
        "  - {when: {last: higher, turn: 1}, reply: {text: '2'}}\n"
        "otherwise: {text: please 3}\n"
    )
    name = f"verifiers/{FOLDER / 'verifiers_games.py'}"
    command = f"rollout --env {name} --model scripted:{script} --lake {tmp_path / 'lake'} --run games --json"
    told = run(command.split())
    made = msgspec.json.decode(capsys.readouterr().out)
    assert told == 0 and made["status"] == "finished", made
    scores = {task["task_id"]: task["score"] for task in made["summary"]["by_task"]}
    assert [scores[name] for name in sorted(scores)] == [0.5, 0.5, 1.0]
