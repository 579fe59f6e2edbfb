"""A conversation that a framework leads: what the agent sees of it, how it ends, what cannot be followed."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.envs.gyms.bridge_talk import Cut, Rewritten, Talk
from silva.tree import Tool, assistant, call, system, tool_result, user

HAMMER = Tool(name="hammer")


async def test_only_what_was_added_is_observed():
    talk, heard = Talk(), []

    async def leader():
        said = [system("be kind"), user("hello")]
        for following in (tool_result("hammer", "bang"), user("bye")):
            answer = await talk.ask(said, [HAMMER])
            heard.append(answer)
            said = [*said, answer, following]
        heard.append(await talk.ask(said, []))

    first = await talk.begin(leader())
    assert first.messages == (system("be kind"), user("hello")) and first.tools == (HAMMER,)
    second = await talk.answer(assistant("", call("hammer", {})))
    assert second.messages == (tool_result("hammer", "bang"),) and second.tools is None
    third = await talk.answer(assistant("ok"))
    assert third.messages == (user("bye"),) and third.tools == ()
    last = await talk.answer(assistant("bye"))
    assert last.done and talk.over and talk.turns == 3
    assert [message.text for message in heard] == ["", "ok", "bye"]


@given(st.lists(st.lists(st.text(min_size=1), min_size=1, max_size=3), min_size=1, max_size=5))
def test_the_observations_and_actions_in_turn_are_the_frameworks_conversation(turns):
    async def play():
        talk, told = Talk(), []

        async def leader():
            for turn in turns:
                told.extend(user(text) for text in turn)
                told.append(await talk.ask(told, []))

        seen = []
        observation = await talk.begin(leader())
        while not observation.done:
            action = assistant(f"answer {talk.turns}")
            seen += [*observation.messages, action]
            observation = await talk.answer(action)
        assert seen == told

    asyncio.run(play())


async def test_a_rewritten_conversation_is_an_error():
    talk = Talk()

    async def leader():
        await talk.ask([user("one")], [])
        await talk.ask([user("another")], [])

    await talk.begin(leader())
    with pytest.raises(Rewritten, match="message 1, user 'one', became user 'another'"):
        await talk.answer(assistant("yes"))
    await talk.abandon()


async def test_a_shortened_conversation_is_an_error():
    talk = Talk()

    async def leader():
        await talk.ask([user("one")], [])
        await talk.ask([user("one")], [])

    await talk.begin(leader())
    with pytest.raises(Rewritten, match="message 2, assistant 'yes', is gone"):
        await talk.answer(assistant("yes"))
    await talk.abandon()


async def test_what_the_framework_raises_is_raised():
    talk = Talk()

    async def leader():
        await talk.ask([user("one")], [])
        raise ValueError("tripped")

    await talk.begin(leader())
    with pytest.raises(ValueError, match="tripped"):
        await talk.answer(assistant("yes"))


async def test_cutting_lets_the_framework_score_and_gives_no_further_answer():
    talk, scored = Talk(), []

    async def leader():
        try:
            await talk.ask([user("one")], [])
        except Cut:
            scored.append("first")
        try:
            await talk.ask([user("one")], [])
        except Cut:
            scored.append("second")

    await talk.begin(leader())
    await talk.cut()
    assert scored == ["first", "second"] and talk.over
    assert (await talk.answer(assistant("late"))).done


async def test_abandoning_ends_the_framework_without_a_score():
    talk, ended = Talk(), []

    async def leader():
        try:
            await talk.ask([user("one")], [])
        finally:
            ended.append(True)

    await talk.begin(leader())
    await talk.abandon()
    assert ended and talk.over
