"""The gyms in their own virtual environments: deterministic by seed, malformed actions, giving up, scores.

Slow: each needs `silva envs install NAME` (skipped where that has not been done).
"""

from random import Random

import pytest

from silva.envs import HostPool, Registry
from silva.envs.check import check
from silva.errors import MissingError, UsageError
from silva.loops.roles import Held, ValidationConfig, Validator, make
from silva.tree import ToolCall, assistant, call

pytestmark = pytest.mark.slow

NAMES = ["arithmetic", "babyai", "gymnasium/FrozenLake-v1", "gymnasium/Taxi-v4", "reasoning-gym", "textworld"]
TOOLS = [name for name in NAMES if name not in ("arithmetic", "reasoning-gym")]


@pytest.fixture
def pool_of():
    def make(name: str) -> HostPool:
        try:
            return HostPool(Registry.load().entry(name))
        except MissingError as error:
            pytest.skip(str(error))

    return make


async def walk(env, task, seed: int, turns: int = 25):
    """What is observed while the expert (or else the null policy) acts."""
    seen = [await env.reset(task, seed)]
    while len(seen) <= turns and not (seen[-1].done or seen[-1].truncated):
        try:
            action = await env.expert()
        except UsageError:
            action = await env.null()
        seen.append(await env.step(action))
    return [*seen, await env.evaluate()]


@pytest.mark.parametrize("name", NAMES)
async def test_the_same_task_seed_and_actions_give_the_same_observations(pool_of, name):
    async with pool_of(name) as one, pool_of(name) as two, one.lease() as a, two.lease() as b:
        for task in (await one.tasks(limit=12))[::4]:
            first = await walk(a, task, 3)
            assert first == await walk(a, task, 3)  # reused
            assert first == await walk(b, task, 3)  # another process


async def test_the_seed_matters_where_chance_does(pool_of):
    async with pool_of("gymnasium/Taxi-v4") as pool, pool.lease() as env:
        (task,) = await pool.tasks(limit=1)
        assert len({(await env.reset(task, seed)).messages[1].text for seed in range(10)}) > 1


@pytest.mark.parametrize("name", TOOLS)
async def test_malformed_actions_are_answered_in_words_and_silence_gives_up(pool_of, name):
    async with pool_of(name) as pool, pool.lease() as env:
        (task,) = await pool.tasks(limit=1)
        opening = await env.reset(task, 0)
        assert [tool.name for tool in opening.tools] == ["act"]
        for made in (
            ToolCall(id="a", name="act", arguments="{oops"),
            ToolCall(id="b", name="act", arguments='{"wrong": 1}'),
            call("act", {"action": "fly", "command": "xyzzy\nnonsense"}, "c"),
            call("act", {"action": 10**40, "command": ""}, "d"),
        ):
            observation = await env.step(assistant("", made))
            assert not observation.done
            (answer,) = observation.messages
            assert answer.tool_call_id == made.id and answer.text
        assert (await env.step(assistant("I give up."))).done
        assert (await env.evaluate()).success is False


@pytest.mark.parametrize("name", NAMES)
async def test_expert_and_null_score_as_declared(pool_of, name):
    pool_of(name)
    made = await check(Registry.load().entry(name), n=6)
    assert made.holds, made
    assert made.sample == 6


@pytest.mark.parametrize(
    "env_id, seen",
    [
        ("CartPole-v1", '"minItems": 4'),
        ("Pendulum-v1", '"type": "number"'),
        ("Blackjack-v1", "prefixItems"),
        ("MountainCarContinuous-v0", '"maximum": 0.6'),
    ],
)
async def test_other_gymnasium_environments(pool_of, env_id, seen):
    async with pool_of(f"gymnasium/{env_id}") as pool, pool.lease() as env:
        (task,) = await pool.tasks(limit=1)
        assert seen in (await env.reset(task, 0)).messages[0].text
        observation = await env.step(await env.null())
        assert observation.messages[0].text.count("reward") == 1
        assert "return" in (await env.evaluate()).metrics


async def test_an_unknown_gymnasium_id_is_a_usage_error(pool_of):
    with pytest.raises(UsageError, match="doesn't exist"):
        async with pool_of("gymnasium/NoSuchThing-v0"):
            pass


