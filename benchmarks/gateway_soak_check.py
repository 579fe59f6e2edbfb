"""The lake against what the clients were told, after the gateway has stopped: read by another process, nothing repaired.

ledger line ─▶ the node of that reply: there, once, with these words, in this rollout, below this conversation; told once
every tree ─▶ whole          every trajectory ─▶ its leaf is there          every conversation ─▶ no more samples than were asked for
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gateway_soak_client import Ledger
from gateway_soak_dialects import Call, Said, digest
from gateway_soak_runs import Ended, Runs

from silva.lake import Lake
from silva.tree import Author, Message, Node, Trajectory, Tree, TreeError, slot, tree_id


@dataclass
class Found:
    """What stands in the lake, and what should not. All but the first block must be 0."""

    acknowledged: int = 0
    nodes: int = 0
    turns: int = 0
    trees: int = 0
    trajectories: int = 0
    not_acknowledged: int = 0
    """Turns that are kept although their reply never arrived; no fault."""

    lost: int = 0
    twice: int = 0
    told_twice: int = 0
    """Replies that were given to two who each asked for a sample, though no connection was lost: a gateway that was
    killed knows what it answered, not who got it."""
    other_words: int = 0
    other_conversation: int = 0
    other_rollout: int = 0
    sampled_too_often: int = 0
    broken_trees: int = 0
    half_turns: int = 0
    without_ids: int = 0
    leafless: int = 0
    turns_miscounted: int = 0
    ends_lost: int = 0
    phantoms: int = 0
    rows_twice: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """How much is wrong."""
        fine = {"acknowledged", "nodes", "turns", "trees", "trajectories", "not_acknowledged", "examples"}
        return sum(value for name, value in asdict(self).items() if name not in fine)

    def fault(self, what: str, example: str) -> None:
        """Count something that is wrong."""
        setattr(self, what, getattr(self, what) + 1)
        if len(self.examples) < 40:
            self.examples.append(f"{what}: {example}")


def said(message: Message) -> Said:
    """A recorded message as the clients have it."""
    calls = tuple(Call(call.id, call.name, call.arguments) for call in message.tool_calls)
    return Said(message.role, message.text, calls)


def check(lake: str, ledger: Ledger, lines: Path, runs: Runs) -> Found:
    """Hold the lake to what the clients know."""
    told: dict[str, list[dict[str, Any]]] = {run: [] for run in runs.names}
    with lines.open() as file:
        for line in map(json.loads, file):
            told[line["run"]].append(line)
    found = Found()
    ends: dict[str, list[Ended]] = {}
    for end in runs.ended:
        ends.setdefault(end.run, []).append(end)
    with Lake.open(lake, mode="read") as store:
        for run in runs.names:
            nodes = store.nodes(run_id=run)
            asked = Counter({key[1]: count for key, count in ledger.asked.items() if key[0] == run})
            trees = _nodes(found, nodes, told[run], asked)
            _trajectories(found, run, store.trajectories(run_id=run), trees, ends.get(run, []), runs.places)
    with Lake.open(lake) as store:
        store.compact()
        for table in ("nodes", "trajectories"):
            row = store.sql(f"select count(*) - count(distinct id) as more from {table}").to_pylist()[0]
            found.rows_twice += int(row["more"])
    return found


def _nodes(found: Found, nodes: list[Node], told: list[dict[str, Any]], asked: Counter[str]) -> dict[str, Tree]:
    by_reply: dict[str, list[Node]] = {}
    by_tree: dict[str, list[Node]] = {}
    for node in nodes:
        by_tree.setdefault(node.tree_id, []).append(node)
        if node.author is Author.POLICY:
            by_reply.setdefault(str(node.attributes.get("reply")), []).append(node)
    trees: dict[str, Tree] = {}
    for name, members in by_tree.items():
        try:
            trees[name] = Tree(members)
        except TreeError as error:
            found.fault("broken_trees", str(error))
    walks: dict[str, str] = {}
    samples: Counter[str] = Counter()
    for tree in trees.values():
        for node in tree:
            if node.author is not Author.POLICY:
                if not tree.children(node.id):
                    found.fault("half_turns", f"{node.id} of {node.run_id} was asked and never answered")
                continue
            walk = [said(each.message) for each in tree.walk(node.id)]
            walks[node.id] = digest(walk)
            samples[digest(walk[:-1])] += 1
            if node.tokens is None or not node.tokens.sampled:
                found.fault("without_ids", f"{node.id} of {node.run_id}")
    for conversation, count in samples.items():
        if count > asked[conversation]:
            found.fault("sampled_too_often", f"{count} samples, {asked[conversation]} asked for: {conversation}")
    given = Counter(line["reply"] for line in told)
    cut = {line["reply"] for line in told if line["cut"]}
    for reply in (reply for reply, count in given.items() if count > 1 and reply not in cut):
        found.fault("told_twice", f"{reply} was given for {given[reply]} samples")
    for line in told:
        _reply(found, line, by_reply.get(line["reply"], []), walks)
    found.acknowledged += len(given)
    found.nodes += len(nodes)
    found.turns += sum(len(each) for each in by_reply.values())
    found.trees += len(trees)
    found.not_acknowledged += len(by_reply.keys() - given.keys())
    return trees


def _reply(found: Found, line: dict[str, Any], nodes: list[Node], walks: dict[str, str]) -> None:
    where = f"{line['dialect']} {line['reply']} of {line['run']}/{line['rollout']}"
    if len(nodes) != 1:
        found.fault("twice" if nodes else "lost", where)
        return
    node = nodes[0]
    calls = [[call.name, json.loads(call.arguments)] for call in node.message.tool_calls]
    if (node.message.text, calls) != (line["text"], [[name, json.loads(given)] for name, given in line["calls"]]):
        found.fault("other_words", f"{where}: told {line['text'][:80]!r}, kept {node.message.text[:80]!r}")
    if walks.get(node.id) != line["walk"]:
        found.fault("other_conversation", where)
    place = (tree_id(line["run"], line["task"]), slot(line["index"], 0))
    if (node.tree_id, node.slot.partition("~")[0]) != place:
        found.fault("other_rollout", where)


def _trajectories(
    found: Found,
    run: str,
    trajectories: list[Trajectory],
    trees: dict[str, Tree],
    ended: list[Ended],
    places: dict[tuple[str, str], tuple[str, int]],
) -> None:
    by_id = {trajectory.id: trajectory for trajectory in trajectories}
    found.trajectories += len(trajectories)
    for trajectory in trajectories:
        tree = trees.get(trajectory.tree_id)
        own = slot(trajectory.index, trajectory.attempt)
        turns = sum(
            node.author is Author.POLICY and node.slot.partition("~")[0] == own
            for node in (() if tree is None else tree)
        )
        what = f"trajectory {trajectory.id} of {run}, task {trajectory.task_id}"
        if trajectory.turns != turns:
            found.fault("turns_miscounted", f"{what}: says {trajectory.turns}, {turns} stand there")
        leaves = [trajectory.leaf_id] if trajectory.leaf_id is not None else []
        for leaf in {*leaves, *trajectory.attributes.get("leaves", ())}:
            if tree is None or leaf not in tree:
                found.fault("leafless", f"{what}: leaf {leaf}")
        if turns and trajectory.leaf_id is None:
            found.fault("leafless", f"{what}: names none")
        if places.get((run, str(trajectory.attributes.get("rollout")))) != (trajectory.task_id, trajectory.index):
            found.fault("phantoms", f"{what}: no program was there")
    for end in ended:
        kept = by_id.get(end.trajectory)
        if kept is None or (kept.leaf_id, kept.turns, kept.outcome.score) != (end.leaf, end.turns, end.score):
            found.fault("ends_lost", f"{end}; kept {kept and (kept.leaf_id, kept.turns, kept.outcome.score)}")
