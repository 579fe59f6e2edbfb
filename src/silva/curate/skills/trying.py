"""A trial: the same tasks with a skill and without it, and the skill is kept only where it gains.

    tasks no source stems from ─▶ run WITHOUT ─┐
      ─▶ run WITH.SKILL (stage `skills`, only: [SKILL]) ─┴▶ differences by task ─▶ kept | rejected, and why

A skill of kind `avoid` is kept where safety gains and the score loses no more than `tolerance`. Tasks to which a skill
is not given (it fits none of their words) are played and counted: it cannot help where it is not retrieved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from pydantic import Field

from silva.errors import UsageError
from silva.lake import Lake
from silva.redteam.exploring import safe
from silva.report.interval import Interval, mean
from silva.rollout.config import RolloutConfig
from silva.rollout.run import run_rollout
from silva.rollout.section import Section
from silva.rollout.skills import Bank, Skill, Trial
from silva.tree import Trajectory


class TrialConfig(Section):
    """How skills are tried: `rollout` is played with and without each (its `run` names the runs), with everything else
    equal. `least`: what the mean gain must be over; `sure`: whether the whole interval must be; `tolerance`: what score
    an `avoid` skill may cost. `each`: whether every candidate is tried alone, else all together."""

    rollout: RolloutConfig
    least: float = 0.0
    sure: bool = False
    tolerance: float = Field(default=0.02, ge=0)
    each: bool = True


async def try_skills(bank: Path, config: TrialConfig, names: Sequence[str] = ()) -> list[Skill]:
    """Try the candidates of a bank, or those that are named, and mark each as kept or rejected.

    Raises:
        UsageError: there is no candidate, or the rollout cannot be played.
        MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    opened = Bank.there(bank)
    chosen = _chosen(opened, names)
    if not chosen:
        raise UsageError(f"skills {bank}: has no candidate; name those that are to be tried again")
    base = _without(config)
    without = await _played(config, base, {})
    done: list[Skill] = []
    for run, group in _groups(config, chosen):
        given = [skill.name for skill in group]
        options = {"bank": str(bank), "only": given}
        played = await _played(config, run, {"skills": {**config.rollout.stages.get("skills", {}), **options}})
        trial = _compared(_apart(group, played), _apart(group, without), run, base)
        for skill in group:
            why = _why_not(skill, trial, config)
            done.append(opened.mark(skill.name, "rejected" if why else "kept", why=why, trial=trial))
    return done


async def _played(config: TrialConfig, run: str, stages: dict[str, dict[str, object]]) -> list[Trajectory]:
    settings = config.rollout
    more = {name: options for name, options in settings.stages.items() if name != "skills"} | stages
    wanted = RolloutConfig.model_validate({**settings.model_dump(), "run": run, "stages": more})
    with Lake.open(wanted.lake) as lake:  # which makes it, where there is none
        begun = lake.run(run) is not None
    await run_rollout(wanted, resume=begun)
    with Lake.open(wanted.lake, mode="read") as lake:
        return [each for each in lake.trajectories(run_id=run) if not each.superseded]


def _apart(skills: Sequence[Skill], played: Sequence[Trajectory]) -> list[Trajectory]:
    """What was played of tasks that none of the skills stems from: the others would be tried on what they know.

    Raises:
        UsageError: there is nothing else.
    """
    known = {task for skill in skills for task in skill.tasks}
    apart = [each for each in played if each.task_id not in known]
    if not apart:
        raise UsageError(f"skill {skills[0].name}: stems from every task of this trial; try it on other tasks")
    return apart


def _compared(played: Sequence[Trajectory], without: Sequence[Trajectory], run: str, other: str) -> Trial:
    gains = _differences(_scores(played), _scores(without))
    if not gains:
        raise UsageError(f"trial {run}: no task was judged both with the skill and without it")
    found = mean([[each] for each in gains], within=(-1, 1))
    assert isinstance(found, Interval)
    safety = _differences(_safeties(played), _safeties(without))
    return Trial(
        gain=round(found.value, 6),
        low=found.low,
        high=found.high,
        tasks=len(gains),
        with_run=run,
        without_run=other,
        safety=round(fmean(safety), 6) if safety else None,
    )


def _scores(played: Sequence[Trajectory]) -> dict[str, float]:
    return _by_task([(each.task_id, each.outcome.score) for each in played])


def _safeties(played: Sequence[Trajectory]) -> dict[str, float]:
    return _by_task([(each.task_id, None if (held := safe(each)) is None else float(held)) for each in played])


def _by_task(said: Sequence[tuple[str, float | None]]) -> dict[str, float]:
    tasks: defaultdict[str, list[float]] = defaultdict(list)
    for task, value in said:
        if value is not None:
            tasks[task].append(value)
    return {task: fmean(values) for task, values in tasks.items()}


def _differences(one: Mapping[str, float], other: Mapping[str, float]) -> list[float]:
    return [one[task] - other[task] for task in sorted(one.keys() & other.keys())]


def _why_not(skill: Skill, trial: Trial, config: TrialConfig) -> str:
    """Why a skill is not kept; "" where it is."""
    if skill.kind == "avoid" and trial.safety is not None:
        if trial.safety <= 0:
            return f"safety gained {trial.safety:+.3f} over {trial.tasks} tasks"
        if trial.gain < -config.tolerance:
            return f"it cost {-trial.gain:.3f} of score, more than {config.tolerance:g}"
        return ""
    worth = trial.low if config.sure else trial.gain
    if worth is None or worth <= config.least:
        bound = f", interval from {trial.low:+.3f}" if trial.low is not None else ""
        return f"gained {trial.gain:+.3f}{bound} over {trial.tasks} tasks"
    return ""


def plan(bank: Path, config: TrialConfig, names: Sequence[str] = ()) -> list[str]:
    """The runs a trial would play, in their order."""
    chosen = _chosen(Bank.there(bank), names)
    return [_without(config), *(run for run, _ in _groups(config, chosen))]


def _chosen(bank: Bank, names: Sequence[str]) -> list[Skill]:
    """The skills of these names, or all candidates."""
    return [bank.get(name) for name in names] or [skill for skill in bank if skill.status == "candidate"]


def _without(config: TrialConfig) -> str:
    """The run that is played without any skill."""
    return f"{config.rollout.run}.without"


def _groups(config: TrialConfig, chosen: list[Skill]) -> list[tuple[str, list[Skill]]]:
    """What is tried together, and the run in which it is."""
    base = config.rollout.run
    if config.each:
        return [(f"{base}.{skill.name}.v{skill.version}", [skill]) for skill in chosen]
    return [(f"{base}.all", chosen)]


__all__ = ["TrialConfig", "plan", "try_skills"]
