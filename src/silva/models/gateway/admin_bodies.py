"""The bodies of the admin routes, typed; the OpenAPI document is made from them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from silva.models.gateway.config import Budget, Section

Name = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")


class OpenRun(Section):
    """Open a run. Terms left out are the gateway's own. `again` opens one anew that is in the lake already: another
    token, other terms, the same spending."""

    run: str = Name
    again: bool = False
    capture: Literal["strict", "best_effort"] | None = None
    hours: float | None = Field(default=None, gt=0, le=24 * 365)
    share: float | None = Field(default=None, gt=0, le=1e6)
    budget: Budget | None = None


class CloseRun(Section):
    """Close a run: every rollout in it gets its trajectory, its token is good no longer."""

    status: Literal["finished", "failed", "interrupted"] = "finished"


class OpenRollout(Section):
    """Say which task a rollout is at, and its place among the task's rollouts."""

    rollout: str = Name
    task_id: str | None = Field(default=None, min_length=1, max_length=500)
    env: str = Field(default="gateway", max_length=200)
    index: int = Field(default=0, ge=0, lt=2**31)
    attempt: int = Field(default=0, ge=0, lt=2**31)
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    agent: str = Field(default="", max_length=200)


class EndRollout(Section):
    """How a rollout ended: it gets its trajectory with this outcome."""

    status: Literal["completed", "truncated", "failed"] = "completed"
    score: float | None = Field(default=None, ge=0, le=1)
    success: bool | None = None
    safety: float | None = Field(default=None, ge=0, le=1)
    metrics: dict[str, float] = Field(default_factory=dict)
    failure: str = Field(default="", max_length=1000)
    """What broke, for `failed`."""
    boundary: Literal["infrastructure", "environment", "agent", "model", "budget"] = "agent"
    attributes: dict[str, Any] = Field(default_factory=dict)


class Swap(Section):
    """Put another policy version behind a model: requests wait while it is swapped, none fails.

    `adapter`: a LoRA folder the backends can see, loaded under the version's name where they hold several at once; ""
    where the version is there already (pause, load it yourself, resume). `drain_seconds`: how long requests in flight
    may take to finish, where there is no adapter; after that the swap is given up (504) and the old version serves on.
    """

    version: str = Name
    adapter: str = Field(default="", max_length=4096)
    drain_seconds: float = Field(default=600.0, gt=0, le=86400)


class Nothing(Section):
    """No fields."""
