"""What counts, what does not, and what is kept apart."""

from __future__ import annotations

import json

import msgspec
import pytest
from grown_runs import Grown, attempt

from silva.report import compare, summarise
from silva.report.wording import unsaid
from silva.tree import Boundary, Failure, Status, Usage

TIMEOUT = Failure(boundary=Boundary.MODEL, code="model.timeout", message="no reply within 120 s", retryable=True)
DIED = Failure(boundary=Boundary.INFRASTRUCTURE, code="host.died", message="killed by signal 9", retryable=True)


def test_a_retried_attempt_counts_once_by_its_last_try() -> None:
    found = summarise(
        [
            attempt("bfcl/1", attempt=0, failure=DIED, superseded=True),
            attempt("bfcl/1", attempt=1, success=True),
            attempt("bfcl/2", success=False),
        ]
    )
    assert (found.attempts, found.superseded, found.failed) == (2, 1, 0)
    assert found.success is not None and found.success.value == 0.5
    assert found.failures == ()


def test_a_superseded_attempt_without_successor_is_not_counted() -> None:
    found = summarise([attempt("bfcl/1", failure=DIED, superseded=True), attempt("bfcl/2")])
    assert (found.attempts, found.tasks, found.superseded) == (1, 1, 1)


def test_failures_are_no_scores_but_are_shown() -> None:
    found = summarise(
        [attempt("bfcl/1"), attempt("bfcl/2", failure=TIMEOUT), attempt("bfcl/3", failure=TIMEOUT), attempt("bfcl/4")]
    )
    assert found.judged == 2
    assert found.success is not None and found.success.value == 1.0
    assert found.success_of_all is not None and found.success_of_all.value == 0.5
    assert found.score is not None and found.score.value == 1.0
    assert found.boundaries[Boundary.MODEL] == 2
    assert found.boundaries[Boundary.INFRASTRUCTURE] == 0
    assert [(f.code, f.count, f.example) for f in found.failures] == [("model.timeout", 2, TIMEOUT.message)]
    assert found.status == {"completed": 2, "truncated": 0, "failed": 2}


def test_a_scored_truncation_is_judged() -> None:
    found = summarise([attempt("bfcl/1", status=Status.TRUNCATED, success=False, score=0.25)])
    assert found.judged == 1
    assert found.score is not None and found.score.value == 0.25
    assert found.failed == 0


def test_lift_is_score_less_the_floor_and_pooled_by_attempts() -> None:
    trajectories = [
        *(attempt(f"bfcl/{i}", success=i < 3) for i in range(6)),
        *(attempt(f"tau2/{i}", env="tau2", success=True) for i in range(2)),
    ]
    found = summarise(trajectories, {"bfcl": 0.1, "tau2": 0.38})
    bfcl, tau2 = found.envs
    assert bfcl.lift is not None and bfcl.lift.value == pytest.approx(0.4)
    assert bfcl.score is not None and bfcl.score.high is not None and bfcl.lift.high is not None
    assert bfcl.lift.high == pytest.approx(bfcl.score.high - 0.1)
    assert tau2.lift is not None and tau2.lift.value == pytest.approx(0.62)
    assert found.lift is not None
    assert found.lift.value == pytest.approx(5 / 8 - (6 * 0.1 + 2 * 0.38) / 8)
    assert summarise(trajectories, {"bfcl": 0.1}).lift is None, "one floor unknown: no overall lift"


def test_groups_are_clusters() -> None:
    grouped = summarise([attempt(f"bfcl/{t}", index=i, success=t < 5) for t in range(10) for i in range(8)])
    single = summarise([attempt(f"bfcl/{t}", success=t < 5) for t in range(10)])
    assert grouped.success is not None and single.success is not None
    assert grouped.success.low == pytest.approx(single.success.low)
    assert [item.k for item in grouped.passes] == list(range(1, 9))
    assert grouped.passes[-1].any == grouped.passes[-1].all == 0.5


def test_what_superseded_attempts_cost_was_spent_and_is_marked() -> None:
    used = Usage(prompt_tokens=10, completion_tokens=5, usd=0.25)
    found = summarise(
        [
            attempt("bfcl/1", attempt=0, failure=DIED, superseded=True, usage=used),
            attempt("bfcl/1", attempt=1, usage=used),
            attempt("bfcl/2", usage=used),
        ]
    )
    assert (found.usd, found.spent.attempts, found.spent.prompt_tokens) == (0.75, 3, 30)
    assert (found.spent_superseded.usd, found.spent_superseded.attempts) == (0.25, 1)
    assert found.prompt_tokens.total == 20, "the spread is over attempts that count"
    assert unsaid(found) == ["1 superseded attempts count nowhere else; they took 15 tokens and $0.25."]


