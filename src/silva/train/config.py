"""What a training run is asked to do, typed. From a YAML or TOML file plus dotted overrides; every default is here."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from silva.train.processes import ScaleConfig

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The projections of a llama layer: what an adapter may change and every server of adapters can serve."""

BUNDLED = "local"
"""Names the bundled model where a folder of weights may be given."""


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AdapterConfig(Section):
    """A LoRA adapter's shape (Hu et al., LoRA, 2021, arXiv 2106.09685); its scale is `alpha` / `rank`."""

    rank: int = Field(default=16, ge=1, le=256)
    alpha: float = Field(default=32.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], ...] = (
        *PROJECTIONS,
    )

    @field_validator("targets")
    @classmethod
    def _some_target(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError("name at least one projection, each once")
        return value


class ScratchConfig(Section):
    """A llama to start from random weights. `tokenizer` is a folder with `tokenizer.json`, which says how many ids
    there are; `width` must be a multiple of `heads`, `heads` of `key_heads`."""

    tokenizer: Path
    width: int = Field(default=192, ge=8)
    layers: int = Field(default=4, ge=1)
    heads: int = Field(default=6, ge=1)
    key_heads: int = Field(default=2, ge=1)
    inner: int = Field(default=512, ge=8)
    context: int = Field(default=2048, ge=16)

    @model_validator(mode="after")
    def _divides(self) -> ScratchConfig:
        if self.width % self.heads or self.heads % self.key_heads or (self.width // self.heads) % 2:
            raise ValueError("width must be an even multiple of heads, and heads a multiple of key_heads")
        return self


class PolicyConfig(Section):
    """The weights to train. `weights` is a folder in Hugging Face form of the llama family, or `local` for the bundled
    model; `scratch` starts from random ones instead. `method` trains a LoRA adapter or all weights. `start` is an
    adapter to go on from. `dtype` is what is computed in (`auto`: bfloat16 where the device multiplies it, else
    float32). `device` is where (`auto`: a GPU where torch sees one). `context` bounds a sample below the model's own
    limit."""

    weights: str = BUNDLED
    scratch: ScratchConfig | None = None
    method: Literal["lora", "full"] = "lora"
    adapter: AdapterConfig = AdapterConfig()
    start: Path | None = None
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    context: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _fits(self) -> PolicyConfig:
        if self.scratch is not None and (self.method != "full" or "weights" in self.model_fields_set):
            raise ValueError("scratch: random weights are trained whole: method: full, and no weights")
        if self.start is not None and self.method != "lora":
            raise ValueError("start: an adapter to go on from goes with method: lora")
        return self


class TeacherConfig(Section):
    """Who teaches: a folder of weights or `local`, and perhaps an adapter on them. `top` asks for that many of its
    likeliest ids at each position, for a forward divergence."""

    weights: str = BUNDLED
    adapter: Path | None = None
    top: int = Field(default=16, ge=1, le=1024)


class AlgorithmConfig(Section):
    """The algorithm and its parameters (docs/guides/algorithms.md)."""

    name: str = "sft"
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])


class DataConfig(Section):
    """Where samples come from: files of samples (`silva train samples`), runs of a lake, or a data set of `silva data
    split`: its file, or a part by its name (`sets/train`); its trajectories are read from the lakes it names, or from
    `lake` where that has moved. `held_out` files and a `held_out_dataset` are measured, not trained on; what they share
    with what is trained on is refused. `pairs` says how an algorithm that needs pairs gets them: from the rewards of a
    task's samples, or from a file in which chosen and rejected alternate. `least_reward` leaves out samples below it.
    `role`: of runs in which several agents acted, the walks and scores of this one (else of the first). `shuffle` draws
    a new order in every epoch."""

    files: tuple[Path, ...] = ()
    lake: str | None = None
    runs: tuple[str, ...] = ()
    role: str = ""
    dataset: Path | None = None
    held_out: tuple[Path, ...] = ()
    held_out_dataset: Path | None = None
    pairs: Literal["reward", "alternating"] = "reward"
    margin: float = Field(default=0.0, ge=0)
    least_reward: float | None = None
    shuffle: bool = True

    @model_validator(mode="after")
    def _somewhere(self) -> DataConfig:
        if sum(map(bool, (self.files, self.runs, self.dataset))) != 1:
            raise ValueError("say where samples come from: files of samples, or a lake and runs, or a dataset")
        if self.runs and self.lake is None:
            raise ValueError("lake: name the lake that holds the runs")
        if self.role and not self.runs:
            raise ValueError("role: it is of runs; files and data sets hold the samples of the role they were made for")
        if self.pairs == "alternating" and self.least_reward is not None:
            # Without the rejected sides what is left would be paired anew, chosen with chosen.
            raise ValueError("least_reward: pairs that alternate are taken as they stand in the file; leave it out")
        return self


