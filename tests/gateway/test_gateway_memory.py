"""What a gateway holds in memory does not grow with what has passed through it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from cycles import nobody_looking_for_cycles
from silva.lake import Lake
from silva.models.gateway import gateway as gateways
from silva.models.gateway.config import Limits, Route, StaticBackend
from silva.models.gateway.index import Entry, TreeIndex
from silva.models.gateway.routes import RouteState
from silva.models.gateway.routing.backend import Backend
from silva.models.held import Held
from silva.models.serving.exchange import WHOLE
from silva.tree import Author, Message, Node, encode, user

ASKED: dict[str, Any] = {"model": "scripted"}
_CLOSED = (type, ModuleType, FunctionType, BuiltinFunctionType, asyncio.AbstractEventLoop, Lake)
"""What a search for held objects does not go through: behind them is all of Python, or the tail of the journal."""


def held(*roots: object) -> Counter[str]:
    """How many objects of each of Silva's types can be reached."""
    seen, open_, found = {id(root) for root in roots}, [*roots], Counter[str]()
    while open_:
        each = open_.pop()
        if type(each).__module__.startswith("silva."):
            found[type(each).__name__] += 1
        fields = each.__struct_fields__ if isinstance(each, msgspec.Struct) else ()
        for other in [*gc.get_referents(each), *(getattr(each, field) for field in fields)]:
            if id(other) not in seen and not isinstance(other, _CLOSED):
                seen.add(id(other))
                open_.append(other)
    return found


def converse(gateway: Any, token: str, rollout: str, turns: int = 3, words: str = "hello") -> None:
    """A conversation of some turns; the last one is streamed."""
    messages = [{"role": "user", "content": f"{rollout}: {words}"}]
    for turn in range(turns):
        stream = turn == turns - 1
        answer = gateway.chat(token, {**ASKED, "messages": messages, "stream": stream}, rollout)
        assert answer.status_code == 200, answer.text
        if not stream:
            messages += [answer.json()["choices"][0]["message"], {"role": "user", "content": f"{rollout}, {turn}"}]


