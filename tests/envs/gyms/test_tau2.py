"""τ²-bench: the scripted customer by itself, and the three domains through their installed hosts."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from silva.envs import HostPool, Registry
from silva.envs.check import play, spread
from silva.envs.gyms.tau2.customer import REPLIES, ScriptedCustomer, first_person
from silva.errors import MissingError, SilvaError
from silva.tree import ToolCall, assistant, call


def _scenario(**changed):
    told = {
        "reason_for_call": "You want to cancel your flight to Oslo.",
        "known_info": "You are Ada Berg. Your user id is ada_berg_1.",
        "unknown_info": "You do not remember your reservation number.",
        "task_instructions": "You paid with a gift card. If a refund is not possible, you want to keep the flight.",
    }
    return SimpleNamespace(instructions=SimpleNamespace(**{**told, **changed}))


def test_the_scenario_is_told_in_the_first_person():
    assert first_person("You are Ada, your id is 3; they owe it to you and you're cross.") == (
        "I am Ada, my id is 3; they owe it to me and I'm cross."
    )


def test_the_customer_opens_with_the_reason_and_what_it_knows():
    assert ScriptedCustomer(_scenario()).opening() == (
        "I want to cancel my flight to Oslo. I am Ada Berg. my user id is ada_berg_1."
    )


def test_the_customer_tells_its_wishes_answers_confirms_and_hangs_up():
    customer = ScriptedCustomer(_scenario())
    customer.opening()
    assert "gift card" in (customer.reply("Let me look that up.") or "")
    assert "ada_berg_1" in (customer.reply("What is your user id?") or "")
    assert "do not remember my reservation number" in (
        customer.reply("And the reservation number, do you remember it?") or ""
    )
    assert customer.reply("Shall I go ahead and cancel it?") == "Yes, please go ahead."
    assert customer.reply("It is cancelled. Do you agree to a voucher?") == "Yes, please go ahead."
    assert customer.reply("It is on its way. Is there anything else?") is None


def test_the_customer_bears_one_remark_but_not_two_in_a_row():
    customer = ScriptedCustomer(_scenario(task_instructions="."))
    assert customer.reply("One moment.") == "Thank you. Please go on."
    assert "ada_berg_1" in (customer.reply("What is your user id?") or "")
    assert customer.reply("One moment.") == "Thank you. Please go on."
    assert customer.reply("I am still looking.") is None


def test_the_customer_gives_up_on_a_question_asked_for_the_third_time():
    customer = ScriptedCustomer(_scenario(task_instructions=None))
    assert [customer.reply("What is your user id?") is None for _ in range(3)] == [False, False, True]


def test_the_customer_hangs_up_when_transferred_and_never_talks_for_ever():
    assert ScriptedCustomer(_scenario()).reply("YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON.") is None
    customer = ScriptedCustomer(_scenario(task_instructions=None, unknown_info=None))
    questions = ("What is your user id?", "Shall I proceed?")
    replies = 0
    while customer.reply(questions[replies % 2]) is not None:
        replies += 1
    assert replies == REPLIES


@pytest.fixture
async def pool_of():
    opened = []

    async def make(domain, **how):
        try:
            pool = HostPool(Registry.load().entry(f"tau2-{domain}"), **how)
        except MissingError as error:
            pytest.skip(str(error))
        opened.append(pool)
        return await pool.__aenter__()

    yield make
    for pool in opened:
        await pool.close()


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "base", "test"), [("telecom", 114, 40), ("airline", 50, 20), ("retail", 114, 40)])
async def test_the_splits_are_the_benchmark_s_and_the_expert_scores_full_marks(pool_of, domain, base, test):
    pool = await pool_of(domain)
    everything = await pool.tasks("base")
    assert (len(everything), len(await pool.tasks("test"))) == (base, test)
    async with pool.lease() as env:
        for task in spread(everything, 8):
            assert (await play(env, task, "expert"))[0].success, task.id


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "ids", "scores"),
    [
        ("telecom", (), (0.0,) * 6),
        ("airline", ("0", "2", "4", "49"), (1.0, 0.0, 1.0, 1.0)),
        ("retail", ("0", "10", "20", "57"), (0.0, 1.0, 0.0, 1.0)),
    ],
)
async def test_the_null_policy_scores_only_where_nothing_is_to_be_done(pool_of, domain, ids, scores):
    pool = await pool_of(domain)
    tasks = await pool.tasks("base", ids=[f"tau2/{domain}/{name}" for name in ids] or None)
    tasks = tasks if ids else spread(tasks, len(scores))
    async with pool.lease() as env:
        assert tuple([(await play(env, task, "null"))[0].score for task in tasks]) == scores


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["telecom", "retail", pytest.param("airline", marks=pytest.mark.weekly)])
async def test_the_same_actions_give_the_same_words(pool_of, domain):
    pool = await pool_of(domain)
    tasks = spread(await pool.tasks("base"), 2)

    async def transcript(env, task):
        observation = await env.reset(task, 1)
        said = [observation]
        while not observation.done:
            observation = await env.step(await env.expert())
            said.append(observation)
        return said

    async with pool.lease() as env:
        first = [await transcript(env, task) for task in tasks]
        again = [await transcript(env, task) for task in reversed(tasks)]
    assert first == again[::-1]


@pytest.mark.slow
async def test_badly_formed_actions_are_answered_and_ten_of_them_end_it(pool_of):
    pool = await pool_of("telecom")
    (task,) = spread(await pool.tasks("base"), 1)
    bad = (
        ToolCall(id="a", name="get_data_usage", arguments="{"),
        ToolCall(id="b", name="get_data_usage", arguments='"text"'),
        call("no_such_tool", {}, "c"),
        call("get_data_usage", {"wrong": 1}, "d"),
        call("get_data_usage", {"customer_id": [], "line_id": {}}, "e"),
    )
    async with pool.lease() as env:
        await env.reset(task)
        observation = await env.step(assistant("", *bad))
        assert [m.tool_call_id for m in observation.messages] == list("abcde")
        assert all("rror" in m.text for m in observation.messages), observation.messages
        spoken = await env.step(assistant("Hello?"))
        assert "call a tool" in spoken.messages[0].text and not spoken.done
        observation = await env.step(assistant("", *bad))
        assert observation.truncated
        assert (await env.evaluate()).score == 0.0


@pytest.mark.slow
async def test_the_ground_truth_holds_after_a_mistake_was_answered(pool_of):
    pool = await pool_of("telecom")
    (task,) = spread(await pool.tasks("base"), 1)
    async with pool.lease() as env:
        await env.reset(task)
        observation = await env.step(assistant("", call("no_such_tool", {}), ToolCall(id="x", name="y", arguments="{")))
        while not observation.done:
            observation = await env.step(await env.expert())
        evaluation = await env.evaluate()
    assert evaluation.score == 1.0 and evaluation.metrics["tool_errors"] >= 2


async def _model_server(replies, seen):
    """A chat server on loopback that says the replies one after another; a number is sent as that status."""

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        seen.append((head.decode(), json.loads(await reader.readexactly(length))))
        reply = replies.pop(0)
        status = reply if isinstance(reply, int) else 200
        body = json.dumps({"choices": [{"message": {"content": reply}}]} if status == 200 else {"error": "no"}).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


@pytest.mark.slow
async def test_a_model_can_play_the_customer(pool_of, monkeypatch):
    monkeypatch.setenv("SILVA_USER_API_KEY", "sesame")
    seen = []
    server = await _model_server(["I want to cancel.", 503, "Yes, do.", "Bye ###STOP###"], seen)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    options = {"user_model": "tiny", "user_url": url}
    pool = await pool_of("retail", options=options, pass_variables=["SILVA_USER_API_KEY"])
    (task,) = spread(await pool.tasks("base"), 1)
    async with pool.lease() as env:
        opening = await env.reset(task, 11)
        assert opening.messages[-1].text == "I want to cancel."
        asked = await env.step(assistant("Shall I?"))
        assert asked.messages[0].text == "Yes, do."  # after the 503 was tried again
        assert (await env.step(assistant("Done."))).done
    server.close()
    head, body = seen[-1]
    assert "Bearer sesame" in head and body["model"] == "tiny" and body["seed"] == 11
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user", "assistant", "user"]


@pytest.mark.slow
async def test_a_refusing_user_model_is_told_in_one_line(pool_of):
    server = await _model_server([401], [])
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    pool = await pool_of("retail", options={"user_model": "tiny", "user_url": url})
    (task,) = spread(await pool.tasks("base"), 1)
    async with pool.lease() as env:
        with pytest.raises(SilvaError, match="user model tiny cannot be asked") as caught:
            await env.reset(task)
    assert "status 401" in str(caught.value) and "\n" not in str(caught.value)
    server.close()
