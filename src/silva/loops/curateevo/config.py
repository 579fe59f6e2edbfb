"""What a CurateEvo loop is asked to do, typed. What it shares with other loops stands in `silva.loops.line.config`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from silva.curate.curation.profile import LAMBDA, REFERENCE
from silva.curate.curation.source import named
from silva.errors import UsageError
from silva.loops.kernel.config import Section
from silva.loops.line.config import LineConfig, RoundConfig
from silva.train.config import DivergenceConfig, OptimiserConfig


class RawPlay(Section):
    """Walks that the loop makes for its corpus: the environment's expert, with a share of `slips`, plays the tasks of
    `train`, of another `split` of the environment, or of a task `file`, `group` times each; at most `limit` tasks.
    `born` names a run of the lake whose synthesised tasks (a CoEvolve growth's) are carried out instead, those that
    were accepted, each by the solution that it was validated by. Tasks that ask what a held-out one asks are left
    out."""

    policy: Literal["expert", "null"] = "expert"
    born: str = ""
    slips: float = Field(default=0.0, ge=0, le=1)
    split: str = ""
    file: Path | None = None
    group: int = Field(default=1, ge=1)
    limit: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _of_one_kind(self) -> RawPlay:
        if self.born and (self.split or self.file or self.slips or self.policy != "expert"):
            raise ValueError("born: its tasks are played by their own solutions; leave policy, slips, split, file out")
        return self


class RawConfig(Section):
    """The raw corpus: `sources` are runs, conditions or queries over the lake, or files of any format that Silva reads
    (imported sessions of coding agents, too); `play` makes walks. `limit` bounds the walks of one source. With
    `hindsight` the environment says what failed walks brought about, its own and those of other runs of the lake, for
    curations to show them under that."""

    sources: tuple[str, ...] = ()
    play: tuple[RawPlay, ...] = ()
    limit: int | None = Field(default=None, ge=1)
    hindsight: bool = False

    @model_validator(mode="after")
    def _something(self) -> RawConfig:
        if not self.sources and not self.play:
            raise ValueError("raw: name sources, or say what is played")
        return self


class PractiseConfig(Section):
    """GRPO behind SFT, on the tasks that a curation chose: `rounds` times `tasks` of them are played `group` times
    each, and trained on in `steps` updates. No rounds: none."""

    rounds: int = Field(default=0, ge=0)
    tasks: int = Field(default=16, ge=1)
    group: int = Field(default=4, ge=2)
    steps: int = Field(default=4, ge=1)
    batch: int = Field(default=8, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    optimiser: OptimiserConfig = OptimiserConfig(learning_rate=2e-4)


class RecipeConfig(Section):
    """The fixed recipe by which every curation's data is trained on, from the same base: SFT of `steps` updates of
    `batch` rows, whatever there is of them, then GRPO (`rl`)."""

    steps: int = Field(default=100, ge=1)
    batch: int = Field(default=8, ge=1)
    micro_tokens: int = Field(default=2048, ge=16)
    optimiser: OptimiserConfig = OptimiserConfig()
    divergence: DivergenceConfig = DivergenceConfig()
    rl: PractiseConfig = PractiseConfig()

    @model_validator(mode="after")
    def _learns(self) -> RecipeConfig:
        if self.optimiser.warmup >= self.steps:
            raise ValueError(f"optimiser.warmup: {self.optimiser.warmup} steps leave none of {self.steps} to train at")
        return self


class MemoryConfig(Section):
    """How memories are given: the `top` that fit a task best, above a cosine of `least`. A share `shown` of the rows
    trained on has them in its context, as the policy will have them."""

    top: int = Field(default=1, ge=1)
    least: float = Field(default=0.1, ge=-1, le=1)
    shown: float = Field(default=0.5, ge=0, le=1)


class RoleConfig(Section):
    """Who plays a role: a registered `name`, and its `options`."""

    name: str
    options: dict[str, object] = Field(default_factory=dict)


class CandidatesConfig(Section):
    """Revisions that are asked for in each phase of an epoch."""

    effect: int = Field(default=4, ge=1, le=50)
    efficiency: int = Field(default=3, ge=1, le=50)


class AcceptConfig(Section):
    """When a revision is kept: with the policies of all `seeds` it is shown to be no worse than `margin` below the
    present curation (one-sided, at `alpha`, over tasks and seeds), and shown to be better or, where that is open, costs
    less (not with a `weight` of 0: costs do not count then). The first seed sifts: only the revision of the highest J
    with it meets the others, and where that is rolled back the next that is better than the present curation with the
    first seed, `tries` in all."""

    seeds: int = Field(default=2, ge=2, le=10)
    tries: int = Field(default=2, ge=1, le=10)
    margin: float = Field(default=0.03, ge=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)


class AblateConfig(Section):
    """What is left out, each the paper's ablation or a control."""

    effect: bool = False
    efficiency: bool = False
    sft: bool = False
    rl: bool = False
    memory: bool = False
    diagnosis: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of a curation that are not used."""
        return tuple(name for name in ("sft", "rl", "memory") if getattr(self, name))


class BoundsConfig(Section):
    """What one run of a curation may use in the sandbox: seconds and MB."""

    seconds: float = Field(default=60.0, gt=0)
    memory: int = Field(default=1024, ge=64)


class ProveConfig(Section):
    """The last source retrained: `seeds` trainings that no decision saw, beside the first curation's."""

    seeds: int = Field(default=2, ge=1, le=20)


class CurateEvoConfig(LineConfig):
    """One CurateEvo loop. `initial` is the first curation: raw, successes, all-operators, or a Python file. `weight`
    and `reference` are J's λ and N_ref."""

    loop: Literal["curateevo"] = "curateevo"
    line: str = "curateevo"
    raw: RawConfig
    initial: str = "raw"
    epochs: int = Field(default=3, ge=0, le=100)
    weight: float = Field(default=LAMBDA, ge=0)
    reference: float = Field(default=REFERENCE, gt=0)
    candidates: CandidatesConfig = CandidatesConfig()
    diagnoser: RoleConfig = RoleConfig(name="rules")
    evolver: RoleConfig = RoleConfig(name="mutations")
    recipe: RecipeConfig = RecipeConfig()
    memory: MemoryConfig = MemoryConfig()
    accept: AcceptConfig = AcceptConfig()
    ablate: AblateConfig = AblateConfig()
    bounds: BoundsConfig = BoundsConfig()
    prove: ProveConfig = ProveConfig()
    rounds: tuple[RoundConfig, ...] = ()

    @model_validator(mode="after")
    def _possible(self) -> CurateEvoConfig:
        if self.rounds:
            raise ValueError("rounds: this loop has epochs and one recipe; leave rounds out")
        try:
            named(self.initial)
        except UsageError as error:
            raise ValueError(str(error)) from error
        if self.ablate.sft and (self.ablate.rl or not self.recipe.rl.rounds):
            raise ValueError("ablate: without sft and rl nothing is trained; give recipe.rl.rounds, or leave one in")
        return self
