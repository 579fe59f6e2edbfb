"""What a rollout is asked to do, typed. From a YAML or TOML file plus dotted overrides; every default is here."""

from __future__ import annotations

import re
import shlex
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from silva.rollout.bounds import Budget, Deadlines
from silva.rollout.role_config import RoleConfig, SamplingConfig
from silva.rollout.section import Section
from silva.tree import digest

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class TaskSelection(Section):
    """Which tasks: a split of the environment, the first `limit`, named `ids`, or a task `file` (JSONL or YAML)."""

    split: str = "test"
    limit: int | None = Field(default=None, ge=1)
    ids: tuple[str, ...] = ()
    file: Path | None = None


class HostConfig(Section):
    """Where environments run: how many host processes for each environment, how many instances in each (None: by
    pool and capability), memory in MB a host may use, `inline` to run them in this process for a debugger, and
    `pass_variables`: names of environment variables a host may see although they look like credentials."""

    count: int = Field(default=1, ge=1)
    instances: int | None = Field(default=None, ge=1)
    memory_mb: int | None = Field(default=4096, ge=64)
    inline: bool = False
    pass_variables: tuple[str, ...] = ()


class ProgramConfig(Section):
    """How an agent that is a program runs (`agent: "program: CMD"`). `sandbox`: `namespaces` (as `silva sandbox`), or
    `process`, which isolates nothing; `network`: `door` (its model and nothing else), hosts it may reach besides, or
    `host` (this machine's network); `mounts`: folders it may read besides the system and its own installation;
    `variables`: what to set in its environment; `pass_variables`: names of this process's variables it may see;
    `memory`, `disk`, `processes`: what it may use; `client`: how its client of MCP learns of tools: a name of
    `silva.rollout.program_client` ("": by its command), or files in its home with `$url` and `$token`."""

    sandbox: Literal["namespaces", "process"] = "namespaces"
    network: Literal["door", "host"] | tuple[str, ...] = "door"
    memory: str = "4G"
    disk: str = "8G"
    processes: int = Field(default=1024, ge=16)
    mounts: tuple[Path, ...] = ()
    variables: dict[str, str] = Field(default_factory=dict)
    pass_variables: tuple[str, ...] = ()
    client: str | dict[str, str] = ""


class RayConfig(Section):
    """The Ray cluster of `on: ray`. `address`: HOST:PORT, or `auto` for the one that $RAY_ADDRESS names or this machine
    is in; `workers`: processes that play episodes, each with hosts of its own, the pool shared out among them (None:
    one on every node with room); `cpus` that each reserves; `start_timeout`: seconds to find room and start in."""

    address: str = "auto"
    workers: int | None = Field(default=None, ge=1)
    cpus: float = Field(default=1.0, gt=0)
    start_timeout: float = Field(default=120.0, gt=0)

    @field_validator("address")
    @classmethod
    def _of_a_cluster(cls, value: str) -> str:
        if value == "auto" or re.fullmatch(r"[^\s/]+:\d{1,5}", value):
            return value
        raise ValueError(f"address {value!r}: auto or HOST:PORT, run on a machine of the cluster")


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{value!r} is not a regular expression ({error})") from error
    return value


class RiskRule(Section):
    """What makes an action risky: a call whose tool's name, or whose arguments, a pattern is found in. Patterns are
    regular expressions, letter case ignored; a tool's name is matched as words (`delete_file`, `deleteFile`: "delete
    file"). An empty pattern matches nothing."""

    tool: str = ""
    arguments: str = ""

    @field_validator("tool", "arguments")
    @classmethod
    def _pattern(cls, value: str) -> str:
        return _expression(value)


class SnapshotConfig(Section):
    """When an episode keeps the state of its environment, so that branches can start there (off by default).

    `every`: after every k-th turn; `risky`: before an action that the rules of `silva.rollout.risks`, or
    those given here under `rules`, call risky; `requested`: where an observation or a turn says `snapshot: true` in its
    attributes. Environments that are restored by replay keep nothing."""

    every: int = Field(default=0, ge=0)
    risky: bool = False
    requested: bool = False
    rules: dict[str, RiskRule] = Field(default_factory=dict)

    @property
    def wanted(self) -> bool:
        """Whether there is anything to keep."""
        return bool(self.every or self.risky or self.requested)


