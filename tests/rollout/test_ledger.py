from silva.rollout.bounds import Budget, Price
from silva.rollout.ledger import HOPELESS_AFTER, Ledger
from silva.tree import Boundary, Failure, Outcome, Status, Trajectory, Usage


def ended(index=0, outcome=None, **fields):
    outcome = outcome or Outcome(status=Status.COMPLETED, score=1.0, success=True)
    return Trajectory(
        id=str(index),
        run_id="r",
        tree_id="t",
        task_id="e/1",
        env="e",
        index=index,
        attempt=0,
        seed=0,
        leaf_id=None,
        outcome=outcome,
        **fields,
    )


def failed(boundary):
    return Outcome(status=Status.FAILED, failure=Failure(boundary=boundary, code="x", message="m"))


def test_a_spent_budget_is_named():
    ledger = Ledger(Budget(tokens=100), [])
    assert ledger.overdrawn() is None
    ledger.add(ended(usage=Usage(prompt_tokens=90, completion_tokens=10)))
    failure = ledger.overdrawn()
    assert failure is not None and failure.boundary is Boundary.BUDGET and failure.code == "budget.tokens"


def test_a_resumed_run_counts_what_it_spent_before():
    earlier = [ended(usage=Usage(usd=3.0), started=10.0, finished=20.0)]
    ledger = Ledger(Budget(usd=3.0, price=Price(input=1.0)), earlier)
    assert ledger.overdrawn() is not None
    assert ledger.seconds >= 10.0


def test_a_superseded_attempt_costs_but_does_not_count():
    ledger = Ledger(Budget(), [])
    ledger.add(ended(outcome=failed(Boundary.INFRASTRUCTURE), superseded=True, usage=Usage(usd=1.0)))
    assert ledger.ended == 0 and ledger.usage.usd == 1.0


def test_only_an_unbroken_line_of_model_failures_is_hopeless():
    ledger = Ledger(Budget(), [])
    for index in range(HOPELESS_AFTER - 1):
        ledger.add(ended(index, failed(Boundary.MODEL)))
    assert not ledger.hopeless
    ledger.add(ended(99))
    for index in range(HOPELESS_AFTER):
        assert not ledger.hopeless
        ledger.add(ended(index, failed(Boundary.MODEL)))
    assert ledger.hopeless
    ledger.add(ended(100))
    assert ledger.hopeless, "one that was still under way and ended well does not change why the run was ended"


def test_a_run_that_met_only_a_missing_model_is_fruitless_and_a_full_context_is_not_that():
    gone = Ledger(Budget(), [ended()])
    assert not gone.fruitless
    gone.add(ended(1, failed(Boundary.MODEL)))
    assert gone.fruitless
    gone.add(ended(2))
    assert not gone.fruitless
    full = Ledger(Budget(), [])
    outcome = Outcome(
        status=Status.FAILED, failure=Failure(boundary=Boundary.MODEL, code="model.context_length", message="m")
    )
    full.add(ended(3, outcome))
    assert not full.fruitless


def test_the_time_between_a_stop_and_its_resume_is_not_the_runs():
    earlier = [
        ended(0, started=10.0, finished=20.0),
        ended(1, started=15.0, finished=25.0),
        ended(2, started=90_000.0, finished=90_001.0),
    ]
    assert 16.0 <= Ledger(Budget(), earlier).seconds < 17.0
