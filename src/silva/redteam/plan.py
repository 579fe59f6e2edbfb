"""What a red-team run plays: one run for each attack, one for each perturbation, one without, to compare with.

    name, attacks, perturbations, a rollout's configuration ─▶ {run name: configuration}

Where attackers are named, every attack is a search by each (`silva.redteam.searching`) instead of one run.

The runs are the rollout's own, of the same tasks and seeds, named `NAME.none`, `NAME.SURFACE.FRAMING.GOAL` and
`NAME.perturb.KIND`, so each can be resumed, replayed, branched and compared like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from silva.errors import UsageError
from silva.redteam.attack import attacks, perturbation, perturbations
from silva.redteam.defences.table import defences as known_defences
from silva.redteam.defending import NAME as DEFEND
from silva.redteam.packaged import found
from silva.rollout.config import RUN_NAME, RolloutConfig

WITHOUT = "none"
"""The last part of the name of the run without attack."""


def planned(
    config: RolloutConfig,
    patterns: Sequence[str],
    disturbed: Sequence[str],
    *,
    share: float = 0.3,
    baseline: bool = True,
    searched: bool = False,
    defences: Sequence[str] = (),
) -> dict[str, RolloutConfig]:
    """The runs of a plan, by name, in the order in which they are played.

    Args:
        config: what is played; its `run` is the plan's name, its `stages` (defences) stand behind the attack.
        patterns: of attacks, such as `tool_result/*/call`.
        disturbed: names of perturbations; `*` for all.
        share: of the turns that are disturbed.
        baseline: whether the tasks are played without either, too.
        searched: whether the attacks are searched by attackers instead.
        defences: each is measured by itself: all is played with it, too, in runs named `NAME.with.DEFENCE.…`.

    Raises:
        UsageError: a name is not known, nothing is chosen, or a run's name becomes too long.
    """
    chosen = [] if searched else attacks(patterns)
    kinds = [name for each in disturbed for name in (perturbations() if each == "*" else [perturbation(each).name])]
    if not chosen and not kinds and not searched:
        raise UsageError("redteam: choose --attack SURFACE/FRAMING/GOAL or --perturb NAME (silva redteam list)")
    runs: dict[str, RolloutConfig] = {}
    whole, config = config, undefended(config)
    if baseline:
        runs[f"{config.run}.{WITHOUT}"] = config
    for attack in chosen:
        name = f"{config.run}.{attack.name.replace('/', '.')}"
        runs[name] = _with(config, {"attack": {"attack": attack.name}})
    for kind in dict.fromkeys(kinds):
        runs[f"{config.run}.perturb.{kind}"] = _with(config, {"perturb": {"kinds": kind, "share": share}})
    for each in defences:
        defended = with_defence(whole, each)
        again = planned(defended, patterns, disturbed, share=share, baseline=baseline, searched=searched)
        runs |= {name: one for name, one in again.items() if name not in runs}
    for name in runs:
        if not RUN_NAME.fullmatch(name):
            raise UsageError(f"run name {name!r}: at most 100 characters; give --run a shorter name")
    return {name: each.model_copy(update={"run": name}) for name, each in runs.items()}


def undefended(config: RolloutConfig) -> RolloutConfig:
    """The configuration without a `defend` stage that only holds options for defences and names none."""
    if DEFEND not in config.stages or "defences" in config.stages[DEFEND]:
        return config
    return config.model_copy(update={"stages": {key: each for key, each in config.stages.items() if key != DEFEND}})


def with_defence(config: RolloutConfig, name: str) -> RolloutConfig:
    """The configuration with a defence, named `NAME.with.DEFENCE`; its options are those that `stages.defend.options`
    has for it.

    Raises:
        UsageError: there is no such defence.
    """
    found("defence", name, known_defences())
    given = config.stages.get(DEFEND, {})
    options = given.get("options", {})
    own = {name: options[name]} if isinstance(options, dict) and name in options else {}
    stages = {**config.stages, DEFEND: {"defences": [name], **({"options": own} if own else {})}}
    return config.model_copy(update={"run": f"{config.run}.with.{name}", "stages": stages})


def _with(config: RolloutConfig, stages: dict[str, dict[str, object]]) -> RolloutConfig:
    values = config.model_dump()
    return RolloutConfig.model_validate({**values, "stages": {**stages, **config.stages}})