class SummaryConfig(Section):
    """When an agent sums up its own work, so that its conversation does not outgrow its model (off by default).

    `at`: tokens its context may have before a turn; a number, or one for each model, by a pattern of the model's spec
    (`{"http*#glm-4.5": 100000, "local": 3000}`; the first that fits counts, none is off). `keep`: the share of the
    turns in the context that stay as they are. `max_tokens`: what a summary may have."""

    at: int | dict[str, int] | None = None
    keep: float = Field(default=0.5, ge=0, lt=1)
    max_tokens: int = Field(default=2048, ge=16)

    @field_validator("at")
    @classmethod
    def _some_tokens(cls, value: int | dict[str, int] | None) -> int | dict[str, int] | None:
        for each in value.values() if isinstance(value, dict) else () if value is None else (value,):
            if each < 1:
                raise ValueError(f"at {each}: give the tokens a context may have, at least 1")
        return value

    def threshold(self, model: str) -> int | None:
        """Tokens a context of that model may have; None for no summaries."""
        if isinstance(self.at, dict):
            return next((each for pattern, each in self.at.items() if fnmatchcase(model, pattern)), None)
        return self.at


class GuidanceConfig(Section):
    """What people are asked (nothing by default). `approve`: which actions wait, before they are taken, until a person
    approves, rejects or edits them (`silva guide`): `none`, those that the rules of `snapshots.risky` call `risky`,
    those `unlisted` that hold anything `allowed` does not name, or `all`; `patterns`: regular expressions; an action in
    whose words or calls one is found waits too. `allowed`: regular expressions, each for a whole name of a tool or a
    whole command (`ls( .*)?`, `git (status|diff|log)( .*)?`); of a shell line every program must be on the list, as it
    is when quotes, the system's paths and programs that start others are undone, and so must every file that a line
    writes (`> .*\\.txt`) and every variable that is set for a program (`LANG=.*`). `renderer` gives actions that people
    take in the agent's place the ids that the policy would have sampled, written by the tokenizer and template that it
    names, as a rollout's `renderer` does for the expert: they can then carry loss (`silva curate rows --takeovers`)."""

    approve: Literal["none", "risky", "unlisted", "all"] = "none"
    patterns: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    renderer: str = ""

    @field_validator("patterns", "allowed")
    @classmethod
    def _expressions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_expression, value))

    @property
    def wanted(self) -> bool:
        """Whether any action may wait."""
        return self.approve != "none" or bool(self.patterns)


PROGRAM = "program:"
"""How an agent that is a program is written."""


def _by_the_clock() -> str:
    return time.strftime("run-%Y%m%d-%H%M%S")


