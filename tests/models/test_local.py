"""The bundled model itself: needs torch and the weights, so all of it is slow."""

from __future__ import annotations

import asyncio
import threading

import pytest

from silva.models import ModelError, Request, Sampling, connect
from silva.tree import Tool, assistant, tool_result, user

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

GREEDY = Sampling(temperature=0.0, max_tokens=12, logprobs=True)
PROMPTS = [list(range(100, 100 + n)) for n in (3, 40, 7, 600, 21)]


@pytest.fixture(scope="module")
def folder():
    from silva.models.bundled import weights_folder

    return weights_folder()


@pytest.fixture
def engine(folder):
    from silva.models.local.engine import Engine

    engine = Engine(folder, dtype=torch.float32)
    engine.start()
    yield engine
    engine.stop()


def job(prompt: list[int], most: int = 10, **how: float):
    from silva.models.local.engine import Job, choice

    done = threading.Event()
    made = Job(
        list(prompt),
        most,
        choice(how.get("temperature", 0.0), how.get("top_p"), None, how.get("seed")),  # type: ignore[arg-type]
        lambda moved: done.set() if moved.finish else None,
    )
    made.done = done  # type: ignore[attr-defined]
    return made


def together(engine, jobs) -> None:
    for one in jobs:
        engine.submit(one)
    for one in jobs:
        assert one.done.wait(120)
        assert one.fault is None


def test_the_network_computes_what_transformers_computes(folder) -> None:
    transformers = pytest.importorskip("transformers")
    from silva.models.local.network import Network

    referee = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    network = Network(folder, torch.float32)
    cache = network.cache(4096)
    cache.reserve(1, 64)
    ids = [1, 504, 3575, 282, 4649, 314, 7042, 30, 2, 198, 1, 520]
    with torch.inference_mode():
        wanted = referee(torch.tensor([ids])).logits[0]
    network.prefill(cache, 0, [ids[:4]], [0])
    read = network.prefill(cache, 0, [ids[4:9]], [4])[0]
    assert torch.allclose(read, wanted[8], atol=2e-3)
    for place in range(9, len(ids)):
        assert torch.allclose(network.step(cache, [ids[place]], [place])[0], wanted[place], atol=2e-3)


def test_a_row_of_a_ragged_batch_is_what_it_is_alone(folder, engine) -> None:
    from silva.models.local.engine import Engine

    batch = [job(prompt) for prompt in PROMPTS]
    together(engine, batch)
    for one in batch:
        alone = job(one.prompt)
        single = Engine(folder, rows=1, dtype=torch.float32)
        single.start()
        together(single, [alone])
        single.stop()
        assert alone.ids == one.ids
        assert alone.logprobs == pytest.approx(one.logprobs, abs=2e-3)


def test_requests_join_and_leave_between_steps(engine) -> None:
    from silva.models.local.engine import Job

    long = job(PROMPTS[0], most=60)
    beside: list[int] = []
    joined = Job(PROMPTS[2], 3, long.choice, lambda _: beside.append(len(long.ids)))
    engine.submit(long)
    engine.submit(joined)
    assert long.done.wait(120)
    assert joined.finish == "length" and len(beside) == 3
    assert 0 < beside[0] < beside[-1] < 60  # it took its steps while the other took some of its own
    again = job(PROMPTS[0], most=60)
    together(engine, [again])
    assert again.ids == long.ids


def test_a_seed_draws_the_same_whatever_else_is_in_the_batch(engine) -> None:
    seeded = [job(PROMPTS[1], temperature=1.0, seed=5) for _ in range(2)]
    together(engine, [seeded[0]])
    together(engine, [job(PROMPTS[2], temperature=1.0, seed=9), seeded[1], job(PROMPTS[4], temperature=1.0, seed=1)])
    assert seeded[0].ids == seeded[1].ids
    other = job(PROMPTS[1], temperature=1.0, seed=6)
    together(engine, [other])
    assert other.ids != seeded[0].ids


def test_a_cancelled_request_leaves_the_batch(engine) -> None:
    endless = job(PROMPTS[0], most=5000)
    engine.submit(endless)
    endless.cancelled = True
    together(engine, [job(PROMPTS[2], most=2)])
    assert not endless.finish


def test_draws_follow_the_chances_and_cut_offs() -> None:
    from random import Random

    from silva.models.local.sampler import Choice, choose

    chances = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    rows = chances.log().repeat(4000, 1)
    plain = [Choice(random=Random(i)) for i in range(4000)]
    ids, logprobs = choose(rows, plain)
    counts = [ids.count(number) / 4000 for number in range(4)]
    assert counts == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.03)
    assert logprobs[0] == pytest.approx(float(chances[0, ids[0]].log()), abs=1e-5)
    nucleus, _ = choose(rows[:500], [Choice(random=Random(i), top_p=0.75) for i in range(500)])
    assert set(nucleus) == {0, 1}
    first, _ = choose(rows[:100], [Choice(random=Random(i), top_k=1) for i in range(100)])
    assert set(first) == {0}
    assert choose(rows[:1], [Choice(random=Random(0), temperature=0.0)])[0] == [0]
    hot = choose(rows[:1], [Choice(random=Random(0), temperature=2.0)])
    assert hot[1][0] == pytest.approx(float(torch.log_softmax(chances.log() / 2, -1)[0, hot[0][0]]), abs=1e-5)


