"""What the gateway refuses, and how it says so in the client's dialect."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from dialect_errors import ASKED, ROUTES, each_dialect, error_of, message_of, path_to, replied, tool_of, with_messages


@each_dialect
def test_who_has_no_good_token_learns_nothing(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    other = gateway.open_run("other")
    for given in ("", "sk-wrong", "sk-silva.run.wrong", other, token[:-1], "sk-silva.nothing.x"):
        answer = gateway.post(f"/r/run/main/v1/{route}", given, ROUTES[route])
        assert answer.status_code == 401, given
        assert "token" in message_of(answer, route)
    there, absent = (gateway.post(f"/r/{run}/main/v1/{route}", "sk-x", ROUTES[route]) for run in ("run", "absent"))
    assert message_of(there, route) == message_of(absent, route), "whether there is such a run is not told"
    assert gateway.post(f"/v1/{route}", token, ROUTES[route]).ok, "the token alone names its run"


@each_dialect
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b'{"model": "scripted", "messages": "x\xff"}', ""),
        (b"[1]", ""),
        (b'{"model": 3}', ""),
    ],
)
def test_a_malformed_body_is_told_in_the_clients_dialect(
    scripted: Any, serve: Any, route: str, body: bytes, said: str
) -> None:
    model = scripted()
    gateway = serve(model)
    answer = gateway.post(f"/r/run/main/v1/{route}", gateway.open_run(), body)
    assert answer.status_code == 400
    assert said in message_of(answer, route)
    assert model.requests == 0
    assert gateway.nodes() == []


@each_dialect
def test_a_malformed_tool_is_named_by_its_place(scripted: Any, serve: Any, route: str) -> None:
    model = scripted()
    gateway = serve(model)
    token = gateway.open_run()
    inside = {"chat/completions": ".function.parameters", "messages": ".input_schema", "responses": ".parameters"}
    for wrong, place in [
        (tool_of(route, 7), "tools[1]"),
        (tool_of(route, "f", {"type": 7}), f"tools[1]{inside[route]}.type"),
        (tool_of(route, "f", {"type": "objct"}), f"tools[1]{inside[route]}.type"),
        (tool_of(route, "f", {"type": "object", "properties": []}), f"tools[1]{inside[route]}.properties"),
    ]:
        body = {**ROUTES[route], "tools": [tool_of(route, "ok"), wrong]}
        answer = gateway.post(path_to(route), token, body)
        assert answer.status_code == 400
        error = error_of(answer.json(), route)
        assert place in (error["message"] if route == "messages" else error["param"])
    assert model.requests == 0
    good = tool_of(route, "f", {"type": ["object", "null"], "properties": {"x": {}}, "required": ["x"]})
    assert gateway.post(path_to(route), token, {**ROUTES[route], "tools": [good]}).ok


@each_dialect
def test_an_unknown_model_is_told_with_the_nearest_name(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted())
    answer = gateway.post(path_to(route), gateway.open_run(), {**ROUTES[route], "model": "scriptd"})
    assert answer.status_code == 404
    assert "did you mean 'scripted'" in message_of(answer, route)
    error = error_of(answer.json(), route)
    assert error["type"] == "not_found_error" if route == "messages" else error["code"] == "model_not_found"


@each_dialect
def test_what_is_not_there_is_told(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    headers = {"Authorization": f"Bearer {token}"}
    answer = gateway.http.get(gateway.where + path_to(route), headers=headers, timeout=30)
    assert answer.status_code == 404 and "use POST" in message_of(answer, route)
    assert error_of(answer.json(), route).get("code", "not_found") == "not_found", "it is no model that is missing"


@each_dialect
def test_what_is_too_large_is_refused_before_it_is_read(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted(), limits={"body_mb": 1})
    token = gateway.open_run()
    host, port = gateway.where.removeprefix("http://").split(":")
    head = f"POST {path_to(route)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n".encode()
    announced = head + b"Content-Length: %d\r\n\r\n" % (100 << 20) + b" " * 1000
    chunk = b"%x\r\n%b\r\n" % (1 << 16, b" " * (1 << 16))
    for written in announced, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 17:
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(written)
            answer = replied(connection)
        assert answer.status_code == 413 and answer.headers["connection"] == "close"
        assert f"larger than {1 << 20} bytes" in message_of(answer, route)
    assert gateway.post(path_to(route), token, b" " * (3 << 20)).status_code == 413
    answer = gateway.post(path_to(route), token, with_messages(route, 10_000))
    assert answer.status_code == 413 and "10000 messages" in message_of(answer, route)
    answer = gateway.post(
        path_to(route), token, {**ROUTES[route], "tools": [tool_of(route, f"t{n}") for n in range(513)]}
    )
    assert answer.status_code == 413 and "513 tools" in message_of(answer, route)
    assert gateway.post(path_to(route), token, ROUTES[route]).ok


@each_dialect
def test_a_body_of_countless_values_is_refused_before_it_is_read_and_long_ones_of_few_are_taken(
    scripted: Any, serve: Any, route: str
) -> None:
    model = scripted()
    gateway = serve(model, limits={"values": 1000})
    token = gateway.open_run()
    for hostile in (
        {**ROUTES[route], "unknown": [[1]] * 200_000},
        {**ROUTES[route], **{f"k{n}": 1 for n in range(30_000)}},
        with_messages(route, 10_000),
        {**ROUTES[route], "tools": [tool_of(route, f"t{n}") for n in range(9_000)]},
    ):
        answer = gateway.post(path_to(route), token, hostile)
        assert answer.status_code == 413 and "more than 1000 values" in message_of(answer, route)
    assert model.requests == 0
    said = '{"a": [1, 2]}, ' * 40_000
    field = {"input": said} if route == "responses" else {"messages": [{"role": "user", "content": said}]}
    assert gateway.post(path_to(route), token, {**ROUTES[route], **field}).ok


def test_large_requests_of_one_run_follow_one_another_whatever_becomes_of_each(scripted: Any, serve: Any) -> None:
    model = scripted()
    gateway = serve(model)
    token = gateway.open_run()
    text = "word " * 100_000
    good = {**ASKED, "messages": [{"role": "user", "content": text}]}
    headers = {"Authorization": f"Bearer {token}"}

    def leave(place: int) -> None:
        host, port = gateway.where.removeprefix("http://").split(":")
        head = f"POST {path_to('chat/completions', rollout=f'gone{place}')} HTTP/1.1\r\nHost: localhost\r\n"
        body = b'{"model": "scripted", "messages": [{"role": "user", "content": "%b"}]}' % text.encode()
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head += f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)

    def send(place: int) -> int:
        if place % 4 == 3:
            leave(place)
            return 0
        bodies: list[Any] = [good, {**good, "messages": 7, "k": text}, {**good, "k": [[1]] * 100_000}]
        url = gateway.where + path_to("chat/completions", rollout=f"r{place}")
        return requests.post(url, json=bodies[place % 4], headers=headers, timeout=60).status_code

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(send, range(24))) == [200, 400, 413, 0] * 6
    assert gateway.chat(token, ASKED).ok
    assert gateway.admin("GET", "runs/run").json()["in_flight"] == 0


def test_ten_thousand_messages_are_taken_where_they_are_allowed(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), limits={"messages": 20_000})
    token = gateway.open_run()
    many = [{"role": ("user", "assistant")[place % 2], "content": f"{place}"} for place in range(10_001)]
    assert gateway.chat(token, {**ASKED, "messages": many}).ok
    assert len(gateway.nodes()) == 10_002


@each_dialect
def test_a_run_that_has_expired_or_is_closed_is_over(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted())
    expired = gateway.open_run("short", hours=1e-9)
    answer = gateway.post(path_to(route, "short"), expired, ROUTES[route])
    assert answer.status_code == 401 and "expired" in message_of(answer, route)
    token = gateway.open_run("done")
    assert gateway.admin("POST", "runs/done/close").ok
    answer = gateway.post(path_to(route, "done"), token, ROUTES[route])
    assert answer.status_code == 403 and "closed" in message_of(answer, route)
    assert gateway.admin("POST", "runs", {"run": "done"}).status_code == 409
    assert gateway.admin("POST", "runs", {"run": "done", "again": True}).status_code == 201


@each_dialect
@pytest.mark.parametrize("over", ["expired", "closed"])
def test_a_run_that_is_over_answers_nothing_at_all(scripted: Any, serve: Any, route: str, over: str) -> None:
    gateway = serve(scripted(), route={"renderer": "scripted"})
    token = gateway.open_run(hours=1.0 / 3600 if over == "expired" else 1.0)
    assert gateway.post(path_to(route), token, ROUTES[route]).ok
    if over == "expired":
        time.sleep(1.05)
    else:
        assert gateway.admin("POST", "runs/run/close").ok
    headers = {"Authorization": f"Bearer {token}", "anthropic-version": "2023-06-01"}
    for answer in (
        gateway.post(path_to(route), token, ROUTES[route], **{"x-stainless-retry-count": "1"}),
        gateway.post(path_to("messages/count_tokens"), token, ASKED),
        gateway.post(path_to(route, rollout="new"), token, ROUTES[route]),
        *(
            gateway.http.get(f"{gateway.where}/r/run/v1/{tail}", headers=headers)
            for tail in ("models", "models/scripted")
        ),
    ):
        assert answer.status_code == {"expired": 401, "closed": 403}[over], answer.url
        assert over in answer.json()["error"]["message"]
    assert [trajectory.attributes["rollout"] for trajectory in gateway.trajectories()] == ["main"]


@each_dialect
def test_a_call_that_is_refused_for_its_budget_begins_no_rollout(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted())
    token = gateway.open_run(budget={"requests": 1})
    assert gateway.post(path_to(route), token, ROUTES[route]).ok
    assert gateway.post(path_to(route, rollout="new"), token, ROUTES[route]).status_code == 402
    again = gateway.post(path_to(route), token, ROUTES[route], **{"x-stainless-retry-count": "1"})
    assert again.headers["x-silva-capture"] == "repeated", "what was paid for is given again"
    assert [trajectory.attributes["rollout"] for trajectory in gateway.trajectories()] == ["main"]


@each_dialect
def test_a_budget_is_hard(scripted: Any, serve: Any, route: str) -> None:
    model = scripted(latency=0.05)
    gateway = serve(model)
    token = gateway.open_run(budget={"requests": 3})
    with ThreadPoolExecutor(10) as pool:
        path = f"/r/run/main/v1/{route}"
        answers = list(pool.map(lambda _: gateway.post(path, token, ROUTES[route]), range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [402] * 7
    assert all("budget" in message_of(answer, route) for answer in answers if not answer.ok)
    assert model.requests == 3
    spent = gateway.admin("GET", "runs/run").json()["spent"]
    assert spent["requests"] == 3 and spent["refused"] == 7


def test_costs_are_counted_and_bound(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), route={"price": {"input": 1e6, "output": 0}})
    token = gateway.open_run(budget={"usd": 1})
    answers = [gateway.chat(token, ASKED).status_code for _ in range(3)]
    spent = gateway.admin("GET", "runs/run").json()["spent"]
    assert spent["usd"] == pytest.approx(spent["prompt_tokens"])
    assert answers == [200, 402, 402]


def test_admin_routes_want_the_admin_token_and_good_bodies(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    bad = {"Authorization": f"Bearer {token}"}
    assert requests.get(f"{gateway.where}/admin/runs", headers=bad, timeout=10).status_code == 401
    assert gateway.admin("POST", "runs", {"run": "../x"}).status_code == 400
    assert gateway.admin("POST", "runs", {"run": "x", "budget": {"usd": -1}}).status_code == 400
    assert gateway.admin("POST", "runs", {"run": "x", "nonsense": 1}).status_code == 400
    assert gateway.admin("GET", "runs/absent").status_code == 404
    assert gateway.admin("POST", "models/scripted/swap", {"version": "v2"}).json()["version"] == "v2"
    assert gateway.admin("POST", "models/absent/pause").status_code == 404
    assert token not in gateway.admin("GET", "runs").text


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "models", "v1"])
def test_a_rollout_is_not_called_what_a_url_asks_for(scripted: Any, serve: Any, name: str) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    refused = gateway.admin("POST", "runs/run/rollouts", {"rollout": name})
    assert refused.status_code == 400 and name in refused.json()["error"]["message"]
    answer = gateway.post("/r/run/v1/chat/completions", token, ASKED, **{"x-session-id": name})
    assert answer.status_code == 400
    assert gateway.trajectories() == []


def test_two_rollouts_do_not_end_in_one_trajectory(scripted: Any, serve: Any) -> None:
    model = scripted()
    gateway = serve(model)
    token = gateway.open_run()

    def announced(name: str, **fields: Any) -> int:
        return gateway.admin("POST", "runs/run/rollouts", {"rollout": name, "task_id": "t", **fields}).status_code

    assert [announced("a"), announced("a"), announced("b", index=1)] == [201, 201, 201]
    assert announced("c") == announced("c", index=1) == 409
    assert gateway.chat(token, ASKED, rollout="a").ok
    assert gateway.admin("POST", "runs/run/rollouts/a/end", {"score": 1.0}).ok
    assert announced("c") == 409, "also once the first has ended"
    gateway.stop()
    gateway = serve(model, lake=gateway.lake)
    refused = gateway.admin("POST", "runs/run/rollouts", {"rollout": "c", "task_id": "t"})
    assert refused.status_code == 409 and "rollout a has the same" in refused.json()["error"]["message"]
    assert announced("c", attempt=1) == 201
    assert {t.attributes["rollout"]: t.outcome.score for t in gateway.trajectories()}["a"] == 1.0


def test_a_turn_that_no_record_can_hold_is_refused_and_harms_nobody(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    wide = b'{"type": "function", "function": {"name": "f", "parameters": {"maximum": %d}}}' % 10**40
    body = b'{"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "tools": [%b]}' % wide
    answer = gateway.chat(token, body)
    assert answer.status_code in (200, 400), answer.text
    assert gateway.chat(token, ASKED).ok
    assert requests.get(f"{gateway.where}/readyz", timeout=10).ok


def test_a_conversation_that_the_template_cannot_hold_is_not_counted(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), route={"renderer": "scripted"})
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoA"}
    messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    body = {"model": "scripted", "messages": messages}
    answer = gateway.post("/r/run/main/v1/messages/count_tokens", gateway.open_run(), body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error") and "image" in error["message"]
