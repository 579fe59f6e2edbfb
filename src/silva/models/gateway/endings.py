"""How rollouts stand that nobody ended: still at work, closed with their run, never answered."""

from __future__ import annotations

from silva.models.gateway.session import Session
from silva.tree import Boundary, Failure, Json, Outcome, Status, Trajectory

UNENDED = Failure(
    boundary=Boundary.INFRASTRUCTURE,
    code="gateway.unended",
    message="the gateway stopped before the rollout was ended",
    retryable=True,
)
"""Stands on a rollout's trajectory until it is ended, so that a gateway that was killed leaves a true record."""

_BOUNDARIES = {
    "budget": Boundary.BUDGET,
    "store": Boundary.INFRASTRUCTURE,
    **dict.fromkeys(("upstream", "timeout", "overloaded", "rate_limit"), Boundary.MODEL),
}


def standing(session: Session, token: Json) -> Trajectory:
    """A rollout that has not been ended, as it stands; `token` says by what its token is known again."""
    outcome = Outcome(status=Status.FAILED, failure=UNENDED)
    attributes = {"rollout": session.rollout.name, "leaves": session.leaves, **token}
    return session.trajectory(outcome, attributes=attributes)


def is_unended(trajectory: Trajectory) -> bool:
    """Whether a stored trajectory is that of a rollout which has not been ended."""
    failure = trajectory.outcome.failure
    return failure is not None and failure.code == UNENDED.code


def at_close(session: Session, lost: int) -> Outcome:
    """The outcome of a rollout that was not ended when its run is closed. `lost`: turns answered and not kept."""
    if session.turns or lost:
        return Outcome(status=Status.COMPLETED)
    problem = session.problem
    if problem is None:
        what = "nothing was answered in it before its run was closed"
        return Outcome(
            status=Status.FAILED, failure=Failure(boundary=Boundary.AGENT, code="agent.unanswered", message=what)
        )
    boundary = _BOUNDARIES.get(problem.kind, Boundary.AGENT)
    failure = Failure(
        boundary=boundary,
        code="budget.gateway" if boundary is Boundary.BUDGET else f"{boundary.value}.{problem.kind}",
        message=f"none of its calls was answered; the last was told: {problem}",
        retryable=boundary in (Boundary.INFRASTRUCTURE, Boundary.MODEL),
    )
    return Outcome(status=Status.FAILED, failure=failure)
