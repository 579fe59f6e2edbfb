"""What an online run is asked to do, typed. A training run's configuration with rollouts in the place of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from silva.rollout.config import RolloutConfig
from silva.train.buffer.config import JobConfig
from silva.train.config import CheckpointConfig, DataConfig, Section, TrainConfig

MOST_RANK = 64
"""Of adapters that a vLLM of the run's own holds (silva.models.local.vllm)."""
_OWN = ("run", "model", "policy", "group", "renderer")
"""Fields of a rollout that an online run decides by itself."""


class ServeConfig(Section):
    """The run's own model server: most requests computed at once, torch's threads in it (None: all cores). `engine:
    vllm` computes on a GPU, by the vLLM of the interpreter `python` ("": Silva's own); `devices` are the GPUs it sees
    ("": all), as CUDA_VISIBLE_DEVICES counts them."""

    engine: Literal["torch", "vllm"] = "torch"
    rows: int = Field(default=32, ge=1)
    threads: int | None = Field(default=None, ge=1)
    python: str = ""
    devices: str = ""

    @model_validator(mode="after")
    def _of_vllm(self) -> ServeConfig:
        if self.engine != "vllm" and (self.python or self.devices):
            raise ValueError("python and devices go with engine: vllm")
        return self


class GatewayAt(Section):
    """A gateway that is running, instead of a server of the run's own. `model` is its route; the admin token is read
    from `admin_token_env`. Versions are kept as line `line` (default: the run's name) of the rollout's lake. `adapters`
    is the folder its backends load adapters from, `seen_as` that folder as they see it; or `command` changes what the
    backends serve, with `weights` the folder versions are put in for it (docs/guides/policies.md)."""

    url: str
    model: str
    admin_token_env: str = "SILVA_ADMIN_TOKEN"
    line: str = ""
    adapters: Path | None = None
    seen_as: str = ""
    command: str = ""
    weights: Path | None = None
    drain_seconds: float = Field(default=600.0, gt=0)

    @model_validator(mode="after")
    def _one_way(self) -> GatewayAt:
        if bool(self.adapters) == bool(self.command):
            raise ValueError("say how the backends get a version: adapters (they hold several), or command and weights")
        if self.command and self.weights is None:
            raise ValueError("weights: name the folder that versions are put in for the command")
        return self


class TrlConfig(Section):
    """What `engine: trl-async` adds (docs/guides/async-gpu.md). `attention`: torch's, or TRL's own kernel (`fa3`:
    NVIDIA's Hopper and later; it is fetched from a hub when first used). They differ by rounding."""

    attention: Literal["torch", "fa3"] = "torch"


class BufferAt(Section):
    """Where the buffer is: in this process, kept in the output folder; or a job of a server, its token in `token_env`.
    The other fields are terms of the job (docs/guides/buffer.md)."""

    url: str = ""
    job: str = "online"
    token_env: str = "SILVA_BUFFER_TOKEN"
    order: Literal["fifo", "freshest"] = "fifo"
    stragglers: Literal["wait", "withhold"] = "wait"
    permit_seconds: float = Field(default=3600.0, gt=0, le=30 * 86400)


