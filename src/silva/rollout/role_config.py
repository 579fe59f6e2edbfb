"""How one agent of an episode plays: its model, how that samples, and what may happen around its turns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from silva.rollout.section import Section


class SamplingConfig(Section):
    """How the policy samples. Each call's seed is derived from the run's seed, the task, the place and the turn."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int = Field(default=512, ge=1)
    stop: tuple[str, ...] = ()
    logprobs: bool = False


class RoleConfig(Section):
    """One role of an episode of several agents. `model`: as the run's, or `expert` or `null`, the environment's own
    players; `agent`: how a model is asked; `sampling`: the run's where left out; `stages`: those around this role's
    turns (the run's own are around the turns of the role that the episode is about)."""

    model: str = "expert"
    agent: Literal["tools", "react"] = "tools"
    sampling: SamplingConfig | None = None
    stages: dict[str, dict[str, object]] = Field(default_factory=dict)

    @field_validator("model")
    @classmethod
    def _some_model(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("model is empty: a model's spec, expert or null")
        return value

    @property
    def policy(self) -> Literal["model", "expert", "null"]:
        """Who plays it: a model, or one of the environment's own players."""
        return "expert" if self.model == "expert" else "null" if self.model == "null" else "model"