def test_memory_stays_within_its_bound_and_what_does_not_fit_waits(folder) -> None:
    from silva.models.local.engine import Engine

    small = Engine(folder, dtype=torch.float32, memory=700 * 46080)
    assert small.network.token_bytes == 46080
    sizes: list[int] = []
    reserve = small._cache.reserve

    def measured(rows: int, length: int) -> None:
        reserve(rows, length)
        sizes.append(small._cache.keys.shape[1] * small._cache.keys.shape[3])

    small._cache.reserve = measured  # type: ignore[method-assign]
    small.start()
    together(small, [job(PROMPTS[3], most=4), *(job(PROMPTS[1], most=20) for _ in range(6)), job(PROMPTS[3], most=4)])
    alone = job(PROMPTS[1], most=20)
    together(small, [alone])
    small.stop()
    assert 600 < max(sizes) <= 700
    assert alone.cached >= 39  # its beginning was kept from the requests before


async def test_it_answers_over_http_and_gives_its_tokens() -> None:
    async with connect("local") as model:
        question = (user("What is the capital of France? Answer in one sentence."),)
        first = await model.complete(Request(messages=question, sampling=GREEDY))
        assert "Paris" in first.message.text and first.finish_reason == "stop"
        assert first.tokens is not None and len(first.tokens.logprobs) == first.usage.completion_tokens
        assert first.policy_version.startswith("smollm2-135m-instruct@")

        streamed = [delta async for delta in model.stream(Request(messages=question, sampling=GREEDY))]
        assert "".join(delta.text for delta in streamed) == first.message.text
        last = streamed[-1].completion
        assert last is not None and last.tokens is not None and last.tokens.ids == first.tokens.ids

        wild = Sampling(temperature=1.5, seed=3, max_tokens=12)
        odd = await model.complete(Request(messages=question, sampling=wild))
        assert odd.tokens is not None
        second = await model.complete(
            Request(messages=(*question, odd.message, user("And of Italy?")), sampling=GREEDY)
        )
        whole = odd.prompt_ids + odd.tokens.ids
        assert second.prompt_ids[: len(whole)] == whole
        assert second.usage.cached_tokens >= len(whole) - 1

        cut = await model.complete(
            Request(messages=question, sampling=Sampling(temperature=0.0, stop=("France",), max_tokens=12))
        )
        assert cut.message.text == "The capital of " and cut.finish_reason == "stop"
        short = await model.complete(Request(messages=question, sampling=Sampling(max_tokens=2)))
        assert short.finish_reason == "length" and short.usage.completion_tokens == 2

        tools = (Tool(name="get_weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}}),)
        talk = (user("Weather in Rome?"), assistant("I look."), tool_result("1", "sunny"), user("So?"))
        told = await model.complete(Request(messages=talk, tools=tools, sampling=GREEDY))
        assert told.usage.prompt_tokens > 100

        with pytest.raises(ModelError) as caught:
            await model.complete(Request(messages=(user("word " * 9000),)))
        assert caught.value.kind == "context_length"
        with pytest.raises(ModelError, match="temperature"):
            await model.complete(Request(messages=question, sampling=Sampling(temperature=-1.0)))

        many = await asyncio.gather(*(model.complete(Request(messages=question, sampling=GREEDY)) for _ in range(12)))
        assert {reply.message.text for reply in many} == {first.message.text}


def test_a_tool_call_in_the_history_is_rendered_and_its_ids_are_kept(folder) -> None:
    from silva.models.local.prompt import Prompter
    from silva.models.serving import ChatMessage, ChatRequest
    from silva.models.serving.chat import CallFunction, ChatTool, HistoryCall, ToolFunction

    prompter = Prompter(folder)
    tools = [ChatTool(function=ToolFunction(name="f", parameters={"type": "object"}))]
    ask = ChatRequest(messages=[ChatMessage(role="user", content="go")], tools=tools)
    prompt = prompter.ids(ask)
    said = ChatMessage(role="assistant", tool_calls=[HistoryCall(function=CallFunction(name="f", arguments="{}"))])
    sampled = [9, 9, 9, 2]
    prompter.remember(ask, said, prompt + sampled)
    result = ChatMessage(role="tool", content="42")
    again = prompter.ids(ChatRequest(messages=[*ask.messages, said, result], tools=tools))
    assert again[: len(prompt) + 4] == prompt + sampled
    rest = prompter._tokenizer.decode(again[len(prompt) + 4 :], skip_special_tokens=False)
    assert rest == "\n<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    fresh = Prompter(folder).ids(ChatRequest(messages=[*ask.messages, said, result], tools=tools))
    text = prompter._tokenizer.decode(fresh, skip_special_tokens=False)
    assert '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>' in text
    assert '"parameters":{"type":"object"}' in text
