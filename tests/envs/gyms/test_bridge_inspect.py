"""Inspect AI tasks played by Silva's agent. Slow: needs `silva envs install inspect` (skipped where it is missing)."""

from pathlib import Path

import msgspec
import pytest

from silva.cli.main import run
from silva.envs import HostPool, Registry
from silva.envs.check import check
from silva.envs.errors import EnvError
from silva.envs.install import installed
from silva.errors import UsageError
from silva.tree import ToolCall, assistant, call

TASKS = Path(__file__).with_name("bridged") / "inspect_tasks.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed(Registry.load().entry("inspect")), reason="silva envs install inspect"),
]


def pool(task: str, **how) -> HostPool:
    return HostPool(Registry.load().entry(f"inspect/{TASKS}@{task}"), **how)


async def test_the_bridge_scores_its_own_task_as_it_must():
    made = await check(Registry.load().entry("inspect"), n=4)
    assert made.holds and made.tasks == 24, made


async def test_the_solvers_tools_and_every_scorer_are_inspects_own():
    async with pool("boxes,count=2") as two, two.lease() as env:
        tasks = await two.tasks()
        assert [task.instruction for task in tasks] == ["Open box 0.", "Open box 1."]
        opening = await env.reset(tasks[1], 0)
        assert [message.role for message in opening.messages] == ["system", "user"]
        assert [tool.name for tool in opening.tools] == ["open_box", "submit"]
        assert opening.tools[0].parameters["properties"]["number"]["type"] == "integer"
        (answer,) = (await env.step(assistant("", call("open_box", {"number": 1}, "a")))).messages
        assert answer.tool_call_id == "a" and answer.text == "There is pearl-1 in it; 1 opened so far."
        assert (await env.step(assistant("", call("submit", {"answer": "pearl-1"})))).done
        found = await env.evaluate()
        assert found.success and found.metrics["two_sided/right"] == found.metrics["two_sided/thrift"] == 1.0
        # the store of the first episode is gone
        await env.reset(tasks[0], 0)
        (answer,) = (await env.step(assistant("", call("open_box", {"number": 0})))).messages
        assert answer.text.endswith("1 opened so far.")


async def test_badly_formed_calls_are_answered_by_inspect_in_words():
    async with pool("boxes") as boxes, boxes.lease() as env:
        await env.reset((await boxes.tasks(limit=1))[0], 0)
        for made in (
            ToolCall(id="a", name="open_box", arguments="{oops"),
            call("open_box", {"number": "x"}, "b"),
            call("fly", {}, "c"),
        ):
            seen = await env.step(assistant("", made))
            assert not seen.done and seen.messages[0].tool_call_id == made.id
            assert seen.messages[0].text.startswith("error: ")


async def test_an_episode_ended_by_silva_is_scored_as_it_stands():
    async with pool("boxes") as boxes, boxes.lease() as env:
        await env.reset((await boxes.tasks(limit=1))[0], 0)
        await env.step(assistant("It must be pearl-0."))
        found = await env.evaluate()
        assert found.score == 1.0 and found.metrics["turns"] == 1.0
        assert (await env.step(assistant("more"))).done


async def test_the_tasks_own_limit_ends_an_episode():
    async with pool("boxes,limit=4") as boxes, boxes.lease() as env:
        await env.reset((await boxes.tasks(limit=1))[0], 0)
        assert (await env.step(assistant("Let me think."))).done
        assert (await env.evaluate()).score == 0.0


async def test_a_conversation_of_several_turns_after_an_example():
    async with pool("talk") as talks, talks.lease() as env:
        opening = await env.reset((await talks.tasks())[0], 0)
        assert [message.role for message in opening.messages] == ["user", "assistant", "user"]
        assert (await env.step(assistant("hello"))).messages[0].text == "And your name?"
        assert (await env.step(assistant("Silva"))).messages[0].text == "Say goodbye."
        assert (await env.step(assistant("goodbye"))).done
        assert (await env.evaluate()).success


@pytest.mark.parametrize(
    ("task", "kind", "why"),
    [
        ("broken", "env.raised", "the solver tripped"),
        ("broken,how=hangs", "env.timeout", "step took longer than 12 s"),
        ("critic", "env.raised", "the framework rewrote the conversation"),
    ],
)
async def test_what_goes_wrong_in_inspect_is_the_environments_failure_and_the_next_episode_is_well(task, kind, why):
    async with pool(task, step_timeout=12) as broken:
        (first, second, *_) = await broken.tasks()
        for chosen in (first, second):
            async with broken.lease() as env:
                await env.reset(chosen, 0)
                with pytest.raises(EnvError, match=why) as caught:
                    await env.step(assistant("hello"))
                assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("nix", "Task named 'nix' not found"),
        ("boxes,colour=red", "the task takes no colour; it takes count, limit"),
        ("unscored", "the task has no scorer"),
    ],
)
async def test_a_task_that_cannot_be_played_is_told_in_one_line(task, why):
    with pytest.raises(UsageError, match=why):
        async with pool(task):
            pass


def test_a_rollout_with_a_scripted_model_end_to_end(tmp_path, capsys):
    script = tmp_path / "script.yaml"
    script.write_text(
        r"""
        rules:
          - when: {last: 'Open box (\d)'}
            reply: {tool_calls: [{name: open_box, arguments: '{"number": \1}'}], expand: true}
          - when: {last: 'There is (pearl-[01])'}
            reply: {tool_calls: [{name: submit, arguments: {answer: '\1'}}], expand: true}
        otherwise: {text: I do not know.}
        """
    )
    name = f"inspect/{TASKS}@boxes"
    lake = tmp_path / "lake"
    command = f"rollout --env {name} --model scripted:{script} --lake {lake} --run boxes --pool 2 --json budget.turns=4"
    told = run(command.split())
    made = msgspec.json.decode(capsys.readouterr().out)
    assert told == 0 and made["status"] == "finished", made
    scores = {task["task_id"]: task["score"] for task in made["summary"]["by_task"]}
    assert [scores[name] for name in sorted(scores)] == [1.0, 1.0, 0.0]
