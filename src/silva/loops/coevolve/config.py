"""What a CoEvolve loop is asked to do, typed. From a YAML or TOML file plus dotted overrides."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from silva.curate.signals.reader import made
from silva.errors import UsageError
from silva.loops.kernel.config import Section
from silva.loops.line.config import JudgeConfig, LineConfig, RoundConfig
from silva.loops.roles import AdmissionConfig, ExploreConfig, make


class Actor(Section):
    """Who plays a role: an implementation's name, and its options."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class GrowConfig(Section):
    """How tasks grow.

    `by`: `signals`; `random` explores as much, without them; `start` explores as much as `random` does in all, at the
    first growth, in what was played by then; `nothing` leaves the tasks as they are. `every`: rounds from one growth to
    the next; `first`: rounds before the first one (None: `every`). `contexts`:
    places that one growth explores at, kinds of signals in turn; `tasks`: the most new tasks of one growth; `tried`:
    candidates that are validated for each of them; `order`: of one signal and kind of goal those come first that are
    `drawn` by chance, or whose solutions are `longest`, which lie at the end of what the policy can reach. `played`:
    the share of a round's tasks that are new ones, once there are any (None: all tasks count alike). `signals`: the
    readers, with their options; `also`: runs of the lake that are read at the first growth, such as guided ones.
    `written`: goals that the writer adds for each place, which the policy attempts `attempts` times: what it never
    solves is refused unless nothing is executed. What else an attempt brings about counts like what an exploration did,
    and it goes on behind the place's own task.
    """

    by: Literal["signals", "random", "start", "nothing"] = "signals"
    every: int = Field(default=1, ge=1)
    first: int | None = Field(default=None, ge=1)
    contexts: int = Field(default=16, ge=1)
    tasks: int = Field(default=30, ge=1)
    tried: float = Field(default=2.0, ge=1)
    order: Literal["drawn", "longest"] = "drawn"
    played: float | None = Field(default=None, gt=0, lt=1)
    signals: dict[str, dict[str, Any]] = Field(
        default_factory=lambda: {"forgetting": {}, "boundary": {}, "rare": {}, "blamed": {}}
    )
    also: tuple[str, ...] = ()
    explorer: Actor = Actor(name="policy")
    explore: ExploreConfig = ExploreConfig()
    abstracter: Actor = Actor(name="hindsight")
    writer: Actor = Actor(name="synthesis")
    written: int = Field(default=0, ge=0)
    attempts: int = Field(default=4, ge=1)
    admission: AdmissionConfig = AdmissionConfig()

    @model_validator(mode="after")
    def _known(self) -> GrowConfig:
        try:
            made(self.signals)
            for role in ("explorer", "abstracter", "writer"):
                actor: Actor = getattr(self, role)
                make(role, actor.name, actor.options)
        except UsageError as error:
            raise ValueError(str(error)) from error
        if self.by == "signals" and not self.signals:
            raise ValueError("signals: none is read; name readers, or explore without them: by: random")
        return self


class CoEvolveJudge(JudgeConfig):
    """After how many rounds a version is measured on `dev`: one that is proven worse than the last that was measured
    does not play on. In between the newest plays on unmeasured."""

    every: int = Field(default=1, ge=1)


class CoEvolveRound(RoundConfig):
    """One round, or `times` such rounds one after the other. A round of the expert teaches the policy what it begins
    with; a round of the policy is GRPO. `rest`: for so many rounds a task is not played again whose group succeeded in
    every attempt, while there are others: a group of equal rewards teaches nothing (as DAPO's dynamic sampling,
    arXiv 2503.14476, without playing it first)."""

    times: int = Field(default=1, ge=1, le=1000)
    rest: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _learns(self) -> CoEvolveRound:
        if self.source == "policy" and self.algorithm.name != "grpo":
            raise ValueError(f"algorithm {self.algorithm.name}: a round of the policy is grpo")
        return self


class CoEvolveConfig(LineConfig):
    """One CoEvolve loop. `initial`: tasks that GRPO begins with (None: all of `train`). Where the expert teaches first,
    it does so on `taught` of `train`, and those are no tasks of GRPO: what was learnt by heart has nothing left to
    compare. `against`: the folder of another loop that is over, whose proof stands beside this one's in the report."""

    loop: Literal["coevolve"] = "coevolve"
    line: str = "coevolve"
    initial: int | None = Field(default=None, ge=1)
    taught: float = Field(default=0.5, gt=0, lt=1)
    grow: GrowConfig = GrowConfig()
    judge: CoEvolveJudge = CoEvolveJudge()
    against: Path | None = None
    rounds: tuple[CoEvolveRound, ...] = Field(min_length=1)

    @field_validator("rounds", mode="after")
    @classmethod
    def _one_by_one(cls, value: tuple[CoEvolveRound, ...]) -> tuple[CoEvolveRound, ...]:
        return tuple(each.model_copy(update={"times": 1}) for each in value for _ in range(each.times))

    @property
    def grows_after(self) -> tuple[int, ...]:
        """The rounds whose attempts tasks grow from."""
        return {"nothing": (), "start": self._times[:1]}.get(self.grow.by, self._times)

    @property
    def share(self) -> int:
        """How many growths the first one stands for."""
        return max(1, len(self._times)) if self.grow.by == "start" else 1

    @property
    def _times(self) -> tuple[int, ...]:
        own = [number for number, each in enumerate(self.rounds, 1) if each.source == "policy"][:-1]
        return tuple(own[(self.grow.first or self.grow.every) - 1 :: self.grow.every])
