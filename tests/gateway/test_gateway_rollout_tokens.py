"""A rollout's token opens that rollout alone, and what a rollout may take holds whatever its program does."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from silva.models.gateway.rollout import Rollout

ASKED = {"model": "scripted", "messages": [{"role": "user", "content": "Who are you?"}]}


def opened(gateway: Any, rollout: str, **more: Any) -> str:
    """The token of a rollout that was announced."""
    body = {"rollout": rollout, "task_id": "my/1", **more}
    answer = gateway.admin("POST", "runs/run/rollouts", body)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def bounded(gateway: Any, **bounds: int) -> str:
    """The token of the rollout `main` of a new run, which may take so much."""
    gateway.open_run()
    rollout = Rollout(run_id="run", name="main", task_id="my/1", **bounds)
    return gateway.gateway.open_rollout(gateway.gateway.accounts["run"], rollout)


def test_a_rollouts_token_opens_no_sibling_and_no_name_of_its_own_making(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    run = gateway.open_run()
    first, second = opened(gateway, "r0", index=0), opened(gateway, "r1", index=1)
    assert first != second != run
    assert gateway.chat(first, ASKED, "r0").ok and gateway.chat(second, ASKED, "r1").ok
    for name in ("r1", "invented"):
        refused = gateway.chat(first, {"model": "scripted", "messages": [{"role": "user", "content": "!"}]}, name)
        assert refused.status_code == 403 and "r0 alone" in refused.json()["error"]["message"]
    assert gateway.post("/r/other/r0/v1/chat/completions", first, ASKED).status_code == 401
    assert gateway.chat(f"{first[:-1]}{'a' if first[-1] != 'a' else 'b'}", ASKED, "r0").status_code == 401
    by_token = gateway.post("/v1/chat/completions", first, ASKED, **{"x-session-id": "r1"})
    assert by_token.ok, "where the URL names no rollout, the token does"
    turns = {each["rollout"]: each["turns"] for each in gateway.admin("GET", "runs/run/rollouts").json()["rollouts"]}
    assert turns == {"r0": 2, "r1": 1}
    assert gateway.chat(run, ASKED, "r1").ok and gateway.chat(run, ASKED, "another").ok, "a whole run's may"


def test_a_rollouts_token_is_good_until_it_ends(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    gateway.open_run()
    token = opened(gateway, "r0")
    assert gateway.chat(token, ASKED, "r0").ok
    assert gateway.admin("POST", "runs/run/rollouts/r0/end", {"score": 1.0}).ok
    for path in ("/r/run/r0/v1/chat/completions", "/v1/chat/completions"):
        late = gateway.post(path, token, {"model": "scripted", "messages": [{"role": "user", "content": "more"}]})
        assert late.status_code == 401
    (trajectory,) = gateway.trajectories()
    assert trajectory.turns == 1 and "token_sha256" not in trajectory.attributes


def test_a_gateway_that_starts_again_knows_a_rollouts_token(scripted: Any, serve: Any, tmp_path: Any) -> None:
    model = scripted()
    first = serve(model, lake=tmp_path / "lake")
    first.open_run()
    token, old = opened(first, "r1", index=1), opened(first, "r0")
    new = opened(first, "r0")  # announced again: the token it had is good no longer
    assert first.chat(new, ASKED, "r0").ok and first.chat(old, ASKED, "r0").status_code == 401
    first.stop()
    again = serve(model, lake=tmp_path / "lake")
    assert again.chat(token, ASKED, "r1").ok and again.chat(new, ASKED, "r0").ok
    assert again.chat(token, ASKED, "r0").status_code == 403
    assert again.chat(old, ASKED, "r0").status_code == 401


def test_tokens_of_one_rollout_are_bounded_however_many_ask_at_once(scripted: Any, serve: Any) -> None:
    model = scripted(latency=0.1)
    gateway = serve(model)
    token = bounded(gateway)
    answer = gateway.chat(token, ASKED).json()["usage"]
    each = answer["prompt_tokens"] + answer["completion_tokens"]
    gateway.admin("POST", "runs/run/close", {})
    gateway = serve(model)
    token = bounded(gateway, most_tokens=3 * each)
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda place: gateway.chat(token, {**ASKED, "seed": place}), range(10)))
    (session,) = gateway.gateway.sessions
    used = session.usage.prompt_tokens + session.usage.completion_tokens
    assert used <= 4 * each, "by what one request alone costs, at most"
    assert {answer.status_code for answer in answers} == {200, 402}


def test_a_client_that_hangs_up_has_taken_its_turn(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(latency=5.0))
    token = bounded(gateway, most_turns=2)
    for place in range(2):
        with pytest.raises(requests.exceptions.ReadTimeout):
            requests.post(
                f"{gateway.where}/r/run/main/v1/chat/completions",
                json={"model": "scripted", "messages": [{"role": "user", "content": f"question {place}"}]},
                headers={"Authorization": f"Bearer {token}"},
                timeout=1.0,
            )
    account = gateway.gateway.accounts["run"]
    while account.in_flight:
        time.sleep(0.02)
    refused = gateway.chat(token, ASKED)
    assert refused.status_code == 402 and "used 2 of 2 turns" in refused.json()["error"]["message"]


@pytest.mark.parametrize("bounds", [{"most_turns": 1}, {"most_tokens": 1}])
def test_a_session_that_is_let_go_of_keeps_its_bounds(scripted: Any, serve: Any, bounds: dict[str, int]) -> None:
    gateway = serve(scripted())
    token = bounded(gateway, **bounds)
    assert gateway.chat(token, ASKED).ok
    gateway.gateway.conversations.let_go(("run", "main"))
    assert gateway.chat(token, {**ASKED, "seed": 1}).status_code == 402
