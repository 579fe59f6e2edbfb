"""A plan in a file: the same attacks on several targets, each a model and an agent in some environments.

run: three                                   name of the plan; its targets' runs are three.TARGET.….
attack: [memory/plain/answer]                what is done to every target, unless it says its own
rollout: {tasks: {limit: 4}}                 a rollout's configuration for all
targets:
  sums: {env: arithmetic, model: local}      the rest of each one's
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from silva.errors import UsageError

_OWN = ("attack", "perturb", "defence")


class Target(BaseModel):
    """One target: a rollout's configuration as plain values, and what is done to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    rollout: dict[str, Any]
    attack: list[str]
    perturb: list[str]
    defence: list[str]


class PlanFile(BaseModel):
    """See the module."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    attack: list[str] = []
    perturb: list[str] = []
    defence: list[str] = []
    share: float = Field(default=0.3, ge=0, le=1)
    baseline: bool = True
    rollout: dict[str, Any] = {}
    targets: dict[str, dict[str, Any]] = Field(min_length=1)

    def each(self) -> list[Target]:
        """The targets in their order, the common configuration under their own.

        Raises:
            UsageError: one says which run it is, which is the plan's to say.
        """
        made: list[Target] = []
        for name, given in self.targets.items():
            if "run" in given:
                raise UsageError(f"plan {self.run}: target {name}: leave run out; its runs are {self.run}.{name}.…")
            own = {key: given.get(key, getattr(self, key)) for key in _OWN}
            rest = {key: value for key, value in given.items() if key not in _OWN}
            rollout = {**_over(self.rollout, rest), "run": f"{self.run}.{name}"}
            try:
                made.append(Target(name=name, rollout=rollout, **own))
            except ValueError as error:
                what = "; ".join(line.strip() for line in str(error).splitlines()[1:3])
                raise UsageError(f"plan {self.run}: target {name}: {what}") from error
        return made


def _over(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Values with others on top, key by key."""
    both = dict(under)
    for key, value in over.items():
        below = both.get(key)
        both[key] = _over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return both
