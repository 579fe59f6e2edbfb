"""Test-time scaling: what a budget of turns or time buys, best and last."""

from __future__ import annotations

import json

import msgspec
import pytest
from grown_runs import attempt
from hypothesis import given
from hypothesis import strategies as st

from silva.report import charts
from silva.report.scaling import readings, scaling
from silva.tree import Author, Message, Node, assistant, tool_result, user

SHARES = st.floats(0, 1, allow_nan=False)


def walk(*steps: tuple[Author, Message]) -> list[Node]:
    made: list[Node] = []
    for depth, (author, message) in enumerate(steps):
        made.append(
            Node(
                id=str(depth),
                run_id="run",
                tree_id="tree",
                parent_id=str(depth - 1) if depth else None,
                depth=depth,
                author=author,
                message=message,
                started=100.0 + 10 * depth,
            )
        )
    return made


def score(text: str, name: str = "evaluate") -> tuple[Author, Message]:
    return Author.ENVIRONMENT, tool_result("c", text, name)


ACT = (Author.POLICY, assistant("I go on."))
ASKED = walk(
    (Author.ENVIRONMENT, user("score 1 of 1 is what you want")),
    ACT,
    score("score 0.75 of 1; it can be asked for 2 more times"),
    ACT,
    score("score 1 of 1 stands in this file", name="view_file"),
    ACT,
    score("score 0.25 of 1; it can be asked for 1 more time"),
)


def test_scores_are_told_by_the_environment_alone() -> None:
    assert [tuple(each) for each in readings(ASKED, 100.0)] == [(1, 20.0, 0.75), (3, 60.0, 0.25)]


def test_best_and_last_part_where_an_agent_goes_on_past_its_best() -> None:
    asked = attempt("terminal/1", success=False, score=0.25, turns=4, leaf="6")
    asked = msgspec.structs.replace(
        asked, started=100.0, finished=180.0, outcome=msgspec.structs.replace(asked.outcome, metrics={"evaluations": 2})
    )
    found = scaling([asked, attempt("terminal/2", turns=2, seconds=40)], lambda each: ASKED)
    assert found is not None and (found.attempts, found.told) == (2, 1)
    rows = {each.at: (each.best.value, each.last.value, each.ended) for each in found.turns}
    assert rows[1] == (0.375, 0.375, 0.0), "who has handed nothing in has 0"
    assert rows[2] == (0.875, 0.875, 0.5)
    assert rows[4] == (0.875, 0.625, 1.0)
    assert found.seconds[-1].at == 80 and found.seconds[-1].last.value == 0.625
    assert json.loads(msgspec.json.encode(found))["told"] == 1
    plot = charts.budgets(found.turns)
    assert plot is not None and len(plot.lines) == 2
    timed = charts.budgets(found.seconds, hours=True)
    assert timed is not None and timed.x_label == "seconds"


def test_without_a_score_there_is_no_curve() -> None:
    assert scaling([]) is None
    unscored = attempt("bfcl/1")
    assert (
        scaling([msgspec.structs.replace(unscored, outcome=msgspec.structs.replace(unscored.outcome, score=None))])
        is None
    )


@given(st.lists(st.tuples(SHARES, st.integers(1, 300), st.integers(0, 20_000)), min_size=1, max_size=20))
def test_best_never_falls_and_ends_at_the_runs_own_score(drawn: list[tuple[float, int, int]]) -> None:
    tried = [
        attempt(f"bfcl/{n}", score=share, success=share == 1, turns=turns, seconds=seconds)
        for n, (share, turns, seconds) in enumerate(drawn)
    ]
    found = scaling(tried)
    assert found is not None
    for budgets in filter(None, (found.turns, found.seconds)):
        best = [each.best.value for each in budgets]
        assert best == sorted(best) and len(best) <= 41
        assert budgets[-1].ended == 1.0
        assert budgets[-1].last.value == pytest.approx(sum(share for share, _, _ in drawn) / len(drawn))
