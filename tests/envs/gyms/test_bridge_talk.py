"""A conversation that a framework leads: what the agent sees of it, how it ends, what cannot be followed."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.envs.gyms.bridge_talk import Cut, Rewritten, Talk
from silva.tree import ImagePart, Message, TextPart, Tool, ToolCall, assistant, call, system, tool_result, user

HAMMER = Tool(name="hammer")
READ = call("read", {"path": "/secret", "lines": [1, 2]}, "a")
SHOWN = tuple(ImagePart(hash=letter * 64, media_type="image/png") for letter in "ab")


async def played(opening, action, added, then):
    """One turn that the framework follows with `added`, a second, and the conversation it makes `then` of it all."""
    talk = Talk()

    async def leader():
        answer = await talk.ask(opening, [])
        said = [*opening, answer, *added]
        answer = await talk.ask(said, [])
        await talk.ask(then([*said, answer]), [])

    await talk.begin(leader())
    try:
        await talk.answer(action)
        return await talk.answer(assistant("on"))
    finally:
        await talk.abandon()


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


def changed(place, **fields):
    return lambda said: [*said[:place], msgspec.structs.replace(said[place], **fields), *said[place + 1 :], user("?")]


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (changed(1, tool_calls=(call("read", {}, "a"),)), r"message 2, assistant '', .* \(other arguments of a call\)"),
        (changed(1, tool_calls=(call("write", {}, "a"),)), r"message 2, .* \(other calls, other arguments of a call\)"),
        (changed(1, tool_calls=()), r"message 2, .* \(other calls, .*\)"),
        (changed(2, parts=(TextPart(text="seen"),)), r"message 3, tool 'seen', became tool 'seen' \(other images\)"),
        (changed(2, parts=(TextPart(text="seen"), *SHOWN[::-1])), r"message 3, .* \(other images\)"),
        (changed(2, parts=(TextPart(text="seen"), *SHOWN, SHOWN[0])), r"message 3, .* \(other images\)"),
        (changed(2, tool_call_id="b"), r"message 3, .* \(an answer to another call\)"),
        (changed(2, tool_call_id=None), r"message 3, .* \(an answer to another call\)"),
        (changed(0, role="system"), r"message 1, user 'look', became system 'look' \(another role\)"),
        (changed(0, parts=(TextPart(text="look!"),)), r"message 1, user 'look', became user 'look!' \(other text\)"),
    ],
)
async def test_whatever_of_an_earlier_message_is_rewritten_is_an_error_that_names_it(then, why):
    picture = Message(role="tool", parts=(TextPart(text="seen"), *SHOWN), tool_call_id="a")
    with pytest.raises(Rewritten, match=why):
        await played([user("look")], assistant("", READ), [picture], then)


async def test_the_answers_to_two_calls_cannot_change_places():
    made = call("read", {}, "a"), call("read", {}, "b")
    answers = tool_result("a", "same"), tool_result("b", "same")
    with pytest.raises(Rewritten, match=r"message 3, tool 'same', .*an answer to another call"):
        await played([user("look")], assistant("", *made), answers, lambda said: [*said[:2], *said[3:1:-1], *said[4:]])


def renumbered(said):
    (made,) = said[1].tool_calls
    again = ToolCall(id="call_1", name=made.name, arguments='{"lines":[1,2],  "path": "\\u002fsecret"}')
    answer = msgspec.structs.replace(said[2], tool_call_id="call_1")
    return [said[0], assistant(" on my way\n", again), answer, *said[3:], user("and?")]


async def test_calls_numbered_anew_arguments_spelled_anew_and_trimmed_text_are_the_same_conversation():
    seen = await played([user("look")], assistant("on my way", READ), [tool_result("a", "seen")], renumbered)
    assert seen.messages == (user("and?"),)


@pytest.mark.parametrize("sent", ["{oops", "7", "[1]", ""])
async def test_arguments_that_are_no_object_may_be_read_by_the_framework_once(sent):
    def talk_of(later):
        made = ToolCall(id="a", name="read", arguments=sent)
        talk = Talk()

        async def leader():
            await talk.ask([user("look")], [])
            read = assistant("", call("read", {}, "a"))
            await talk.ask([user("look"), read, tool_result("a", "error")], [])
            then = assistant("", call("read", later, "a"))
            await talk.ask([user("look"), then, tool_result("a", "error"), assistant("on"), user("and?")], [])

        return talk, leader, made

    talk, leader, made = talk_of({})
    await talk.begin(leader())
    assert (await talk.answer(assistant("", made))).messages == (tool_result("a", "error"),)
    assert (await talk.answer(assistant("on"))).messages == (user("and?"),)
    await talk.abandon()
    talk, leader, made = talk_of({"path": "x"})
    await talk.begin(leader())
    await talk.answer(assistant("", made))
    with pytest.raises(Rewritten, match="other arguments"):
        await talk.answer(assistant("on"))
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
