"""Choosing the decisions worth another look: where a policy was unsure, what was risky, where it first went wrong.

    walk ─▶ policy nodes ─▶ rules (failure, risky, entropy) ─▶ decisions, the rules taking turns ─▶ shoots

- *failure*: the first action that was answered badly (an error in words, a negative reward, a risk that came true); in
  a trajectory without success in which none was, its last action.
- *risky*: actions that delete, install, send, pay or change permissions (`silva.rollout.risks`).
- *entropy*: actions sampled with little certainty. The mean of -log p over the sampled ids is an estimate, from one
  sample, of the policy's entropy per token there; nats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Literal, get_args

import msgspec

from silva.rollout.config import RiskRule
from silva.rollout.guided_nodes import answers, takes_turn
from silva.rollout.risks import risks_of
from silva.tree import Author, Message, Node, Record, Trajectory

Rule = Literal["failure", "risky", "entropy"]
RULES: tuple[Rule, ...] = get_args(Rule)

UNSURE = 0.5
"""Nats a token from which an action counts as unsure."""

_BAD = re.compile(
    r"^\W*(\w+\W+){0,3}?"
    r"(error|exception|traceback|fail(ed|ure)?|invalid|denied|refused|not (found|permitted|allowed))\b",
    re.IGNORECASE,
)


class Decision(Record, frozen=True, kw_only=True):
    """One action that the policy took, and why it is worth another look. `turn` counts from 1, the turns that a person
    took too; `surprise` in nats a token (None: its log-probabilities are not known); `score` and `success` are how its
    trajectory ended."""

    tree_id: str
    node_id: str
    trajectory_id: str
    task_id: str
    turn: int
    reasons: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    surprise: float | None = None
    score: float | None = None
    success: bool | None = None


def surprise(node: Node) -> float | None:
    """The mean of -log p over the ids sampled at a node, in nats."""
    if node.tokens is None or not node.tokens.logprobs:
        return None
    mean = -math.fsum(node.tokens.logprobs) / len(node.tokens.logprobs)
    return mean if math.isfinite(mean) else None


def decisions(
    trajectory: Trajectory,
    walk: Sequence[Node],
    rules: Iterable[str] = RULES,
    more: Mapping[str, RiskRule] | None = None,
    unsure: float = UNSURE,
) -> list[Decision]:
    """The decisions of one trajectory that any of the rules chooses, the rules taking turns, best first."""
    actions = [node for node in walk if node.author is Author.POLICY]
    if not actions:
        return []
    wanted = set(rules)
    risks = {node.id: risks_of(node.message, more) for node in actions}
    surprises = {node.id: found for node in actions if (found := surprise(node)) is not None}
    chosen: dict[str, list[str]] = {
        "failure": _first_failure(trajectory, walk, actions) if "failure" in wanted else [],
        "risky": [node.id for node in actions if risks[node.id]] if "risky" in wanted else [],
        "entropy": sorted(
            (name for name, value in surprises.items() if "entropy" in wanted and value >= unsure),
            key=lambda name: -surprises[name],
        ),
    }
    order = [name for row in zip_longest(*chosen.values()) for name in row if name is not None]
    turns = {node.id: number for number, node in enumerate(filter(takes_turn, walk), 1)}
    return [
        Decision(
            tree_id=trajectory.tree_id,
            node_id=name,
            trajectory_id=trajectory.id,
            task_id=trajectory.task_id,
            turn=turns[name],
            reasons=tuple(rule for rule, names in chosen.items() if name in names),
            risks=risks[name],
            surprise=surprises.get(name),
            score=trajectory.outcome.score,
            success=trajectory.outcome.success,
        )
        for name in dict.fromkeys(order)
    ]


def in_turn(of_each: Sequence[Sequence[Decision]]) -> list[Decision]:
    """The decisions of several trajectories, each trajectory's best first; one that they share stands once."""
    found: dict[str, Decision] = {}
    for row in zip_longest(*of_each):
        for each in row:
            if each is None:
                continue
            known = found.get(each.node_id)
            if known is None:
                found[each.node_id] = each
            else:
                reasons = tuple(rule for rule in RULES if rule in {*known.reasons, *each.reasons})
                found[each.node_id] = msgspec.structs.replace(known, reasons=reasons)
    return list(found.values())


def _first_failure(trajectory: Trajectory, walk: Sequence[Node], actions: Sequence[Node]) -> list[str]:
    last: Node | None = None
    for node in walk:
        if takes_turn(node):
            last = node if node.author is Author.POLICY else None  # what a person took is not the policy's to regret
        elif last is not None and answers(node) and _bad(node):
            return [last.id]
    return [] if trajectory.outcome.success else [actions[-1].id]


def _bad(node: Node) -> bool:
    if node.risks or (node.reward is not None and node.reward < 0):
        return True
    return answered_badly(node.message)


def answered_badly(message: Message) -> bool:
    """Whether a tool's answer begins by telling of an error."""
    return message.role == "tool" and _BAD.search(message.text[:200]) is not None
