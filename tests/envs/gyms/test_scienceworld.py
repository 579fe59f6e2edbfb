"""ScienceWorld, played through its installed host (needs Java)."""

import shutil

import pytest

from silva.envs import HostPool, Registry
from silva.envs.check import play
from silva.errors import MissingError, SilvaError
from silva.tree import ToolCall, assistant, call

pytestmark = pytest.mark.slow

QUICK = ("chemistry-mix", "find-plant", "identify-life-stages-2", "lifespan-longest-lived", "power-component")


@pytest.fixture
async def pool():
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    try:
        made = HostPool(Registry.load().entry("scienceworld"))
    except MissingError as error:
        pytest.skip(str(error))
    async with made as pool:
        yield pool


async def _some(pool, split="test"):
    return [task for task in await pool.tasks(split, limit=30) if task.tags[0] in QUICK]


async def test_the_splits_hold_7207_variations_of_thirty_kinds(pool):
    splits = {split: await pool.tasks(split) for split in ("train", "dev", "test")}
    ids = [task.id for tasks in splits.values() for task in tasks]
    assert len(ids) == len(set(ids)) == 7207
    for tasks in splits.values():
        assert len({task.tags for task in tasks[:30]}) == 30


async def test_the_expert_scores_full_marks_and_the_null_policy_none(pool):
    async with pool.lease() as env:
        for task in await _some(pool):
            assert (await play(env, task, "expert"))[0].success, task.id
            evaluation, turns = await play(env, task, "null")
            assert (evaluation.score, turns) == (0.0, 3)


async def test_rewards_sum_to_the_score(pool):
    (task, *_) = await _some(pool, "dev")
    async with pool.lease() as env:
        observation = await env.reset(task)
        total = 0.0
        while not observation.done:
            observation = await env.step(await env.expert())
            total += observation.reward or 0.0
        assert total == pytest.approx((await env.evaluate()).score)


async def test_the_same_commands_give_the_same_words_in_every_instance(pool):
    tasks = (await _some(pool))[:3]

    async def transcript(env, task):
        observation = await env.reset(task, 5)
        said = [observation]
        while not observation.done:
            observation = await env.step(await env.expert())
            said.append(observation)
        return said

    entry = Registry.load().entry("scienceworld")
    async with pool.lease() as one, HostPool(entry) as elsewhere, elsewhere.lease() as other:
        first = [await transcript(one, task) for task in tasks]
        again = [await transcript(other, task) for task in reversed(tasks)]
    assert first == again[::-1]


async def test_badly_formed_actions_are_answered(pool):
    task = (await _some(pool))[0]
    bad = (
        ToolCall(id="a", name="act", arguments="look"),
        ToolCall(id="b", name="act", arguments="[]"),
        call("fly", {"command": "look around"}, "c"),
        call("act", {}, "d"),
        call("act", {"command": 7}, "e"),
        call("act", {"command": "xyzzy plugh"}, "f"),
    )
    async with pool.lease() as env:
        await env.reset(task)
        observation = await env.step(assistant("", *bad))
        assert [m.tool_call_id for m in observation.messages] == list("abcdef")
        words = ("not JSON", "not a JSON object", "no tool", "needs", "needs", "No known action")
        assert all(word in m.text for word, m in zip(words, observation.messages, strict=True)), observation.messages
        spoken = await env.step(assistant("I shall look around."))
        assert "act" in spoken.messages[0].text and not spoken.done


async def test_an_episode_is_cut_off_after_its_commands(pool):
    task = (await _some(pool))[0]
    entry = Registry.load().entry("scienceworld")
    async with HostPool(entry, options={"most_commands": 5}) as short, short.lease() as env:
        observation = await env.reset(task)
        steps = 0
        while not observation.done and steps < 20:
            observation = await env.step(assistant("", call("act", {"command": "look around"})))
            steps += 1
        assert steps == 5 and observation.truncated


async def test_an_unknown_simplification_is_refused(pool):
    entry = Registry.load().entry("scienceworld")
    async with HostPool(entry, options={"simplifications": "magic"}) as wrong:
        with pytest.raises(SilvaError, match="no simplification 'magic'"):
            async with wrong.lease():
                pass
