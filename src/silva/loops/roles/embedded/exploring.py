"""Explorers that need nobody but the policy: the policy itself, warmer, and chance as the control."""

from __future__ import annotations

from pydantic import Field

from silva.loops.roles.explorer import Context
from silva.loops.roles.registry import Implementation
from silva.loops.roles.trying import NAME
from silva.rollout.config import RolloutConfig
from silva.rollout.section import Section
from silva.tree import Task


class PolicyOptions(Section):
    """`temperature` the policy samples at; `share`: of turns at which one of the environment's valid actions is drawn
    instead; `valid`: whether an action that the environment does not list is replaced by one that it does; `untried`:
    whether what the walk has done since it last saw something new is replaced by what it has not."""

    temperature: float = Field(default=1.4, gt=0, le=10)
    share: float = Field(default=0.1, ge=0, le=1)
    valid: bool = True
    untried: bool = False


class PolicyExplorer(Implementation):
    """The policy that is to learn, sampled at a higher temperature over the environment's own valid actions."""

    role, name, summary = "explorer", "policy", "the policy itself, warmer, over the environment's valid actions"
    Options = PolicyOptions
    model = prompt = ""

    def playing(self, base: RolloutConfig) -> RolloutConfig:
        said: PolicyOptions = self.options
        sampling = base.sampling.model_copy(update={"temperature": said.temperature})
        stage: dict[str, object] = {"by": self.name, "share": said.share, "valid": said.valid, "untried": said.untried}
        return base.model_copy(update={"sampling": sampling, "stages": {**base.stages, NAME: stage}})

    def words(self, context: Context, task: Task) -> str:
        return ""


class RandomExplorer(Implementation):
    """Valid actions drawn by chance, no model asked: what an exploration must beat to be worth its cost."""

    role, name, summary = "explorer", "random", "valid actions drawn by chance: the control"
    model = prompt = ""

    def playing(self, base: RolloutConfig) -> RolloutConfig:
        stages: dict[str, dict[str, object]] = {**base.stages, NAME: {"by": self.name, "share": 1.0}}
        return base.model_copy(update={"policy": "null", "stages": stages, "renderer": "", "slips": 0.0})

    def words(self, context: Context, task: Task) -> str:
        return ""
