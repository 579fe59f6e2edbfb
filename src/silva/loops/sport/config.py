"""What a SPORT loop is asked to do, typed. What it shares with other loops stands in `silva.loops.line.config`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from silva.curate.ratings import By
from silva.loops.kernel.config import Section
from silva.loops.line.config import LineConfig, RoundConfig
from silva.loops.roles.admission import AdmissionConfig
from silva.loops.roles.validation import ValidationConfig
from silva.train.config import AlgorithmConfig


class SearchConfig(Section):
    """How a round looks for better steps, as `silva rollout --candidates` does: so many `candidates` at every turn,
    each carried out in its own restored state, and a `verifier` with its `options` that says how good each is; the
    best goes on. `by` says who plays: the `last` version of the arm that was not proven worse than SFT, or the
    `head`.

    `also` names verifiers that score and pick nothing, each with its options; `prefer_by` one of them by whose scores
    pairs are made. So `random` may pick and `completions` prefer: the walk is then one that the policy itself would
    take, and pairs stand where it comes to, also where it is lost."""

    candidates: int = Field(default=4, ge=2, le=64)
    verifier: str = "completions"
    options: dict[str, object] = Field(default_factory=dict)
    by: Literal["last", "head"] = "last"
    also: dict[str, dict[str, object]] = Field(default_factory=dict)
    prefer_by: str = ""

    @model_validator(mode="after")
    def _prefers_by_one_that_is_asked(self) -> SearchConfig:
        if self.prefer_by not in ("", self.verifier, *self.also):
            raise ValueError(f"prefer_by {self.prefer_by}: it is not asked; name it under also")
        return self


class PairsConfig(Section):
    """Which siblings become pairs: the best `against` each of the others whose verdict lies more than `margin` below
    it, or against the worst alone."""

    against: Literal["all", "worst"] = "all"
    margin: float = Field(default=0.0, ge=0, lt=1)


class CheckConfig(Section):
    """How the verifier is checked before anything is trained: from both sides of up to `pairs` pairs of a round the
    environment's `expert` goes on (the side from which it succeeds, or in fewer turns, is better), or the `policy`
    does, `tries` times a side (the side with more successes is). A verifier that was right in less than `least` of
    what could be told ends the round: what it prefers is not worth learning. `pairs: 0` checks nothing."""

    pairs: int = Field(default=40, ge=0)
    by: Literal["expert", "policy"] = "expert"
    tries: int = Field(default=8, ge=1)
    least: float = Field(default=0.0, ge=0, le=1)


class SynthesisConfig(Section):
    """Tasks that a round makes for itself: so many `tasks`, in the places of the tasks of `train` alone, drawn by a
    `writer` (a role, with its `options`) and held to `admission`: no copy of what is held out, nothing trivial, and
    solved by somebody: by the environment's expert, as long as nobody says `validation.expert: false`."""

    tasks: int = Field(default=40, ge=1)
    writer: str = "synthesis"
    options: dict[str, object] = Field(default_factory=dict)
    admission: AdmissionConfig = AdmissionConfig(validation=ValidationConfig(expert=True))


class SportRound(RoundConfig):
    """One round. `source: policy` is a round of preferences: `compare: steps` searches and pairs siblings, `tries`
    plays each task `group` times and pairs whole tries by how they came out (what SPORT is compared with).
    `algorithm: dpo` prefers; `sft` imitates the picks alone. `source: expert` is SFT, and comes first.

    Rounds of one `arm` are iterations: they learn from each other's pairs, and each is played by the version before it.
    Other arms begin at SFT too, on the same tasks, and are measured on the same: that is how ablations are compared
    in one loop. `search` takes the place of the loop's. `pairs_of` names an arm whose pairs so far are learnt from in
    the place of a search; `steps_of` one whose round took so many steps in the environment that as many are played as
    tries (in the place of `group`). `judged_by` says at whose word pairs of steps are learnt from."""

    algorithm: AlgorithmConfig = AlgorithmConfig.model_validate({"name": "dpo", "parameters": {"nll": 0.2}})
    compare: Literal["steps", "tries"] = "steps"
    arm: str = ""
    search: SearchConfig | None = None
    pairs_of: str | None = None
    steps_of: str | None = None
    judged_by: By = "verifier"

    @model_validator(mode="before")
    @classmethod
    def _expert_is_imitated(cls, said: Any) -> Any:
        if isinstance(said, dict) and said.get("source") == "expert" and "algorithm" not in said:
            return {**said, "algorithm": {"name": "sft"}}
        return said

    @model_validator(mode="after")
    def _prefers(self) -> SportRound:
        if self.algorithm.name == "grpo":
            raise ValueError("algorithm grpo: steps are preferred or imitated: dpo or sft")
        if self.compare == "tries" and (self.search is not None or self.pairs_of is not None):
            raise ValueError("compare tries: whole tries are played; search and pairs_of are for compare: steps")
        if self.compare == "steps" and self.steps_of is not None:
            raise ValueError("steps_of: it is for compare: tries, which plays as many steps as a search took")
        if self.pairs_of is not None and self.search is not None:
            raise ValueError("search: a round that takes the pairs of an arm (pairs_of) does not search")
        return self

    @property
    def searches(self) -> bool:
        """Whether it looks for steps of its own."""
        return self.source == "policy" and self.compare == "steps" and self.pairs_of is None


class SportConfig(LineConfig):
    """One SPORT loop. `from` says where a round of preferences begins: at `sft` (the version that stood before the
    first of them), on all pairs so far; or at the `last` version that played, on the round's own pairs.
    Rounds that are `judged_by: people` wait until people have rated so many of their pairs (`rated`; all, where there
    are fewer)."""

    model_config = ConfigDict(serialize_by_alias=True)

    loop: Literal["sport"] = "sport"
    line: str = "sport"
    begin: Literal["sft", "last"] = Field(default="sft", alias="from")
    synthesis: SynthesisConfig | None = None
    search: SearchConfig = SearchConfig()
    pairs: PairsConfig = PairsConfig()
    check: CheckConfig = CheckConfig()
    rated: int = Field(default=10, ge=1)
    rounds: tuple[SportRound, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _teaching_comes_first(self) -> SportConfig:
        sources = [each.source for each in self.rounds]
        if sources != sorted(sources):  # "expert" before "policy"
            raise ValueError("rounds: rounds of the expert are the SFT that the others begin from; put them first")
        return self

    @model_validator(mode="after")
    def _arms_that_are_there(self) -> SportConfig:
        for number, each in enumerate(self.rounds, 1):
            for key in ("pairs_of", "steps_of"):
                other = getattr(each, key)
                if other is None:
                    continue
                place = self.iteration(number)
                found = [n for n in self.of_arm(other) if n < number and self.rounds[n - 1].searches]
                if other == each.arm or not found or (key == "steps_of" and len(found) < place):
                    raise ValueError(f"rounds: {key} {other!r} of round {number}: no such arm has searched before it")
        return self

    def of_arm(self, arm: str) -> list[int]:
        """The numbers of the rounds of preferences of an arm."""
        return [n for n, each in enumerate(self.rounds, 1) if each.source == "policy" and each.arm == arm]

    def iteration(self, number: int) -> int:
        """Which round of its arm a round is, from 1."""
        return 1 + sum(other < number for other in self.of_arm(self.rounds[number - 1].arm))

    def search_of(self, number: int) -> SearchConfig:
        """How a round searches."""
        return self.rounds[number - 1].search or self.search

    @property
    def first_preferring(self) -> int:
        """The number of the first round of preferences; one past the last where there is none."""
        return 1 + sum(each.source == "expert" for each in self.rounds)
