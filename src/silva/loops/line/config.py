"""What a loop that grows a line is asked to do, typed. Its kinds add to `LineConfig`; every default is here."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from silva.loops.kernel.config import LoopConfig, Section
from silva.models.tiny.shape import Shape
from silva.rollout.config import Budget, Deadlines, HostConfig, RayConfig
from silva.train.config import (
    BUNDLED,
    AdapterConfig,
    AlgorithmConfig,
    DivergenceConfig,
    OptimiserConfig,
)

TINY = "tiny"
"""Names a policy made from nothing for the environment."""


class LinePolicy(Section):
    """The policy that learns. `base` is `tiny` (made from nothing, of the size `shape`, its words read from
    `tiny_tasks` tasks), `local` (the bundled model) or a folder of the llama family. `method` trains whole weights or a
    LoRA adapter."""

    base: str = BUNDLED
    shape: Shape = Shape()
    tiny_tasks: int = Field(default=100, ge=1)
    method: Literal["lora", "full"] = "lora"
    adapter: AdapterConfig = AdapterConfig()
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    context: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _tiny_is_whole(self) -> LinePolicy:
        if self.base == TINY and self.method != "full":
            raise ValueError("base tiny: it knows nothing that an adapter could lean on: method: full")
        return self


class LineTasks(Section):
    """Which tasks, and how they are kept apart. Of the environment's `split` those with one of `tags` (any where none
    is named), the first `limit`; or those of a task `file`. `parts` are the shares of `train`, `dev` (decides who is
    promoted) and `test` (seen once, at the end; 0 leaves it and the proof out). `key` is what must stay together, as in
    `silva data split`."""

    split: str = "train"
    tags: tuple[str, ...] = ()
    limit: int | None = Field(default=None, ge=3)
    file: Path | None = None
    key: str = "question"
    train: float = Field(default=0.6, gt=0, lt=1)
    dev: float = Field(default=0.2, gt=0, lt=1)
    test: float = Field(default=0.2, ge=0, lt=1)

    @model_validator(mode="after")
    def _whole(self) -> LineTasks:
        if abs(self.train + self.dev + self.test - 1) > 1e-6:
            raise ValueError(f"train, dev and test add up to {self.train + self.dev + self.test:g}, not to 1")
        return self

    @property
    def shares(self) -> dict[str, float]:
        """The parts that there are, with their shares."""
        named = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: share for name, share in named.items() if share}


class PlayConfig(Section):
    """How episodes are played, the expert's and the policy's. `max_tokens` bounds one turn of the policy. `on` and
    `ray` say where, as of rollouts: the rest of the loop stays on this machine. `engine` serves the policy: `torch` on
    the processor, or `vllm` (for a GPU; `$SILVA_VLLM_PYTHON` names the interpreter that has it)."""

    agent: Literal["react", "tools"] = "react"
    pool: int = Field(default=8, ge=1, le=10_000)
    max_tokens: int = Field(default=64, ge=1)
    budget: Budget = Budget()
    deadlines: Deadlines = Deadlines()
    hosts: HostConfig = HostConfig()
    engine: Literal["torch", "vllm"] = "torch"
    on: Literal["local", "ray"] = "local"
    ray: RayConfig = RayConfig()
    options: dict[str, object] = Field(default_factory=dict)


class MeasureConfig(Section):
    """How a version is measured: `seeds` attempts at each task, each with a seed of its own, the same for every
    version; at most so many tasks of `dev` and of `test`."""

    seeds: int = Field(default=2, ge=1)
    temperature: float = Field(default=1.0, ge=0)
    dev: int | None = Field(default=None, ge=2)
    test: int | None = Field(default=None, ge=2)


class SelectConfig(Section):
    """What is trained on. `least_reward` leaves out attempts below it (an algorithm with groups compares them and takes
    all). `limit` bounds the tasks. `logprobs`: `recomputed` by the trainer under the version that drew, or as `sampled`
    by the server."""

    least_reward: float | None = None
    limit: int | None = Field(default=None, ge=1)
    logprobs: Literal["recomputed", "sampled"] = "recomputed"


class RoundConfig(Section):
    """One round. `source` says who plays: the expert (its attempts of the survey are taken) or the head. Of the tasks
    of `train` those with one of `tags` count (any where none is named); `tasks` bounds how many of them the head plays,
    a new choice every round, `group` attempts each. Training lasts `steps` updates, or `epochs` over what was selected;
    `batch` counts groups a step. The optimiser's state is `fresh`, or `carried` on from the training of the version
    that the round begins from, if it was by the same algorithm: where rounds are few steps each, a fresh one's first
    step moves all weights alike, whatever the gradients say."""

    source: Literal["expert", "policy"] = "policy"
    tags: tuple[str, ...] = ()
    tasks: int | None = Field(default=None, ge=1)
    group: int = Field(default=8, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    select: SelectConfig = SelectConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    optimiser_state: Literal["fresh", "carried"] = "fresh"
    steps: int | None = Field(default=None, ge=1)
    epochs: float | None = Field(default=None, gt=0)
    batch: int = Field(default=8, ge=1)
    micro_tokens: int = Field(default=2048, ge=16)
    checkpoint_every: int = Field(default=10, ge=1)
    divergence: DivergenceConfig = DivergenceConfig()

    @field_validator("algorithm")
    @classmethod
    def _that_fits(cls, value: AlgorithmConfig) -> AlgorithmConfig:
        if value.name not in ("sft", "grpo", "dpo"):
            raise ValueError(f"algorithm {value.name}: a round takes sft, grpo or dpo")
        return value

    @model_validator(mode="after")
    def _how_long(self) -> RoundConfig:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("say how long: steps or epochs")
        if self.steps is not None and self.optimiser.warmup >= self.steps:  # of epochs there are always more
            raise ValueError(f"optimiser.warmup: {self.optimiser.warmup} steps leave none of {self.steps} to train at")
        if self.source == "expert" and self.algorithm.name != "sft":
            raise ValueError(
                f"source expert: {self.algorithm.name} compares attempts, and the expert plays each task once"
            )
        if self.algorithm.name != "sft" and self.group < 2:
            raise ValueError(f"group: {self.algorithm.name} compares attempts, give it at least 2 a task")
        return self


class JudgeConfig(Section):
    """When a candidate is better: the 95 % interval of its gain over the head in success, paired by task, lies above
    `least_gain`."""

    least_gain: float = Field(default=0.0, ge=0, lt=1)


class LineConfig(LoopConfig):
    """A loop that grows a line. `threads` are torch's while it trains (None: all cores)."""

    env: str
    policy: LinePolicy = LinePolicy()
    tasks: LineTasks = LineTasks()
    play: PlayConfig = PlayConfig()
    measure: MeasureConfig = MeasureConfig()
    judge: JudgeConfig = JudgeConfig()
    rounds: tuple[RoundConfig, ...] = Field(min_length=1)
    threads: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _vllm_reads_a_folder_and_plain_words(self) -> LineConfig:
        if self.play.engine == "vllm" and self.policy.base == BUNDLED:
            raise ValueError("play.engine vllm: it serves a folder of weights: policy.base: FOLDER")
        if self.play.engine == "vllm" and self.play.agent == "tools":
            raise ValueError("play.engine vllm: a server started for a loop reads no tool calls: play.agent: react")
        return self

    @model_validator(mode="after")
    def _nodes_find_the_weights(self) -> LineConfig:
        named = [self.folder] if self.policy.base in (TINY, BUNDLED) else [self.folder, Path(self.policy.base)]
        for each in named:
            if self.play.on == "ray" and not each.is_absolute():
                raise ValueError(
                    f"play.on ray: {each} means another place on another node; give folder and policy.base as whole "
                    "paths that every node sees"
                )
        return self

    def playing(self) -> dict[str, object]:
        """What its rollouts and measures are told besides, as fields of `RolloutConfig`."""
        return {}