def test_what_attempts_do_not_say_is_no_nought() -> None:
    told = attempt("bfcl/1", usage=Usage(prompt_tokens=8, completion_tokens=2), seconds=4)
    dumb = msgspec.structs.replace(attempt("bfcl/2"), usage=Usage(), turns=3, started=0.0, finished=0.0)
    found = summarise([told, dumb])
    assert found.silent == {"seconds": 1, "tokens": 1} == found.to_json()["silent"]
    assert found.seconds.mean == 4 and found.prompt_tokens.median == 8
    assert len(unsaid(found)) == 2 and "1 of 2 attempts say nothing of their tokens" in unsaid(found)[1]
    back = msgspec.structs.replace(told, finished=told.started - 3600)
    assert summarise([back]).seconds.total == 0 == summarise([back]).waiting.other


def test_time_and_cost_add_up() -> None:
    usage = Usage(model_seconds=4, env_seconds=1, silva_seconds=0.5, prompt_tokens=10, completion_tokens=5, usd=0.25)
    found = summarise([attempt(f"bfcl/{i}", usage=usage, seconds=8, turns=i + 1) for i in range(4)])
    assert found.waiting.total == pytest.approx(32)
    assert found.waiting.other == pytest.approx(10)
    assert (found.turns.mean, found.turns.median, found.turns.total) == (2.5, 2.5, 10)
    assert found.usd == 1.0
    assert found.prompt_tokens.total == 40


def test_nothing_sums_up_to_nothing() -> None:
    found = summarise([])
    assert (found.attempts, found.success, found.score, found.lift, found.passes) == (0, None, None, None, ())


def test_the_summary_is_plain_json(grown: Grown) -> None:
    found = summarise(grown.trajectories)
    body = json.loads(json.dumps(found.to_json()))
    assert body["attempts"] == 456
    assert {env["env"] for env in body["envs"]} == {"bfcl", "scienceworld", "agentdojo"}
    assert sum(env["attempts"] for env in body["envs"]) == body["attempts"]


def test_order_of_trajectories_does_not_matter(grown: Grown) -> None:
    assert summarise(grown.trajectories) == summarise(reversed(grown.trajectories))


def test_comparison_is_paired_by_task() -> None:
    left = [attempt(f"bfcl/{i}", run="a", success=i < 4) for i in range(10)]
    right = [attempt(f"bfcl/{i}", run="b", success=i < 6) for i in range(1, 12)]
    found = compare(left, right, "a", "b")
    assert (found.overall.tasks, found.only_left, found.only_right) == (9, 1, 2)
    assert (found.overall.better, found.overall.worse) == (2, 0)
    assert found.overall.left == pytest.approx(3 / 9)
    assert found.overall.right == pytest.approx(5 / 9)
    assert found.overall.success is not None and found.overall.success.value == pytest.approx(2 / 9)


def test_a_run_against_itself_differs_by_nothing_and_is_not_sure_of_it(grown: Grown) -> None:
    found = compare(grown.trajectories, grown.trajectories, "a", "b")
    assert found.overall.success is not None
    assert found.overall.tasks == 114
    share = 1 - 0.025 ** (1 / 114)  # of all tasks that might still differ: 3.2 %
    assert found.overall.success.value == 0
    assert (found.overall.success.low, found.overall.success.high) == pytest.approx((-share, share))


def test_what_an_environment_counts_is_told_with_what_it_is_a_share_of() -> None:
    def counting(task: str, **metrics: float):
        made = attempt(task, success=True)
        return msgspec.structs.replace(made, outcome=msgspec.structs.replace(made.outcome, metrics=metrics))

    found = summarise(
        [
            counting("files/1", ans_asked=1.0, ans_right=1.0, tool_asked=4.0, tool_right=3.0),
            counting("files/2", ans_asked=0.0, ans_right=0.0, tool_asked=2.0, tool_right=5.0, lone_asked=3.0),
            counting("files/3", ans_asked=1.0, ans_right=0.0, tool_asked=0.0, tool_right=0.0),
            attempt("files/4", failure=DIED),
        ]
    )
    told = {each.title: (each.right, each.asked, each.attempts) for each in found.counted}
    assert told == {"AnsAcc": (1, 2, 3), "ToolAcc": (5, 6, 3)}
    assert all(each.share is not None and each.share.value == each.right / each.asked for each in found.counted)