class RolloutConfig(Section):
    """One rollout: environments, a policy, and how many episodes at once. A run without a name gets the time.

    `renderer` gives the turns of a built-in policy exact ids, written by the tokenizer and template that it
    names (`local`, `scripted`, or a model's folder) in the form of `agent`, `tools` or `react`. `on` says where
    episodes are played: on this machine, or on the workers of a Ray cluster; the lake stays here. `slips` is the share
    of the expert's turns at which another action is taken (see `silva.rollout.policies`). `stages` names stages that
    packages plug into every turn, in their order, each with its options (see `silva.rollout.stages`). `roles`: who
    plays the other agents of an environment with several; one that is not named is played by the environment's expert.
    `tools` adds the tools of MCP servers to every environment's own: `mcp/FILE.yaml`, or of
    several agents to one's: `ROLE=mcp/FILE.yaml` (see `silva.rollout.added_tools`).
    """

    run: str = Field(default_factory=_by_the_clock)
    env: tuple[str, ...]
    tools: tuple[str, ...] = ()
    model: str = "local"
    policy: Literal["model", "expert", "null", "solution"] = "model"
    agent: str = "tools"
    renderer: str = ""
    slips: float = Field(default=0.0, ge=0, lt=1)
    on: Literal["local", "ray"] = "local"
    ray: RayConfig = RayConfig()
    lake: str = "lake"
    pool: int = Field(default=16, ge=1, le=100_000)
    group: int = Field(default=1, ge=1)
    seed: int = 0
    retries: int = Field(default=2, ge=0)
    tasks: TaskSelection = TaskSelection()
    sampling: SamplingConfig = SamplingConfig()
    deadlines: Deadlines = Deadlines()
    budget: Budget = Budget()
    hosts: HostConfig = HostConfig()
    program: ProgramConfig = ProgramConfig()
    snapshots: SnapshotConfig = SnapshotConfig()
    guidance: GuidanceConfig = GuidanceConfig()
    summary: SummaryConfig = SummaryConfig()
    stages: dict[str, dict[str, object]] = Field(default_factory=dict)
    roles: dict[str, RoleConfig] = Field(default_factory=dict)
    options: dict[str, dict[str, object]] = Field(default_factory=dict)

    @field_validator("run")
    @classmethod
    def _run_name(cls, value: str) -> str:
        if not RUN_NAME.fullmatch(value):
            raise ValueError(f"run name {value!r}: letters, digits, '.', '_' and '-' only, at most 100")
        return value

    @field_validator("agent")
    @classmethod
    def _known_agent(cls, value: str) -> str:
        if value in ("tools", "react"):
            return value
        if not value.startswith(PROGRAM) or not value.removeprefix(PROGRAM).strip():
            raise ValueError(f"agent {value!r}: tools, react, or 'program: COMMAND'")
        try:
            shlex.split(value.removeprefix(PROGRAM))
        except ValueError as error:
            raise ValueError(f"agent {value!r}: not a command line ({error})") from error
        return value

    @field_validator("env", mode="before")
    @classmethod
    def _one_or_more(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("tools", mode="before")
    @classmethod
    def _sets_of_servers(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("tools")
    @classmethod
    def _of_servers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            role, given, servers = each.partition("=")
            named = servers if given and role.isidentifier() else each
            if named != "mcp" and not named.startswith("mcp/"):
                raise ValueError(
                    f"tools {each!r}: a set of MCP servers, mcp/FILE.yaml or ROLE=mcp/FILE.yaml (docs/guides/mcp.md)"
                )
        return tuple(dict.fromkeys(value))

    @model_validator(mode="after")
    def _some_environment(self) -> RolloutConfig:
        if not self.env:
            raise ValueError("env: name at least one environment (silva envs list)")
        return self

    @model_validator(mode="after")
    def _ids_of_a_built_in_policy(self) -> RolloutConfig:
        if self.renderer and self.policy == "model":
            raise ValueError("renderer: it is for --policy expert or null; a model's turns have the ids it sampled")
        if self.renderer and self.agent.startswith(PROGRAM):
            raise ValueError("renderer: say with agent in which form actions are written, tools or react")
        return self

    @model_validator(mode="after")
    def _who_slips(self) -> RolloutConfig:
        if self.slips and self.policy != "expert":
            raise ValueError("slips: only the expert slips; say policy: expert")
        return self

    @model_validator(mode="after")
    def _programs_stay_here(self) -> RolloutConfig:
        if self.on == "ray" and self.command:
            raise ValueError(
                "on: ray plays the agents tools and react; a program calls a gateway on this machine's loopback"
            )
        return self

    @model_validator(mode="after")
    def _programs_mind_their_own(self) -> RolloutConfig:
        if self.command and self.sampling != SamplingConfig():
            raise ValueError("sampling: a program says itself how its model samples; say it to the program")
        if self.command and any("=" in each for each in self.tools):
            raise ValueError("tools: a program plays alone, so name no role: mcp/FILE.yaml")
        if self.command and self.snapshots.wanted:
            raise ValueError("snapshots: a program acts where no turn can be told; they are for agents tools and react")
        return self

    @model_validator(mode="after")
    def _who_plays_roles(self) -> RolloutConfig:
        if self.roles and (self.command or self.on == "ray"):
            raise ValueError("roles: several agents of an episode take their turns here, so no program and not on Ray")
        return self

    def for_role(self, name: str) -> RolloutConfig:
        """The configuration as it holds for another role of an episode: its player, its sampling, its stages."""
        own = self.roles.get(name, RoleConfig())
        built_in = own.policy != "model"
        changed = {
            "model": self.model if built_in else own.model,
            "policy": own.policy,
            "agent": own.agent,
            "renderer": self.renderer if built_in else "",
            "slips": 0.0,
            "sampling": own.sampling or self.sampling,
            "stages": own.stages,
            "snapshots": SnapshotConfig(),
            "guidance": GuidanceConfig(),
        }
        return self.model_copy(update=changed)

    @model_validator(mode="after")
    def _who_sums_up(self) -> RolloutConfig:
        if self.summary.at is not None and self.policy == "model" and self.agent.startswith(PROGRAM):
            raise ValueError("summary: a program keeps its own conversation; it is for the agents tools and react")
        return self

    @property
    def summary_at(self) -> int | None:
        """Tokens the policy's context may have before it sums up; None where it does not."""
        return self.summary.threshold(self.model) if self.policy == "model" else None

    @model_validator(mode="after")
    def _who_waits(self) -> RolloutConfig:
        if (self.guidance.wanted or self.guidance.renderer) and not self.heeds:
            raise ValueError("guidance: agents that are programs, and episodes on Ray, do not hear people")
        return self

    @property
    def command(self) -> tuple[str, ...]:
        """The command of an agent that is a program; empty for the others."""
        is_program = self.policy == "model" and self.agent.startswith(PROGRAM)
        return tuple(shlex.split(self.agent.removeprefix(PROGRAM))) if is_program else ()

    @property
    def searches(self) -> bool:
        """Whether candidates are tried at every turn, for which copies of the environments are needed."""
        return "candidates" in self.stages

    @model_validator(mode="after")
    def _nobody_approves_candidates(self) -> RolloutConfig:
        if self.searches and self.guidance.wanted:
            raise ValueError("candidates: they are tried in copies before anybody could approve; leave out guidance")
        return self

    @property
    def heeds(self) -> bool:
        """Whether its agents hear what people say: those that take their turns in this process do."""
        return self.on == "local" and not self.command

    @property
    def policy_name(self) -> str:
        """What stands in records as the model: the model's spec, or the built-in policy's name."""
        return self.model if self.policy == "model" else self.policy

    def growth_digest(self) -> str:
        """Digest of what decides the trees' content; a resumed run must agree on it (pool and limits may change)."""
        decisive = self.model_dump(
            mode="json", include={"env", "model", "policy", "agent", "group", "seed", "tasks", "sampling", "options"}
        )
        decisive["model"] = _without_address(self.model)
        if self.renderer:  # left out where there is none, so that runs from before there was one can be resumed
            decisive["renderer"] = self.renderer
        if self.guidance.renderer:
            decisive["takeovers"] = self.guidance.renderer
        if self.slips:
            decisive["slips"] = self.slips
        if self.tools:
            decisive["tools"] = list(self.tools)
        if self.stages:
            decisive["stages"] = list(self.model_dump(mode="json")["stages"].items())
        if self.roles:
            decisive["roles"] = {
                name: {**each.model_dump(mode="json"), "model": _without_address(each.model)}
                for name, each in self.roles.items()
            }
        if self.summary_at is not None:
            decisive["summary"] = {**self.summary.model_dump(mode="json"), "at": self.summary_at}
        return digest(repr(sorted(decisive.items())))


def _without_address(model: str) -> str:
    """The same model may answer at another address after a restart."""
    if not model.startswith(("http://", "https://")):
        return model
    return model.rpartition("#")[2] if "#" in model else "http"