class OptimiserConfig(Section):
    """AdamW and the learning rate's course: a linear rise over `warmup` steps, then `constant`, `linear` or `cosine`
    down to `floor` times the rate at the last step. `clip` bounds the gradient's norm (None: no bound). `moments` is a
    checkpoint of an earlier run on the same parameters: AdamW goes on with its means of gradients. Without, its first
    step moves every parameter by about the whole rate, however little the gradient says."""

    learning_rate: float = Field(default=2e-4, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: int = Field(default=0, ge=0)
    floor: float = Field(default=0.0, ge=0, le=1)
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip: float | None = Field(default=1.0, gt=0)
    moments: Path | None = None

    @field_validator("betas")
    @classmethod
    def _below_one(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in value):
            raise ValueError("each of betas lies from 0 to below 1")
        return value


class CheckpointConfig(Section):
    """A checkpoint every `every` steps and at the end; the last `keep` stay, at least two: the weights of the newest
    are proven only by the step after it. `weights` puts what a server loads into each besides."""

    every: int = Field(default=20, ge=1)
    keep: int = Field(default=2, ge=2)
    weights: bool = True


class DivergenceConfig(Section):
    """When training stops by itself: at a loss or gradient that is no finite number, and at a loss above `factor` times
    its own median over the last `window` steps that is also `margin` above it."""

    factor: float = Field(default=3.0, gt=1)
    margin: float = Field(default=5.0, ge=0)
    window: int = Field(default=20, ge=3)


class CurvesConfig(Section):
    """Where learning curves go besides the output folder: to the terminal every `print_every` steps, to the lake (the
    run's record), to TensorBoard's files beside them, to a project of Weights & Biases, to an experiment of MLflow (its
    address: MLFLOW_TRACKING_URI)."""

    print_every: int = Field(default=1, ge=1)
    lake: str | None = None
    tensorboard: bool = False
    wandb: str | None = None
    mlflow: str | None = None


def _by_the_clock() -> str:
    return time.strftime("train-%Y%m%d-%H%M%S")


class TrainConfig(Section):
    """One training run. `batch` counts groups a step: samples, pairs, or groups of attempts at a task, as the algorithm
    needs. `micro_tokens` bounds what is computed at once and changes no result. `temperature` is the one samples were
    drawn at. `held_out_every` steps the held-out samples' loss is measured. `threads` are torch's in a process (None:
    the cores, shared evenly). `scale` says how many processes."""

    run: str = Field(default_factory=_by_the_clock)
    output: Path
    engine: Literal["local", "trl"] = "local"
    policy: PolicyConfig = PolicyConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    teacher: TeacherConfig | None = None
    data: DataConfig
    optimiser: OptimiserConfig = OptimiserConfig()
    steps: int = Field(default=100, ge=1)
    batch: int = Field(default=8, ge=1)
    micro_tokens: int = Field(default=2048, ge=16)
    temperature: float = Field(default=1.0, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    threads: int | None = Field(default=None, ge=1)
    scale: ScaleConfig = ScaleConfig()
    held_out_every: int = Field(default=20, ge=1)
    checkpoints: CheckpointConfig = CheckpointConfig()
    divergence: DivergenceConfig = DivergenceConfig()
    curves: CurvesConfig = CurvesConfig()

    @field_validator("run")
    @classmethod
    def _run_name(cls, value: str) -> str:
        if not RUN_NAME.fullmatch(value):
            raise ValueError(f"run name {value!r}: letters, digits, '.', '_' and '-' only, at most 100")
        return value

    @model_validator(mode="after")
    def _steps_cover_warmup(self) -> TrainConfig:
        if self.optimiser.warmup >= self.steps and self.optimiser.warmup:
            raise ValueError(f"optimiser.warmup: {self.optimiser.warmup} steps leave none of {self.steps} to train at")
        return self

    @model_validator(mode="after")
    def _can_be_scaled(self) -> TrainConfig:
        if self.scale.shard and self.policy.method != "full":
            raise ValueError("scale.shard: weights in parts are trained whole: policy.method: full")
        if self.engine != "local" and (self.scale.ranks > 1 or self.policy.device == "cuda"):
            raise ValueError(f"engine {self.engine}: it trains in one process on the processor; take engine: local")
        return self

    def decisive(self) -> dict[str, Any]:
        """What a resumed run must agree on: the weights, the data, the loss, the seed. The optimiser's parameters may
        change: a run that diverged goes on at a lower learning rate. So may devices and processes: they
        change rounding alone."""
        left = {"run", "output", "steps", "threads", "checkpoints", "divergence", "curves", "held_out_every", "scale"}
        found = self.model_dump(mode="json", exclude=left | {"optimiser"})
        del found["policy"]["device"]
        return found
