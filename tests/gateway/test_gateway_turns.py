"""What passes through the gateway: answered in the client's dialect, kept once, found again."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import anthropic
import openai
import pytest

from silva.tree import InexactTokensError, token_walk

WEATHER = {
    "when": {"last": "weather in (\\w+)"},
    "reply": {"tool_calls": [{"name": "look", "arguments": {"city": "\\1"}}], "expand": True},
}
ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
LOOK = {"type": "object", "properties": {"city": {"type": "string"}}}


def test_a_tool_loop_of_the_openai_sdk_becomes_one_walk(scripted: Any, serve: Any) -> None:
    model = scripted(rules=[WEATHER], otherwise={"text": "It is sunny."})
    gateway = serve(model)
    token = gateway.open_run()
    client = openai.OpenAI(base_url=f"{gateway.where}/r/run/main/v1", api_key=token)
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": LOOK}}]
    messages: list[Any] = [{"role": "system", "content": "Help."}, {"role": "user", "content": "weather in Oslo"}]
    said = client.chat.completions.create(model="scripted", messages=messages, tools=tools).choices[0].message
    assert said.tool_calls
    messages += [
        said.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "18"},
    ]
    last = client.chat.completions.create(model="scripted", messages=messages, tools=tools).choices[0].message
    assert last.content == "It is sunny."
    assert gateway.admin("POST", "runs/run/close", {}).json()["status"] == "finished"
    (tree,) = gateway.trees()
    (leaf,) = tree.leaves
    walk = tree.walk(leaf.id)
    assert [node.message.role for node in walk] == ["system", "user", "assistant", "tool", "assistant"]
    assert [tool.name for tool in walk[0].tools or ()] == ["look"]
    exact = token_walk(walk)
    assert sum(exact.sampled) == sum(node.tokens.sampled for node in walk if node.tokens)
    assert walk[-1].attributes.get("tokens") is None, "the second turn goes on from the first one's ids"
    (trajectory,) = gateway.trajectories()
    assert (trajectory.leaf_id, trajectory.turns, trajectory.outcome.status) == (leaf.id, 2, "completed")


def test_a_tool_loop_of_the_anthropic_sdk_becomes_one_walk(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(rules=[WEATHER], otherwise={"text": "It is sunny."}))
    client = anthropic.Anthropic(base_url=f"{gateway.where}/r/run/main", api_key=gateway.open_run())
    tools: Any = [{"name": "look", "input_schema": LOOK}]
    messages: list[Any] = [{"role": "user", "content": "weather in Oslo"}]
    with client.messages.stream(model="scripted", max_tokens=99, messages=messages, tools=tools) as stream:
        said = stream.get_final_message()
    call = next(block for block in said.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "18"}
    messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": [result]}]
    last = client.messages.create(model="scripted", max_tokens=99, messages=messages, tools=tools)
    assert last.content[0].type == "text" and last.stop_reason == "end_turn"
    (tree,) = gateway.trees()
    (leaf,) = tree.leaves
    assert [node.message.role for node in tree.walk(leaf.id)] == ["user", "assistant", "tool", "assistant"]


def test_a_response_goes_on_from_the_one_it_names(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(rules=[WEATHER], otherwise={"text": "It is sunny."}))
    client = openai.OpenAI(base_url=f"{gateway.where}/r/run/main/v1", api_key=gateway.open_run())
    tools: Any = [{"type": "function", "name": "look", "parameters": LOOK}]
    first = client.responses.create(model="scripted", input="weather in Oslo", tools=tools)
    call: Any = first.output[0]
    item: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "18"}
    second = client.responses.create(model="scripted", previous_response_id=first.id, input=[item], tools=tools)
    assert second.output_text == "It is sunny."
    with pytest.raises(openai.NotFoundError, match="no response"):
        client.responses.create(model="scripted", previous_response_id="resp_unknown", input="more")
    (tree,) = gateway.trees()
    assert len(tree.leaves) == 1 and len(tree) == 4


def test_a_stream_has_all_that_was_kept(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(otherwise={"text": "one two three four"}))
    token = gateway.open_run()
    answer = gateway.chat(token, {**ASKED, "stream": True, "stream_options": {"include_usage": True}})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    text = "".join(
        choice["delta"].get("content") or "" for event in events[:-1] for choice in json.loads(event)["choices"]
    )
    assert text == "one two three four"
    assert [node.message.text for node in gateway.nodes() if node.message.role == "assistant"] == [text]


def test_ids_are_shown_to_those_who_ask_and_kept_in_any_case(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    plain = gateway.chat(token, ASKED).json()
    asked = gateway.chat(token, {**ASKED, "return_token_ids": True, "logprobs": True}).json()
    assert "prompt_token_ids" not in plain and "token_ids" not in plain["choices"][0]
    assert asked["prompt_token_ids"] and asked["choices"][0]["token_ids"]
    assert len(asked["choices"][0]["logprobs"]["content"]) == len(asked["choices"][0]["token_ids"])
    sampled = [node.tokens for node in gateway.nodes() if node.message.role == "assistant"]
    assert len(sampled) == 2 and all(tokens and tokens.logprobs for tokens in sampled)


def test_a_backend_without_ids_leaves_nodes_that_training_refuses_by_name(scripted: Any, serve: Any) -> None:
    model = scripted()
    gateway = serve({"url": model.url, "model": "scripted"})
    gateway.chat(gateway.open_run(), ASKED)
    (tree,) = gateway.trees()
    (leaf,) = tree.leaves
    assert leaf.attributes["tokens"] == "absent"
    with pytest.raises(InexactTokensError, match=r"model scripted\) has no token ids"):
        token_walk(tree.walk(leaf.id))


@pytest.mark.parametrize("headers", [{"x-stainless-retry-count": "1"}, {"idempotency-key": "k"}])
def test_a_repeated_request_is_answered_again_and_not_kept_twice(
    scripted: Any, serve: Any, headers: dict[str, str]
) -> None:
    model = scripted()
    gateway = serve(model)
    token = gateway.open_run()
    first = gateway.chat(token, ASKED, **({} if "x-stainless-retry-count" in headers else headers))
    again = gateway.chat(token, ASKED, **headers)
    assert {**again.json(), "created": 0} == {**first.json(), "created": 0}
    assert again.headers["x-silva-capture"] == "repeated"
    fresh = gateway.chat(token, ASKED)
    assert fresh.headers["x-silva-capture"] == "kept" and fresh.json()["id"] != first.json()["id"]
    (tree,) = gateway.trees()
    assert len(tree.leaves) == 2


def test_a_repeated_request_joins_the_one_under_way(scripted: Any, serve: Any) -> None:
    model = scripted(latency=0.5)
    gateway = serve(model)
    token = gateway.open_run()
    replies: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda: replies.append(gateway.chat(token, ASKED, **{"idempotency-key": "same"}).json())
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({reply["id"] for reply in replies}) == 1
    assert model.requests == 1
    assert len(gateway.nodes()) == 2


def test_who_joins_a_request_is_shown_what_the_first_did_not_ask_for(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(latency=0.5))
    token = gateway.open_run()
    key = {"idempotency-key": "same"}
    first = threading.Thread(target=gateway.chat, args=(token, ASKED), kwargs=key)
    first.start()
    until = time.monotonic() + 10
    while not gateway.admin("GET", "runs/run").json()["in_flight"] and time.monotonic() < until:
        time.sleep(0.01)
    joined = gateway.chat(token, {**ASKED, "return_token_ids": True, "logprobs": True}, **key)
    first.join()
    assert joined.headers["x-silva-capture"] == "repeated"
    reply, node = joined.json(), gateway.nodes()[-1]
    (choice,) = reply["choices"]
    assert node.tokens is not None and node.tokens.logprobs
    assert (*reply["prompt_token_ids"], *choice["token_ids"]) == node.tokens.ids
    assert [entry["logprob"] for entry in choice["logprobs"]["content"]] == list(node.tokens.logprobs)


def test_a_gateway_that_starts_again_knows_its_runs_its_replies_and_where_conversations_were(
    scripted: Any, serve: Any
) -> None:
    model = scripted()
    first = serve(model)
    token = first.open_run(budget={"requests": 10})
    reply = first.chat(token, ASKED).json()
    first.stop()
    second = serve(model, lake=first.lake)
    again = second.chat(token, ASKED, **{"x-stainless-retry-count": "1"}).json()
    assert again["id"] == reply["id"] and again["choices"] == reply["choices"]
    goes_on = [*ASKED["messages"], reply["choices"][0]["message"], {"role": "user", "content": "more"}]
    assert second.chat(token, {**ASKED, "messages": goes_on}).status_code == 200
    assert second.admin("GET", "runs/run").json()["spent"]["requests"] == 2
    assert second.admin("POST", "runs/run/close").status_code == 200
    (tree,) = second.trees()
    assert len(tree) == 4 and len(tree.leaves) == 1
    (trajectory,) = second.trajectories()
    assert trajectory.turns == 2


def test_a_rollout_ends_with_the_outcome_it_is_given(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    opened = gateway.admin("POST", "runs/run/rollouts", {"rollout": "a", "task_id": "t/1", "env": "mine", "index": 3})
    assert opened.status_code == 201 and opened.json()["base_url"].endswith("/r/run/a/v1")
    gateway.chat(token, ASKED, rollout="a")
    ended = gateway.admin("POST", "runs/run/rollouts/a/end", {"score": 0.5, "success": False, "metrics": {"steps": 2}})
    assert ended.status_code == 200
    (trajectory,) = gateway.trajectories()
    assert (trajectory.task_id, trajectory.env, trajectory.index) == ("t/1", "mine", 3)
    assert (trajectory.outcome.score, trajectory.outcome.success, trajectory.outcome.metrics) == (
        0.5,
        False,
        {"steps": 2},
    )
    assert trajectory.id == ended.json()["trajectory"]


def test_a_gateway_that_was_never_stopped_leaves_a_record_that_says_so(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    gateway.chat(gateway.open_run(), ASKED)
    (trajectory,) = gateway.trajectories()
    failure = trajectory.outcome.failure
    assert failure is not None and failure.code == "gateway.unended"


def test_pictures_are_kept_once_and_named_by_their_hash(scripted: Any, serve: Any) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}}
    gateway = serve(scripted())
    token = gateway.open_run()
    body = {"model": "scripted", "messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]}
    assert gateway.chat(token, body).status_code == 200
    assert gateway.chat(token, {**body, "messages": [body["messages"][0], {"role": "user", "content": "more"}]}).ok
    user = next(node for node in gateway.nodes() if node.message.role == "user" and node.depth == 0)
    (image,) = [part for part in user.message.parts if hasattr(part, "hash")]
    from silva.lake import Lake

    with Lake.open(gateway.lake, mode="read") as lake:
        assert lake.get_blob(image.hash).startswith(b"\x89PNG")


def test_conversations_in_memory_keep_to_their_bound_and_old_ones_go_on_exactly(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(otherwise={"text": "noted"}), limits={"conversations_mb": 1})
    token = gateway.open_run()
    asked = {each: [{"role": "user", "content": f"{each} {'long ' * 8000}"}] for each in range(30)}
    for each, messages in asked.items():
        said = gateway.chat(token, {**ASKED, "messages": messages}, f"r{each}").json()["choices"][0]["message"]
        messages += [said, {"role": "user", "content": "more"}]
        assert gateway.gateway._held.bytes <= 1 << 20
    assert len(gateway.gateway.sessions) < 20
    assert gateway.chat(token, {**ASKED, "messages": asked[0]}, "r0").status_code == 200
    first = next(tree for tree in gateway.trees() if any(node.message.text.startswith("0 ") for node in tree))
    (leaf,) = first.leaves
    walk = first.walk(leaf.id)
    assert [node.message.role for node in walk] == ["user", "assistant", "user", "assistant"]
    assert token_walk(walk).ids and walk[-1].attributes.get("tokens") is None


def test_an_attempt_that_is_tried_again_counts_no_longer(scripted: Any, serve: Any) -> None:
    """Whichever of the two is ended first; what it cost stays on its record."""
    serving = serve(scripted())
    serving.open_run()
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "a"}]}
    for attempt, name in enumerate(("a", "b", "c")):
        body = {"rollout": name, "task_id": "my/1", "attempt": attempt}
        token = serving.admin("POST", "runs/run/rollouts", body).json()["token"]
        assert serving.chat(token, asked, name).ok
        if name == "a":
            assert serving.admin("POST", "runs/run/rollouts/a/end", {"score": 0.0}).ok
    for name in ("c", "b"):
        assert serving.admin("POST", f"runs/run/rollouts/{name}/end", {"score": 1.0}).ok
    found = {each.attempt: each for each in serving.trajectories()}
    assert [found[attempt].superseded for attempt in range(3)] == [True, True, False]
    assert [found[attempt].outcome.score for attempt in range(3)] == [0.0, 1.0, 1.0]
    assert all(found[attempt].usage.prompt_tokens for attempt in range(3))