@pytest.mark.parametrize("ended", ["rollout", "run"])
def test_nothing_is_held_of_conversations_that_have_ended(
    scripted: Any, serve: Any, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    monkeypatch.setattr(gateways, "MOST_CLOSED", 2)
    gateway = serve(scripted(otherwise={"text": "I am here."}))
    inside = gateway.gateway

    def pass_through(numbers: range) -> Counter[str]:
        for number in numbers:
            run = "run" if ended == "rollout" else f"run{number}"
            token = tokens.get(run) or gateway.open_run(run)
            tokens[run] = token
            converse(gateway, token, f"r{number}")
            path = f"runs/{run}/rollouts/r{number}/end" if ended == "rollout" else f"runs/{run}/close"
            assert gateway.admin("POST", path, {}).status_code == 200
        return held(inside.routes, inside.conversations, inside._rollouts)

    tokens: dict[str, str] = {}
    few, many = pass_through(range(5)), pass_through(range(5, 20))
    for each in (few, many):
        del each["Finding"]  # of a backend, once its health was looked at
    assert many["Message"] == few["Message"] == 0
    assert many["Session"] == many["Entry"] == many["Rollout"] == 0
    assert many == few
    assert inside._held.bytes == 0


def test_what_is_held_of_conversations_that_go_on_has_one_bound(scripted: Any, serve: Any) -> None:
    model = scripted(otherwise={"text": "noted " * 200})
    gateway = serve(model, limits={"conversations_mb": 1})
    inside, token = gateway.gateway, gateway.open_run()
    counts: list[int] = []
    bodies: list[int] = []
    for number in range(160):
        converse(gateway, token, f"r{number}", turns=2, words="long " * 1000)
        (upstream,) = inside.routes.find("scripted")._upstreams.values()
        patience = time.monotonic() + 10
        while True:  # room is made once the reply is on its way
            kept = upstream.model._bodies._kept
            within = kept + sum(each.size for each in inside.conversations._indices.values())
            if inside._held.bytes == within <= 1 << 20:
                break
            assert time.monotonic() < patience, (inside._held.bytes, within)
            time.sleep(0.01)
        if number % 8 == 7:
            counts.append(held(inside.routes, inside.conversations)["Message"])
        bodies.append(kept)
    assert max(bodies[-8:]) > 0, "room is made by letting go of some, not of all there will be"
    assert max(counts[5:]) <= max(counts[:5]), "it was full with the first quarter"


def test_rollouts_in_use_stay_while_old_conversations_can_go(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(otherwise={"text": "noted " * 200}), limits={"conversations_mb": 1})
    inside, token = gateway.gateway, gateway.open_run()
    names = [f"r{number}" for number in range(4)]
    first: dict[str, Any] = {}
    for number in range(40):  # each brings many conversations of one turn, which nobody goes on with
        for name in names:
            converse(gateway, token, name, turns=1, words=f"{number} " + "long " * 1000)
            first.setdefault(name, inside.conversations.get(("run", name)))
        assert inside._held.bytes <= 1 << 20
    sessions = {name: inside.conversations.get(("run", name)) for name in names}
    assert sessions == first, "one that is let go is read from the lake again, whole, at its next turn"
    assert all(session._index.partial and session.turns == 40 for session in first.values())


def test_a_session_that_ends_in_the_midst_of_a_turn_leaves_nothing(scripted: Any, serve: Any) -> None:
    slow = {"kind": "slow_stream", "pause": 0.2, "every": 1}
    gateway = serve(scripted(otherwise={"text": "one two three four"}, faults=[slow]))
    inside, token = gateway.gateway, gateway.open_run()
    url, headers = f"{gateway.where}/r/run/main/v1/chat/completions", {"Authorization": f"Bearer {token}"}
    body = {**ASKED, "messages": [{"role": "user", "content": "count"}], "stream": True}
    with gateway.http.post(url, json=body, headers=headers, stream=True, timeout=30) as answer:
        pieces = answer.iter_lines()
        next(pieces)
        assert gateway.admin("POST", "runs/run/rollouts/main/end", {}).status_code == 200
        assert any(b"[DONE]" in piece for piece in pieces)
    assert gateway.chat(token, {**body, "stream": False}, "other").status_code == 200
    assert gateway.admin("POST", "runs/run/rollouts/other/end", {}).status_code == 200
    assert inside._held.bytes == 0
    assert held(inside.routes, inside.conversations)["Message"] == 0


def test_runs_closed_long_ago_are_read_from_the_lake(
    scripted: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "MOST_CLOSED", 3)
    gateway = serve(scripted())
    inside = gateway.gateway
    tokens = [gateway.open_run(f"run{number}") for number in range(12)]
    for number, token in enumerate(tokens):
        converse(gateway, token, "main")
        gateway.admin("POST", f"runs/run{number}/rollouts", {"rollout": "never-used", "task_id": f"t{number}"})
        assert gateway.admin("POST", f"runs/run{number}/close", {}).json()["status"] == "finished"
    assert len(inside.accounts) == 3
    assert held(inside.accounts, inside._rollouts, inside.conversations)["Rollout"] == 0
    shown = gateway.admin("GET", "runs/run0").json()
    assert (shown["status"], shown["spent"]["requests"]) == ("finished", 3)
    body = {**ASKED, "messages": [{"role": "user", "content": "once more"}]}
    for rollout in ("main", "new"):
        refused = gateway.chat(tokens[1], body, rollout)
        assert refused.status_code == 403 and "run1 is closed" in refused.text
    assert len(inside.accounts) == 3
    token = gateway.open_run("run0", again=True)
    assert gateway.chat(token, body, "main").status_code == 200
    assert gateway.admin("GET", "runs/run0").json()["spent"]["requests"] == 4
    for number in range(2, 6):
        assert gateway.admin("GET", f"runs/run{number}").json()["status"] == "finished"
    assert "run0" in inside.accounts and len(inside.accounts) == 4, "an open run stays"
    assert [each.attributes["rollout"] for each in gateway.trajectories("run1")].count("new") == 0


def test_what_rollouts_a_closed_run_had_stands_in_the_lake_alone(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    inside = gateway.gateway
    token = gateway.open_run()
    body = {**ASKED, "messages": [{"role": "user", "content": "once"}]}
    again = {"x-stainless-retry-count": "1"}
    said = {name: gateway.chat(token, body, name).json()["id"] for name in ("a", "b")}
    gateway.admin("POST", "runs/run/rollouts", {"rollout": "c", "task_id": "gateway/d"})
    assert gateway.chat(token, body, "c").status_code == 200
    assert held(inside.accounts)["Roster"] == 1
    assert gateway.admin("POST", "runs/run/close", {}).json()["status"] == "finished"
    assert held(inside.accounts, inside._rollouts, inside.conversations)["Roster"] == 0
    for name in ("a", "b", "c", "new"):
        refused = gateway.chat(token, body, name, **again)
        assert refused.status_code == 403 and "run is closed" in refused.text
        late = gateway.admin("POST", "runs/run/rollouts", {"rollout": name, "task_id": f"gateway/{name}"})
        assert late.status_code == 403 and "run is closed" in late.text
    for name in ("a", "c"):
        ended = gateway.admin("POST", f"runs/run/rollouts/{name}/end", {"score": 0.5})
        assert (ended.status_code, ended.json()["turns"]) == (200, 1)
    assert gateway.admin("POST", "runs/run/rollouts/new/end", {}).status_code == 403
    token = gateway.open_run("run", again=True)
    taken = gateway.admin("POST", "runs/run/rollouts", {"rollout": "other", "task_id": "gateway/d"})
    assert taken.status_code == 409 and "rollout c has the same task" in taken.text
    repeated = {name: gateway.chat(token, body, name, **again).json()["id"] for name in said}
    assert repeated == said, "a request that is repeated has its answer"
    assert gateway.chat(token, body, "new").status_code == 200
    found = {each.attributes["rollout"]: each.outcome.score for each in gateway.trajectories("run")}
    assert found["c"] == 0.5
    assert sorted(found) == ["a", "b", "c", "new"]


async def test_clients_of_backends_that_moved_are_closed_once_their_turns_have_ended() -> None:
    listed = StaticBackend(url="http://127.0.0.1:9/v1")
    route = RouteState("policy", Route(backends=(listed,), deadline=0.05), Limits(), Held())
    route.provided = [
        Backend(name="one", url="http://127.0.0.1:9/v1"),
        Backend(name="two", url="http://127.0.0.1:9/v1"),
    ]
    await route.start()
    old = [await route.upstream(SimpleNamespace(backend=backend), 1.0) for backend in route.provided]
    for port in range(10, 20):
        moved = Backend(name="one", url=f"http://127.0.0.1:{port}/v1")
        route.router.fleet.add(moved)
        await route.upstream(SimpleNamespace(backend=moved), 1.0)
    assert list(route._upstreams) == [("two", "http://127.0.0.1:9/v1", ""), ("one", "http://127.0.0.1:19/v1", "")]
    assert old[0] in route._retired and old[1] not in route._retired
    await asyncio.gather(*route._retired.values())
    assert not route._retired
    await route.stop()


def test_an_index_that_is_let_go_leaves_nothing_to_look_for() -> None:
    with nobody_looking_for_cycles():
        for number in range(5):
            index = TreeIndex("tree")
            parent: Entry | None = None
            for depth in range(4):
                said: Message = user(f"{number} {depth}")
                above = None if parent is None else parent.id
                node = Node(
                    id=f"{number}-{depth}",
                    run_id="run",
                    tree_id="tree",
                    parent_id=above,
                    depth=depth,
                    author=Author.ENVIRONMENT,
                    message=said,
                )
                parent = index.add(node, encode(node), parent)
            assert parent is not None and parent.root.id == f"{number}-0" and parent.root.root is parent.root
            del index, parent
        assert not any(isinstance(each, Entry) for each in gc.get_objects())


def test_requests_leave_nothing_to_look_for(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    with nobody_looking_for_cycles():
        for _ in range(20):
            converse(gateway, token, "main", turns=1)
        scopes = [each for each in gc.get_objects() if isinstance(each, dict) and WHOLE in each]
        assert len(scopes) <= 6, "one for every connection there is, to gateway and model"
