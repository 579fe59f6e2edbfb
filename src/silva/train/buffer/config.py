"""What a buffer is told, typed: where it keeps and listens, what a stranger may send, and the terms of a job."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobConfig(Section):
    """The terms of one job, fixed when it is opened.

    `bound`: how many versions older than the policy being trained a group's oldest token may be (0: on-policy, and
    generation and training take turns; 1: the next step's groups are grown while this step's are trained).
    `groups_per_step`: groups trained between one version and the next. `order`: of two groups that may be handed out,
    the one that came first, or the one of the newest version. `stragglers`: whether a step waits for a group that
    would else become too stale, or goes on and withholds it. `group_size`: samples of every group (None: any).
    `rewards`: whether every sample must have one. `most_groups`: in flight, ready and taken together, if that is less
    than the bound allows (None: what the bound allows). `most_withheld`: so many stale groups are kept, further ones
    refused. `permit_seconds`: a group in flight for longer is given up; if it comes after all it is treated as one that
    nobody announced.
    `first_version`: the number of the policy version the job begins with.
    """

    bound: int = Field(default=1, ge=0, le=1000)
    groups_per_step: int = Field(default=8, ge=1, le=65536)
    order: Literal["fifo", "freshest"] = "fifo"
    stragglers: Literal["wait", "withhold"] = "wait"
    group_size: int | None = Field(default=None, ge=1, le=4096)
    rewards: bool = True
    most_groups: int | None = Field(default=None, ge=1)
    most_withheld: int = Field(default=4096, ge=0)
    permit_seconds: float = Field(default=3600.0, gt=0, le=30 * 86400)
    first_version: int = Field(default=0, ge=0, lt=1 << 53)

    @model_validator(mode="after")
    def _a_step_fits(self) -> JobConfig:
        if self.most_groups is not None and self.most_groups < self.groups_per_step:
            raise ValueError(
                f"most_groups is {self.most_groups}, but a step takes {self.groups_per_step}: it would never fill"
            )
        return self


class Listen(Section):
    """Where to serve; other addresses than loopback need `admin_token_env`, the name of the environment variable with
    the token that opens jobs (without one a token is drawn and printed once). Port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = Field(default=8720, ge=0, le=65535)
    admin_token_env: str = ""


class Limits(Section):
    """What clients may ask of a server. `body_mb`: of one group. `body_seconds`: to send it. `answer_mb`: of one take;
    what does not fit comes with the next. `wait_seconds`: the longest a call waits for something to happen. `uploads`
    and `waiting`: calls of one job at a time that bring groups, and that wait; further ones are told to come later."""

    body_mb: float = Field(default=256.0, gt=0, le=4096)
    body_seconds: float = Field(default=60.0, gt=0)
    answer_mb: float = Field(default=64.0, gt=0)
    wait_seconds: float = Field(default=30.0, ge=0)
    uploads: int = Field(default=8, ge=1)
    waiting: int = Field(default=64, ge=1)
    jobs: int = Field(default=64, ge=1)


class BufferConfig(Section):
    """A buffer as a server. `folder`: where jobs are kept. `jobs`: those to open at the start, by name."""

    folder: str = "buffer"
    listen: Listen = Listen()
    limits: Limits = Limits()
    jobs: dict[str, JobConfig] = Field(default_factory=dict[str, JobConfig])

    @field_validator("jobs")
    @classmethod
    def _names(cls, jobs: dict[str, JobConfig]) -> dict[str, JobConfig]:
        for name in jobs:
            if not JOB_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name for a job: use letters, digits, '.', '_' and '-'")
        return jobs
