"""Diagnosis without a model: rules say in which way a walk failed; walks that failed in one way are one failed point.

    failed walk ─▶ every rule that holds ─▶ by rule: its tasks, one walk as evidence, the operators that its hint means

The rules are general: refusals, circles, walks that never end, ends too soon, names that never came up, tools that what
was trained on calls and the walk did not. None knows an environment or an answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from silva.curate.curation.operators import names, tools
from silva.curate.curation.profile import Profile
from silva.curate.curation.versions import FailedPoint
from silva.loops.roles.diagnoser import Diagnosis, Walk
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import Acted, Role

_ERROR, _MALFORMED, _REPEATED = "error-observation", "malformed-action", "repeated-action"
_EVIDENCE = 200


class _Rule(NamedTuple):
    point: str
    hint: str
    operators: tuple[str, ...]
    holds: Callable[[Walk, Profile], str]
    """What shows it, or "" where it does not hold."""


def _refused(walk: Walk, profile: Profile) -> str:
    at = [turn for turn in walk["turns"] if _ERROR in turn["faults"] or _MALFORMED in turn["faults"]]
    return f"turn {at[0]['n']}: {at[0]['saw']}" if at and 4 * len(at) >= len(walk["turns"]) else ""


def _circles(walk: Walk, profile: Profile) -> str:
    seen = Counter(turn["saw"] for turn in walk["turns"] if turn["saw"])
    often = seen.most_common(1)
    if often and often[0][1] > 2:
        return f"saw {often[0][1]} times: {often[0][0]}"
    again = [turn["n"] for turn in walk["turns"] if _REPEATED in turn["faults"]]
    return f"turns {again[:6]} repeat an action without effect" if len(again) > 1 else ""


def _endless(walk: Walk, profile: Profile) -> str:
    return "" if walk["ended"] else f"cut at the limit after {len(walk['turns'])} turns"


def _too_soon(walk: Walk, profile: Profile) -> str:
    middle = profile.by_turns.middle if profile.by_turns is not None else 0
    short = walk["ended"] and len(walk["turns"]) < middle
    return f"ended itself after {len(walk['turns'])} turns; what it learnt from has {middle:g}" if short else ""


def _wrong_end(walk: Walk, profile: Profile) -> str:
    said = walk["turns"][-1]["says"] or json.dumps(walk["turns"][-1]["calls"])
    return f"ended itself, without success, by: {said}" if walk["ended"] else ""


def _other_names(walk: Walk, profile: Profile) -> str:
    text = "\n".join(turn["saw"] + json.dumps(turn["calls"], ensure_ascii=False) for turn in walk["turns"])
    missing = [name for name in names(walk["words"]) if name not in text]
    return f"never came upon {missing[0]!r}" if missing else ""


def _tool_left_out(walk: Walk, profile: Profile) -> str:
    usual = {tool for tool, count in profile.tools.items() if 2 * count >= profile.sft}
    missing = sorted(usual - set(tools(walk)))
    return f"never calls {', '.join(missing)}" if missing else ""


def _rare_tool(walk: Walk, profile: Profile) -> str:
    rare = {tool for tool, count in profile.tools.items() if 5 * count < profile.sft}
    called = sorted(rare & set(tools(walk)))
    return f"calls {', '.join(called)}, which few rows show" if called else ""


RULES = {
    "refused": _Rule(
        "actions that the environment refuses",
        "do not imitate turns that were answered by an error",
        ("no_loss_on_faults", "without_errors"),
        _refused,
    ),
    "circles": _Rule(
        "going in circles",
        "leave out what led back to where a walk was, and prefer the shortest walk of a task",
        ("without_loops", "best_of_task"),
        _circles,
    ),
    "endless": _Rule(
        "no end before the limit",
        "keep walks that came to an end, and cut what brought nothing new",
        ("that_ended", "known_successes", "at_most_turns"),
        _endless,
    ),
    "too soon": _Rule(
        "giving up before the work is done",
        "show more of the long walks, and none that failed",
        ("known_successes", "more_of_long"),
        _too_soon,
    ),
    "wrong end": _Rule(
        "ending as if it were done",
        "keep walks that somebody said were successes and that did what their task names",
        ("known_successes", "grounded"),
        _wrong_end,
    ),
    "other names": _Rule(
        "acting on something else than the task names",
        "drop walks whose task names what never came up in them; tell in memory what was done for each name",
        ("grounded", "remember", "in_hindsight"),
        _other_names,
    ),
    "tool left out": _Rule(
        "a usual step is left out",
        "leave out walks that skip steps, and imitate each kind of walk often enough",
        ("without_failures", "more_of_rare", "known_successes"),
        _tool_left_out,
    ),
    "rare tool": _Rule(
        "steps of which there are few examples",
        "show rare kinds of walks as often as the common ones",
        ("more_of_rare", "at_most_walks"),
        _rare_tool,
    ),
}


class Rules(Implementation):
    """Clusters failed walks by rules."""

    role: ClassVar[Role] = "diagnoser"
    name: ClassVar[str] = "rules"
    summary: ClassVar[str] = "in which way walks failed, by rules; no model"

    async def diagnose(self, failed: Sequence[Walk], profile: Profile) -> Diagnosis:
        """See `Diagnoser`."""
        found: dict[str, list[tuple[str, str]]] = {}
        for walk in failed:
            for name, rule in RULES.items():
                shown = rule.holds(walk, profile) if walk["turns"] else ""
                if shown:
                    found.setdefault(name, []).append((str(walk["task"]), shown))
        points: list[FailedPoint] = []
        for name, several in found.items():
            tasks = tuple(dict.fromkeys(task for task, _ in several))
            share = f"{len(several)} of {len(failed)} failed walks"
            rule = RULES[name]
            points.append(
                FailedPoint(
                    point=rule.point,
                    evidence=f"{share}; task {several[0][0]}: {' '.join(several[0][1].split())[:_EVIDENCE]}",
                    hint=rule.hint,
                    tasks=tasks,
                    operators=rule.operators,
                )
            )
        points.sort(key=lambda point: -len(point.tasks))
        return Diagnosis(points=tuple(points), acted=(Acted(role="diagnoser", by=self.name),))
