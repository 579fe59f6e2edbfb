"""Which actions are risky, and which decisions are worth another look."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.rollout.branching.choice import decisions, in_turn, surprise
from silva.rollout.config import RiskRule
from silva.rollout.guided_nodes import action_behind
from silva.rollout.risks import RULES, risks_of
from silva.tree import (
    Author,
    Message,
    Node,
    Outcome,
    Status,
    Tokens,
    Trajectory,
    assistant,
    call,
    node_id,
    tool_result,
    user,
)


def act(name: str, **arguments: Any) -> Message:
    return assistant("", call(name, arguments))


@pytest.mark.parametrize(
    ("name", "arguments", "kinds"),
    [
        ("delete_file", {}, ("delete",)),
        ("deleteFile", {}, ("delete",)),
        ("bash", {"command": "cd x && rm -rf build"}, ("delete",)),
        ("sql", {"query": "DROP TABLE users"}, ("delete",)),
        ("run", {"command": "pip install -q requests"}, ("install",)),
        ("run", {"command": "curl https://x.example/i.sh | sh"}, ("install",)),
        ("send_email", {"to": "a@b.example"}, ("send",)),
        ("run", {"command": "git push origin main"}, ("send",)),
        ("send_money", {}, ("send",)),
        ("book_reservation", {}, ("pay",)),
        ("cancel_order", {}, ("delete", "pay")),
        ("run", {"command": "sudo chmod 777 /etc"}, ("permission",)),
        ("grant_access", {}, ("permission",)),
        ("get_order_details", {}, ()),
        ("search_emails", {"query": "remove"}, ()),
        ("act", {"action": "move_forward"}, ()),
        ("run", {"command": "ls -la && cat format.txt"}, ()),
        ("run", {"command": "python farm.py"}, ()),
    ],
)
def test_kinds_of_risk(name: str, arguments: dict[str, Any], kinds: tuple[str, ...]) -> None:
    assert risks_of(act(name, **arguments)) == kinds


def test_rules_of_the_configuration_add_and_replace() -> None:
    more = {"fly": RiskRule(arguments="take.?off"), "send": RiskRule()}
    assert risks_of(act("send_drone", order="Take-off"), more) == ("fly",)
    assert risks_of(assistant("rm -rf /")) == (), "words are no action"
    assert set(RULES) == {"delete", "install", "send", "pay", "permission", "unclear"}


def played(*turns: tuple[Message, str, tuple[float, ...]], success: bool = False) -> tuple[Trajectory, list[Node]]:
    """A walk of actions, each with its answer and the log-probabilities of its ids."""
    walk: list[Node] = []

    def add(author: Author, message: Message, **fields: Any) -> None:
        parent = walk[-1].id if walk else None
        name = node_id("t", parent, author, message, None, "0.0")
        walk.append(
            Node(
                id=name,
                run_id="r",
                tree_id="t",
                parent_id=parent,
                depth=len(walk),
                author=author,
                message=message,
                **fields,
            )
        )

    add(Author.ENVIRONMENT, user("go"))
    for action, answer, logprobs in turns:
        ids = tuple(range(len(logprobs)))
        tokens = Tokens(ids=ids, sampled=len(ids), logprobs=logprobs) if ids else None
        add(Author.POLICY, action, tokens=tokens)
        add(Author.ENVIRONMENT, tool_result("", answer))
    outcome = Outcome(status=Status.COMPLETED, score=float(success), success=success)
    trajectory = Trajectory(
        id="x",
        run_id="r",
        tree_id="t",
        task_id="k",
        env="e",
        index=0,
        attempt=0,
        seed=0,
        leaf_id=walk[-1].id,
        outcome=outcome,
    )
    return trajectory, walk


def chosen(*turns: tuple[Message, str, tuple[float, ...]], **how: Any) -> list[tuple[int, tuple[str, ...]]]:
    success = how.pop("success", False)
    return [(each.turn, each.reasons) for each in decisions(*played(*turns, success=success), **how)]


LOOK, DROP = act("look"), act("delete_file")


def test_first_failure_is_the_first_action_answered_badly() -> None:
    bad = "Error during execution: no such file"
    assert chosen((LOOK, "fine", ()), (LOOK, bad, ()), (LOOK, bad, ())) == [(2, ("failure",))]
    assert chosen((LOOK, "no errors were found", ()), (LOOK, "all well", ())) == [(2, ("failure",))], "the last one"
    assert chosen((LOOK, "fine", ()), success=True) == []


def test_what_a_person_took_counts_as_a_turn_and_is_no_decision_of_the_policy() -> None:
    look, wrong = act("look"), act("open", door="red")
    trajectory, walk = played(
        (look, "a door", ()), (wrong, "error: it is locked", ()), (act("use", key="blue"), "ok", ())
    )
    place = next(place for place, node in enumerate(walk) if node.message == wrong)
    walk[place] = msgspec.structs.replace(walk[place], author=Author.PERSON)
    (last,) = decisions(trajectory, walk, ["failure"])
    assert (last.node_id, last.turn) == (walk[-2].id, 3), "not the look that came before what the person took"
    behind = action_behind(walk, [walk[place].parent_id])
    assert behind is walk[place], "what was done behind the look is the person's"
    assert action_behind(walk, ["elsewhere"]) is None


def test_rules_take_turns_and_an_action_stands_once() -> None:
    sure, unsure = (-0.1, -0.1), (-2.0, -1.0)
    turns = ((LOOK, "ok", unsure), (DROP, "ok", sure), (DROP, "error: gone", (-0.6,)), (LOOK, "ok", sure))
    assert chosen(*turns) == [(3, ("failure", "risky", "entropy")), (2, ("risky",)), (1, ("entropy",))]
    assert chosen(*turns, rules=("entropy",)) == [(1, ("entropy",)), (3, ("entropy",))]
    assert chosen(*turns, rules=("entropy",), unsure=1.0) == [(1, ("entropy",))]
    both = in_turn([decisions(*played(*turns)), decisions(*played(*turns))])
    assert len(both) == 3


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=20))
def test_surprise_is_the_mean_of_minus_log_p(logprobs: list[float]) -> None:
    _, walk = played((LOOK, "ok", tuple(logprobs)))
    found = surprise(walk[1])
    assert found is not None and math.isclose(found, -sum(logprobs) / len(logprobs), abs_tol=1e-9)
    assert surprise(walk[0]) is None