async def test_the_babyai_bot_recovers_from_what_others_did(pool_of):
    async with pool_of("babyai") as pool, pool.lease() as env:
        (task,) = await pool.tasks(ids=["babyai/GoToLocal-v0/3"])
        await env.reset(task, 0)
        for action in ("turn_left", "turn_left", "move_forward"):
            await env.step(assistant("", call("act", {"action": action})))
        for _ in range(60):
            if (await env.step(await env.expert())).done:
                break
        assert (await env.evaluate()).success


async def test_the_last_answer_in_tags_counts(pool_of):
    async with pool_of("reasoning-gym") as pool, pool.lease() as env:
        (task,) = await pool.tasks(ids=["reasoning_gym/chain_sum/0"])
        await env.reset(task, 0)
        right = (await env.expert()).text
        await env.step(assistant(f"I first thought <answer>0</answer> but it is {right}"))
        assert (await env.evaluate()).score == 1.0


async def test_the_expert_of_text_games_takes_from_what_another_thing_is_called_after(pool_of):
    # Beside the locker stands a type K locker: asked to take from "locker", the game wants to know which, for ever.
    async with pool_of("textworld") as pool, pool.lease() as env:
        task = next(task for task in await pool.tasks("train", limit=20) if task.id == "textworld/medium/1003")
        *turns, evaluation = await walk(env, task, 0)
        assert evaluation.success and evaluation.score == 1.0
        assert not any("Which do you mean" in message.text for turn in turns for message in turn.messages)


@pytest.mark.parametrize(
    ("name", "split", "places"),
    [
        ("babyai", "train", ("babyai/PutNextS5N2-v0/1000", "babyai/UnlockLocal-v0/1000")),
        ("textworld", "train", ("textworld/large/1000",)),
        ("bfcl", "base", ("bfcl/multi_turn_base_40", "bfcl/multi_turn_base_160")),
        ("gymnasium/FrozenLake-v1", "train", ("gymnasium/FrozenLake-v1/1000",)),
    ],
)
async def test_what_random_actions_brought_about_is_a_task_that_they_solve(pool_of, name, split, places):
    """Also with the loops cut out, and in another process than the one that looked back."""
    most = {"babyai": 200, "textworld": 15, "bfcl": 8}.get(name, 20)
    beforehand = "gymnasium" not in name  # a bridge has hindsight alone
    async with pool_of(name) as pool, pool_of(name) as other, pool.lease() as env, other.lease() as fresh:
        for task in await pool.tasks(split, ids=places):
            known = {goal.words for goal in await env.goals(task)} if beforehand else set()
            chance = Random(1)
            await env.reset(task)
            walked = []
            for _ in range(most):
                walked.append(chance.choice(await env.actions()))
                if (await env.step(walked[-1])).done:
                    break
            found = await env.achieved(task, walked)
            assert found and (known or not beforehand)
            assert name not in ("babyai", "textworld") or known >= {each.goal.words for each in found}
            for each in found[:5]:
                made = await env.task(task, each.goal)
                assert made.id.startswith(f"{task.id}/") and (await fresh.reset(made)).messages
                assert not (await fresh.evaluate()).success
                # Where there is chance, only all of the actions come to the same again.
                for number in each.kept if beforehand else range(each.turn):
                    await fresh.step(walked[number])
                assert (await fresh.evaluate()).success, each.goal.words


async def test_questions_are_drawn_by_generator_and_validated_with_the_generators_own_answers(pool_of):
    async with pool_of("reasoning-gym") as pool:
        (place,) = await pool.tasks("train", limit=1)
        writer = make("writer", "synthesis", {"patterns": ("basic_arithmetic", "caesar_cipher")})
        async with pool.lease() as env:
            drawn = await writer.write(env, place, 6)
            held = await Held.of(env, await pool.tasks("test", limit=3))
        assert {each.goal.pattern for each in drawn} == {"basic_arithmetic", "caesar_cipher"}
        config = ValidationConfig(least=1, expert=True)
        found = await Validator(pool.lease, held, config).validate(drawn)
        # The curriculum of one generator goes beyond what it takes: that is found out by making the question.
        refused = [each for each in found if not each.accepted]
        assert [each.reason for each in refused] == ["goal"] and "level 2" in refused[0].candidate.goal.words
        assert all(each.success and each.similarity is not None for each in found if each.accepted)
