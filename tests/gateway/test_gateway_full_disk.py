"""What full disks do to the gateway, and how its clients are told."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
import requests
from dialect_errors import ASKED, ROUTES, broken_off, each_dialect, message_of, path_to
from disks import FullDisk

from silva.models.gateway import keeper as keeper_module

WORDS = "one two three four"
ENDS = ("[DONE]", "message_stop", "response.completed")


@each_dialect
def test_a_full_disk_refuses_turns_until_there_is_room_and_loses_none(
    scripted: Any, serve: Any, full_disk: FullDisk, route: str
) -> None:
    model = scripted()
    gateway = serve(model)
    token = gateway.open_run()
    first = gateway.chat(token, ASKED)
    assert first.ok
    full_disk.full = True
    for asked in 2, 2, 2:  # once it is known that the disk is full, and for as long as it is, nobody asks the model
        refused = gateway.post(path_to(route), token, ROUTES[route])
        assert refused.status_code == 507 and "retry-after" in refused.headers
        assert "kept" in message_of(refused, route)
        assert model.requests == asked
    goes_on = [*ASKED["messages"], first.json()["choices"][0]["message"], {"role": "user", "content": "more"}]
    full_disk.full = False
    again = gateway.chat(token, {**ASKED, "messages": goes_on})
    assert again.ok, again.text
    assert requests.get(f"{gateway.where}/readyz", timeout=10).ok
    (tree,) = gateway.trees()
    assert len(tree.leaves) == 1 and len(tree) == 4


@each_dialect
def test_a_run_may_opt_for_best_effort_and_is_told(
    scripted: Any, serve: Any, full_disk: FullDisk, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    monkeypatch.setattr(keeper_module, "PATIENCE", 3600.0)
    gateway = serve(scripted())
    token = gateway.open_run("loose", capture="best_effort")
    strict = gateway.open_run("strict")
    path = path_to(route, "loose")
    assert gateway.post(path, token, ROUTES[route]).headers["x-silva-capture"] == "kept"
    full_disk.full = True
    lost = [gateway.post(path, token, ROUTES[route]) for _ in range(3)]
    assert [answer.status_code for answer in lost] == [200] * 3
    assert [answer.headers["x-silva-capture"] for answer in lost] == ["lost"] * 3
    refused = gateway.post(path_to(route, "strict"), strict, ROUTES[route])
    assert refused.status_code == 507 and "kept" in message_of(refused, route)
    assert gateway.admin("GET", "runs/loose").json()["spent"]["lost"] == 3
    assert requests.get(f"{gateway.where}/readyz", timeout=10).status_code == 503
    metrics = requests.get(f"{gateway.where}/metrics", timeout=10).text
    assert "silva_store_writable 0.0" in metrics and "silva_turns_lost 3.0" in metrics


def test_a_trajectory_says_how_many_turns_were_lost_also_once_the_disk_has_room_again(
    scripted: Any, serve: Any, full_disk: FullDisk
) -> None:
    gateway = serve(scripted())
    token = gateway.open_run(capture="best_effort")
    gateway.chat(token, ASKED, rollout="a")
    gateway.chat(token, ASKED, rollout="b")
    full_disk.full = True
    assert [gateway.chat(token, ASKED, rollout="a").headers["x-silva-capture"] for _ in range(2)] == ["lost"] * 2
    full_disk.full = False
    assert gateway.chat(token, ASKED, rollout="a").headers["x-silva-capture"] == "kept"
    for rollout in ("a", "b"):
        assert gateway.admin("POST", f"runs/run/rollouts/{rollout}/end", {"score": 1.0}).ok
    assert gateway.admin("GET", "runs/run").json()["spent"]["lost"] == 2
    lost = {t.attributes["rollout"]: (t.turns, t.attributes.get("lost")) for t in gateway.trajectories()}
    assert lost == {"a": (2, 2), "b": (1, None)}


@each_dialect
def test_a_strict_stream_whose_turn_cannot_be_kept_ends_in_an_error(
    scripted: Any, serve: Any, full_disk: FullDisk, route: str
) -> None:
    gateway = serve(scripted(otherwise={"text": WORDS}))
    token = gateway.open_run()
    assert gateway.chat(token, ASKED).ok
    full_disk.full = True
    answer = gateway.post(path_to(route), token, {**ROUTES[route], "stream": True})
    assert answer.status_code == 200 and answer.headers["x-silva-capture"] == "streamed"
    assert "kept" in broken_off(answer, route)
    assert not any(end in answer.text for end in ENDS)
    assert len([node for node in gateway.nodes() if node.message.role == "assistant"]) == 1


@each_dialect
@pytest.mark.parametrize("stream", [False, True])
def test_best_effort_answers_in_new_rollouts_too(
    scripted: Any, serve: Any, full_disk: FullDisk, route: str, stream: bool
) -> None:
    gateway = serve(scripted())
    token = gateway.open_run(capture="best_effort")
    full_disk.full = True
    for place in range(2):
        path = path_to(route, rollout=f"new{place}")
        answer = gateway.post(path, token, {**ROUTES[route], "stream": stream})
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-silva-capture"] == "lost"
    assert gateway.admin("GET", "runs/run").json()["spent"]["lost"] == 2
    full_disk.full = False
    assert gateway.post(path_to(route, rollout="new0"), token, ROUTES[route]).headers["x-silva-capture"] == "kept"
    assert gateway.admin("POST", "runs/run/close").ok
    lost = {t.attributes["rollout"]: (t.turns, t.attributes["lost"], t.outcome.status) for t in gateway.trajectories()}
    assert lost["new0"] == (1, 1, "completed")


@each_dialect
def test_a_stream_that_began_before_the_loss_was_known_says_so_before_its_end(
    scripted: Any, serve: Any, full_disk: FullDisk, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "PATIENCE", 3600.0)
    gateway = serve(scripted(otherwise={"text": WORDS}))
    token = gateway.open_run(capture="best_effort")
    assert gateway.chat(token, ASKED).ok
    full_disk.full = True
    told = [gateway.post(path_to(route), token, {**ROUTES[route], "stream": True}) for _ in range(2)]
    assert [answer.headers["x-silva-capture"] for answer in told] == ["streamed", "lost"]
    said = [answer.text.find(": x-silva-capture: lost\n\n") for answer in told]
    assert 0 < said[0] < min(told[0].text.find(end) for end in ENDS if end in told[0].text)
    assert said[1] == -1, "its headers said so"


@pytest.mark.parametrize("route", ["chat/completions", "messages", "responses"])
def test_what_a_stream_says_of_its_loss_is_passed_over_by_the_sdks(
    scripted: Any, serve: Any, full_disk: FullDisk, route: str
) -> None:
    gateway = serve(scripted(otherwise={"text": WORDS}))
    token = gateway.open_run(capture="best_effort")
    assert gateway.chat(token, ASKED).ok
    full_disk.full = True
    where = f"{gateway.where}/r/run/main"
    asked: Any = [{"role": "user", "content": "hello"}]
    if route == "messages":
        client = anthropic.Anthropic(base_url=where, api_key=token)
        with client.messages.stream(model="scripted", max_tokens=99, messages=asked) as stream:
            assert stream.get_final_text() == WORDS
    elif route == "responses":
        events = [
            *openai.OpenAI(base_url=f"{where}/v1", api_key=token).responses.create(
                model="scripted", input="hello", stream=True
            )
        ]
        assert events[-1].type == "response.completed" and events[-1].response.output_text == WORDS
    else:
        pieces = openai.OpenAI(base_url=f"{where}/v1", api_key=token).chat.completions.create(
            model="scripted", messages=asked, stream=True
        )
        assert "".join(each.choices[0].delta.content or "" for each in pieces if each.choices) == WORDS
    assert gateway.admin("GET", "runs/run").json()["spent"]["lost"] == 1
