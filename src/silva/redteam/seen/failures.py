"""A found failure: an attempt in which an attack reached its goal, and how it is taken again.

trajectory ─▶ Failure (turns of exposure, of the act and of the effect; ids of standards; the command that replays it)
walk ───────▶ marks: what happened at which of its nodes
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from silva.redteam.rates import named
from silva.redteam.seen.points import model_of
from silva.redteam.verdict import said, told
from silva.rollout.guided_nodes import takes_turn
from silva.tree import Node, Record, Trajectory


class Failure(Record, frozen=True, kw_only=True):
    """One found failure. Turns count from 1; `acted` may be None where the effect was the end of the episode.
    `replay`: the command, said for the same lake; empty where several agents acted, which no replay takes again."""

    trajectory: str
    run: str
    plan: str
    env: str
    task: str
    model: str
    agent: str
    attack: str
    exposed: int
    reached: int
    acted: int | None = None
    done: bool | None = None
    standards: tuple[str, ...] = ()
    replay: str = ""


def failures(trajectories: Iterable[Trajectory], plan: str) -> list[Failure]:
    """Every found failure of a plan, by environment, attack and task."""
    reached = [each for each in trajectories if not each.superseded and told(each).get("reached") is not None]
    return [
        _failure(each, plan) for each in sorted(reached, key=lambda one: (one.env, named(one), one.task_id, one.id))
    ]


def _failure(trajectory: Trajectory, plan: str) -> Failure:
    said = told(trajectory)
    again = f"silva redteam replay {shlex.quote(plan)} --trajectory {trajectory.id[:12]}"
    return Failure(
        trajectory=trajectory.id,
        run=trajectory.run_id,
        plan=plan,
        env=trajectory.env,
        task=trajectory.task_id,
        model=model_of(trajectory),
        agent=trajectory.agent,
        attack=named(trajectory),
        exposed=int(said.get("exposed") or 0),
        reached=int(said["reached"]),
        acted=said.get("acted"),
        done=trajectory.outcome.success,
        standards=tuple(map(str, said.get("standards", ()))),
        replay=again,
    )


def marks(verdict: Mapping[str, Any], walk: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """What happened at which node of an attempt's walk, in words: where the attacker spoke, at which turn the model was
    shown it, at which it acted on it, and at which the goal was reached. `verdict` is what the record says of the
    attack (`told`); empty where the attempt has not ended."""
    names = {
        "exposed": "exposure: the model was shown the attack before this turn",
        "unexposed": "did what the attacker wants, without having seen it",
        "acted": "acts on the attack",
        "reached": "effect: the attacker's goal is reached",
    }
    found: dict[str, tuple[str, ...]] = {}
    turn = 0
    for node in walk:
        here: list[str] = []
        spoken = said(node)
        if spoken is not None and "words" in spoken:
            here.append("the attacker speaks")
        elif spoken is not None and spoken.get("silent"):
            here.append("the attacker has nothing to say")
        if takes_turn(node):
            turn += 1
            here += [words for name, words in names.items() if verdict.get(name) == turn]
        if here:
            found[node.id] = tuple(here)
    return found
