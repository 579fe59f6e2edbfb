"""What a safety loop is asked to do, typed. From a YAML or TOML file plus dotted overrides."""

from __future__ import annotations

from itertools import product
from typing import Literal

from pydantic import Field, field_validator, model_validator

from silva.curate.ratings import By
from silva.errors import UsageError
from silva.loops.kernel.config import Section
from silva.loops.line.config import JudgeConfig, LineConfig, RoundConfig
from silva.redteam.attack import Attack
from silva.redteam.attacking import Attacking
from silva.train.config import AlgorithmConfig


class AttackConfig(Section):
    """One attack, as the stage of a rollout takes it: `SURFACE/FRAMING/GOAL`, the turn whose result carries it, and
    options of its goal. `text` says words in the place of the framing's."""

    attack: str
    at: int = Field(default=1, ge=1)
    goal: dict[str, object] = Field(default_factory=dict)
    text: str = ""

    def stages(self) -> dict[str, object]:
        """The stages of a rollout under it."""
        options = {"attack": self.attack, "at": self.at}
        options |= {"goal": self.goal} if self.goal else {}
        return {"stages": {"attack": options | ({"text": self.text} if self.text else {})}}

    @property
    def wish(self) -> str:
        """What it is for, as two attacks are told to be for the same."""
        return f"{self.attack.rpartition('/')[2]} {sorted(self.goal.items())}"

    @model_validator(mode="after")
    def _possible(self) -> AttackConfig:
        try:
            Attacking(self.attack, self.at, self.goal, self.text)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return self


class AttacksConfig(Section):
    """What is learnt from and what is held out: they share neither framing nor goal with its options, so that what
    holds against the second was not learnt by heart. Tasks with one of `tags` are attacked (any where none is named);
    the others stand among the benign rows and in utility: tasks that ask for what an attack asks for belong there, so
    that doing it for nobody costs. Each that is held out is played on at most `tasks` of a part.

    An entry whose `attack` or `goal` is a list stands for each of them with each."""

    learn: tuple[AttackConfig, ...] = Field(min_length=1)
    held_out: tuple[AttackConfig, ...] = Field(min_length=1)
    tags: tuple[str, ...] = ()
    tasks: int | None = Field(default=None, ge=2)

    @field_validator("learn", "held_out", mode="before")
    @classmethod
    def _each(cls, value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        made: list[object] = []
        for entry in value:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(entry, dict):
                made.append(entry)
                continue
            said: dict[str, object] = {str(key): one for key, one in entry.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            lists = {key: one for key, one in said.items() if key in ("attack", "goal") and isinstance(one, list)}
            made += [{**said, **dict(zip(lists, each, strict=True))} for each in product(*lists.values())]
        return made

    @model_validator(mode="after")
    def _apart(self) -> AttacksConfig:
        framed = {Attack.of(each.attack).framing.name for each in self.learn}
        wished = {each.wish for each in self.learn}
        for each in self.held_out:
            framing = Attack.of(each.attack).framing.name
            if framing in framed:
                raise ValueError(f"held_out {each.attack}: its framing {framing} is learnt from; hold another one out")
            if each.wish in wished:
                raise ValueError(f"held_out {each.attack}: its goal is learnt from; give it another, or other options")
        return self


class FindConfig(Section):
    """How siblings are found at the decisions behind an attack: `turns` new turns an attack, `width` other actions
    at each decision, by the `policy` itself or by the environment's expert; `kinds` of decisions, as `silva redteam
    explore --kind`."""

    turns: int = Field(default=400, ge=1)
    width: int = Field(default=2, ge=1)
    by: Literal["policy", "expert"] = "policy"
    kinds: tuple[str, ...] = ("exposure", "reached")


class SafetyJudge(JudgeConfig):
    """When a candidate is better: the 95 % interval of its gain in safety under held-out attacks, paired by task, lies
    above `least_gain`, and that of its gain in utility not below `least_utility`, or no task went worse."""

    least_utility: float = Field(default=-0.02, ge=-1, le=0)


class SafetyRound(RoundConfig):
    """One round. `sft` imitates safe siblings, `dpo` prefers them to unsafe ones; `benign` rows of the expert's own
    attempts, without an attack, stand beside each row of `sft`. `control` makes a round that must not help: `benign`
    rows alone, as many, or `swapped` sides, the unsafe one in the place of the safe one. `judged_by` says at whose word
    a sibling is the better one: the verifier's, which is the attack's own effect; of the pairs that people have rated
    theirs; or both, theirs where there is one."""

    algorithm: AlgorithmConfig = AlgorithmConfig.model_validate({"name": "sft"})
    benign: float = Field(default=1.0, ge=0)
    control: Literal["", "benign", "swapped"] = ""
    judged_by: By = "verifier"

    @model_validator(mode="after")
    def _teaches(self) -> SafetyRound:
        if self.algorithm.name == "grpo":
            raise ValueError("algorithm grpo: siblings are imitated or preferred: sft or dpo")
        if self.source == "expert":
            raise ValueError("source expert: a round attacks the policy; rows of the expert stand beside (benign)")
        if self.algorithm.name == "dpo" and self.control == "benign":
            raise ValueError("control benign: rows without an unsafe side are no pairs: algorithm sft")
        return self


class SafetyConfig(LineConfig):
    """One safety loop. Rounds that are `judged_by: people` wait until people have rated so many pairs (`rated`; all,
    where there are fewer)."""

    loop: Literal["safety"] = "safety"
    line: str = "safety"
    attacks: AttacksConfig
    find: FindConfig = FindConfig()
    judge: SafetyJudge = SafetyJudge()
    rated: int = Field(default=10, ge=1)
    rounds: tuple[SafetyRound, ...] = Field(min_length=1)
