"""How many processes a training run is computed on, and how they find each other."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

_ENDPOINT = re.compile(r"[^\s:]+:\d{1,5}")


class ScaleConfig(BaseModel):
    """`processes` on each of `nodes` machines, one a GPU where there are GPUs. On several machines the same command
    runs on each, `rendezvous` is HOST:PORT of one of them, and the output folder is one that all of them see. `backend`
    moves numbers between processes (`auto`: nccl on GPUs, gloo otherwise). `shard` gives each process a part of the
    weights instead of all of them; it goes with `method: full`. A process that waits for another longer than `patience`
    seconds gives up."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    processes: int = Field(default=1, ge=1, le=1024)
    nodes: int = Field(default=1, ge=1, le=1024)
    rendezvous: str | None = None
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    shard: bool = False
    patience: float = Field(default=1800.0, gt=0)

    @model_validator(mode="after")
    def _can_meet(self) -> ScaleConfig:
        if self.nodes > 1 and self.rendezvous is None:
            raise ValueError(f"nodes: {self.nodes} machines need a place to meet: rendezvous: HOST:PORT of one of them")
        if self.rendezvous is not None and not _ENDPOINT.fullmatch(self.rendezvous):
            raise ValueError(f"rendezvous {self.rendezvous!r}: HOST:PORT of one of the machines")
        return self

    @property
    def ranks(self) -> int:
        """Processes on all machines together."""
        return self.processes * self.nodes