class OnlineConfig(TrainConfig):
    """One online run. `mode` is the switch: `sync` grows and trains in turns, `async` side by side, with groups at most
    `staleness` versions old. `rollout` says what is grown, `group` how many attempts a task gets; `batch` counts groups
    a step. `most_barren` groups in a row that nothing can be learnt from end the run. `engine` trains: Silva's own, or
    TRL's asynchronous GRPO."""

    engine: Literal["local", "trl-async"] = "local"  # pyright: ignore[reportIncompatibleVariableOverride]
    mode: Literal["sync", "async"] = "async"
    staleness: int = Field(default=1, ge=0, le=1000)
    group: int = Field(default=8, ge=1)
    rollout: RolloutConfig
    serve: ServeConfig = ServeConfig()
    trl: TrlConfig = TrlConfig()
    gateway: GatewayAt | None = None
    buffer: BufferAt = BufferAt()
    most_barren: int = Field(default=256, ge=1)
    checkpoints: CheckpointConfig = CheckpointConfig(every=1, weights=False)
    data: DataConfig = DataConfig(lake="", runs=("",))
    """Not used: what is trained on is grown."""

    @model_validator(mode="after")
    def _switch(self) -> OnlineConfig:
        told = "staleness" in self.model_fields_set
        if self.mode == "sync" and told and self.staleness:
            raise ValueError(
                f"mode sync trains what the present version drew: staleness must be 0, not {self.staleness}"
            )
        if self.mode == "async" and not self.staleness:
            raise ValueError("mode async needs a staleness of 1 or more; with 0 say mode: sync")
        return self

    @model_validator(mode="after")
    def _is_online(self) -> OnlineConfig:
        for name in _OWN:
            if name in self.rollout.model_fields_set:
                raise ValueError(f"rollout.{name}: an online run decides that; {_INSTEAD[name]}")
        if self.rollout.on != "local":
            raise ValueError("rollout.on: an online run grows on this machine; leave it out")
        if self.rollout.agent.startswith("program:"):
            raise ValueError("rollout.agent: tools or react; programs cannot be grown online yet")
        if self.rollout.sampling.temperature not in (None, self.temperature):
            raise ValueError(
                f"temperature: {self.temperature:g} here, {self.rollout.sampling.temperature:g} in rollout.sampling; "
                "say it once, as temperature"
            )
        if self.engine != "trl-async" and "trl" in self.model_fields_set:
            raise ValueError("trl: goes with engine: trl-async")
        if "data" in self.model_fields_set:
            raise ValueError("data: an online run grows its own; say what in rollout")
        if self.serve.engine == "vllm" and self.gateway is None:
            self._served_by_vllm()
        if self.curves.lake is not None:
            raise ValueError("curves.lake: the lake of an online run is rollout.lake, and keeps its curves anyway")
        return self

    @model_validator(mode="after")
    def _can_be_scaled(self) -> OnlineConfig:
        if self.scale.ranks > 1 or self.scale.shard:
            raise ValueError("scale: an online run trains in one process; leave it out")
        return self

    def _served_by_vllm(self) -> None:
        if self.policy.method != "lora":
            raise ValueError("serve.engine: vllm holds adapters; take policy.method: lora, or a gateway with `command`")
        if self.policy.start is None and self.policy.adapter.rank > MOST_RANK:
            raise ValueError(f"policy.adapter.rank: vLLM is started for ranks up to {MOST_RANK}")

    @property
    def bound(self) -> int:
        """The buffer's bound."""
        return 0 if self.mode == "sync" else self.staleness

    def growth(self) -> RolloutConfig:
        """What the rollout engine is told: exact ids with their log-probabilities, at the trainer's temperature."""
        sampling = self.rollout.sampling.model_copy(update={"logprobs": True, "temperature": self.temperature})
        update = {"run": self.run, "model": f"online:{self.policy.weights}", "group": self.group, "sampling": sampling}
        return self.rollout.model_copy(update=update)

    def parameters(self) -> dict[str, Any]:
        """The algorithm's parameters. In async a group may be drawn by several versions, so one that compares them is
        told to accept that, unless the configuration says otherwise."""
        given = dict(self.algorithm.parameters)
        if self.mode == "async" and self.algorithm.name == "grpo":
            given.setdefault("mixed_versions", True)
        return given

    def terms(self, rewards: bool) -> JobConfig:
        """What the buffer's job is opened with. `rewards`: every sample must have one."""
        return JobConfig(
            bound=self.bound,
            groups_per_step=self.batch,
            order=self.buffer.order,
            stragglers=self.buffer.stragglers,
            rewards=rewards,
            permit_seconds=self.buffer.permit_seconds,
        )

    def decisive(self) -> dict[str, Any]:
        """See `TrainConfig`; the lake and the buffer see for themselves that rollouts and terms are as they were."""
        left = super().decisive()
        for name in ("rollout", "serve", "gateway", "buffer", "most_barren", "trl"):
            left.pop(name, None)
        return left


_INSTEAD = {
    "run": "name it as run",
    "model": "the model is the policy that is trained",
    "policy": "the policy that is trained acts",
    "group": "say group beside rollout",
    "renderer": "turns have the ids that the policy samples",
}
