"""Branches on a terminal: what each did first, how it ended, what it cost, beside what was there before."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.table import Table

from silva.cli.as_json import print_json
from silva.cli.trees_show import console, plain
from silva.rollout.branching.explore import Findings, content
from silva.rollout.branching.grow import Grown, new_turns
from silva.rollout.branching.shoots import KEY
from silva.rollout.guided_nodes import action_behind
from silva.tree import Message, Node, Trajectory, to_json

_SHORT = 60


def say_branches(grown: Grown, before: Sequence[tuple[Trajectory, Sequence[Node]]], lake: str, as_json: bool) -> None:
    """Print a run of branches, side by side with the trajectories through the same node."""
    if as_json:
        print_json(
            {
                "run": grown.run.id,
                "status": grown.run.status,
                "remaining": grown.remaining,
                "stopped": grown.stopped,
                "new_turns": grown.new_turns,
                "points": [
                    {"node": point.node.id, "tree": tree, "turn": point.turns}
                    for (tree, _), point in grown.points.items()
                ],
                "branches": [to_json(each) for each in grown.trajectories],
                "before": [to_json(each) for each, _ in before],
            }
        )
        return
    screen = console()
    for (tree, node), point in grown.points.items():
        screen.print(plain(f"{point.task.id}, after turn {point.turns} (node {node[:12]}, tree {tree[:12]})", "bold"))
    table = Table("", "first action", "status", "score", "safety", "reward", "new turns", "model s", "id", box=None)
    starts = {node for _, node in grown.points}
    for each, walk in before:
        table.add_row("before", *_row(each, walk, starts, None))
    for each in grown.trajectories:
        table.add_row("branch", *_row(each, grown.walks.get(each.id, ()), starts, new_turns(each)))
    screen.print(table)
    for line in _remarks(grown):
        screen.print(plain(line))
    sys.stdout.write(f"run {grown.run.id}: {grown.new_turns} new turns in {grown.seconds:.1f} s\n")
    if grown.remaining:
        sys.stdout.write(
            f"{grown.remaining} branches are left ({grown.stopped or 'the budget of turns is spent'}): "
            f"silva trees {grown.run.command} --run {grown.run.id} --resume --lake {lake} continues\n"
        )


def _row(each: Trajectory, walk: Sequence[Node], starts: set[str], new: int | None) -> list[Any]:
    outcome = each.outcome
    status = outcome.status.value if outcome.failure is None else outcome.failure.code
    if outcome.success is not None:
        status += ", success" if outcome.success else ", no success"
    return [
        plain(first_action(walk, starts)),
        plain(status),
        "" if outcome.score is None else f"{outcome.score:.2f}",
        "" if outcome.safety is None else f"{outcome.safety:.2f}",
        f"{each.reward:g}",
        "" if new is None else str(new),
        f"{each.usage.model_seconds:.1f}" if new is not None else "",
        f"{each.id[:8]} {each.slot}",
    ]


def first_action(walk: Sequence[Node], starts: set[str]) -> str:
    """The first action behind any of the nodes, in one line."""
    found = action_behind(walk, starts)
    return "(none)" if found is None else brief(found.message)


def brief(message: Message) -> str:
    """A message in one short line."""
    return _cut(content(message), _SHORT)


def _remarks(grown: Grown) -> list[str]:
    lines: list[str] = []
    ways: list[str] = []
    for each in grown.trajectories:
        facts = each.attributes.get(KEY, {})
        restored = facts.get("restored", {})
        ways.append(restored.get("by", ""))
        lines += [f"not used: {why}" for why in restored.get("passed_over", ())]
        if facts.get("divergence"):
            found = facts["divergence"]
            lines.append(f"{each.slot}: went on although turn {found['turn']} diverged ({found['what']} differs)")
        if each.outcome.failure is not None:
            lines.append(f"{each.slot}: {each.outcome.failure.message}")
    first = next((way for way in ways if way), "")
    return [*([f"reached by {first}"] if first else []), *dict.fromkeys(lines)]


def say_findings(grown: Grown, found: Findings, lake: str, as_json: bool) -> None:
    """Print what an exploration showed."""
    if as_json:
        said = msgspec.to_builtins(found)
        print_json(
            {
                "run": grown.run.id,
                "status": grown.run.status,
                "remaining": grown.remaining,
                "stopped": grown.stopped,
                "coverage": found.coverage,
                "hinges": [each.decision.node_id for each in found.hinges],
                **said,
            }
        )
        return
    table = Table("turn", "why", "action", "value", "actions tried", "swing", "cheapest fix", "node", box=None)
    for each in found.findings:
        decision = each.decision
        why = ", ".join(
            f"risky ({'/'.join(decision.risks)})"
            if reason == "risky"
            else f"unsure ({decision.surprise:.2f})"
            if reason == "entropy" and decision.surprise is not None
            else reason
            for reason in decision.reasons
        )
        tried = "; ".join(f"{_cut(one.action, 24)} {one.value:.2f} ({one.paths})" for one in each.tried[:4])
        fix = "" if each.fix is None else f"{_cut(each.fix.action, 24)}: {each.fix.turns} turns"
        table.add_row(
            str(decision.turn),
            why,
            plain(_cut(each.action, 40)),
            "" if each.value is None else f"{each.value:.2f}",
            plain(tried + (f" (+{each.left} not ended)" if each.left else "")),
            "" if each.swing is None else f"{each.swing:.2f}",
            plain(fix),
            decision.node_id[:8],
        )
    screen = console()
    screen.print(table)
    for line in _sums(found):
        screen.print(plain(line))
    sys.stdout.write(
        f"run {grown.run.id}: {len(grown.trajectories)} alternatives, {found.new_turns} of {grown.growth.turns} new "
        f"turns in {grown.seconds:.1f} s\n"
    )
    if grown.stopped:
        sys.stdout.write(
            f"stopped ({grown.stopped}): silva trees explore {grown.growth.source} --run {grown.run.id} --resume "
            f"--lake {lake} continues\n"
        )


def _sums(found: Findings) -> list[str]:
    lines = [f"the outcome hinges on {len(found.hinges)} of {len(found.findings)} decisions explored"]
    if found.coverage is not None:
        kinds = ", ".join(f"{kind} {found.risky_explored[kind]}/{count}" for kind, count in found.risky.items())
        lines.append(
            f"risky branches covered: {found.coverage:.0%} ({kinds}); {found.avoided} alternatives began without risk"
        )
    for name, fix in found.cheapest.items():
        lines.append(
            f"cheapest fix of {name[:12]}: at turn {fix.turn} {_cut(fix.action, 60)}, then {fix.turns} turns in all; "
            f"{fix.before:.2f} becomes {fix.score:.2f}"
        )
    return lines


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
