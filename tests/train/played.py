"""Random trees, played turn by turn by a model that remembers what it saw: the truth that samples are held to.

The nodes are made as the engine makes them (`silva.tree.added`); the truth is written down beside them, whole.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from silva.tree import (
    Author,
    Node,
    Outcome,
    Status,
    Supervision,
    Tokens,
    Trajectory,
    Tree,
    added,
    assistant,
    node_id,
    seen_ids,
    slot,
    trajectory_id,
    tree_id,
    user,
)


@dataclass
class Played:
    """A tree, who walked it, what was said of its nodes. `saw[id]`: every id the model had before it and drew at that
    turn; `drew[id]`: the last of them, with their log-probabilities."""

    tree: Tree
    trajectories: list[Trajectory]
    supervisions: list[Supervision]
    saw: dict[str, tuple[int, ...]] = field(default_factory=dict)
    drew: dict[str, tuple[tuple[int, ...], tuple[float, ...]]] = field(default_factory=dict)


def play(seed: int, steps: int = 30, branching: float = 0.25) -> Played:
    """A tree of about `steps` nodes: turns of a policy and of others, branches, templates that rewrite the past,
    summaries, two attempts on one prefix, judges that disagree."""
    source = random.Random(seed)
    tree = tree_id("run", f"task/{seed}")
    nodes: dict[str, Node] = {}
    played = Played(tree=Tree([]), trajectories=[], supervisions=[])
    waiting: dict[str, tuple[int, ...]] = {}
    summarised: dict[str, bool] = {}
    context: dict[str, tuple[int, ...]] = {}

    def walk(last: str | None) -> list[Node]:
        path = []
        while last is not None:
            path.append(nodes[last])
            last = nodes[last].parent_id
        return path[::-1]

    def some(least: int, most: int) -> tuple[int, ...]:
        return tuple(source.randrange(4) for _ in range(source.randint(least, most)))

    def add(parent: str | None, policy: bool) -> str:
        place = len(nodes)
        message = (assistant if policy else user)(f"{place}")
        author = (
            Author.POLICY
            if policy
            else source.choices((Author.ENVIRONMENT, Author.PERSON, Author.SUMMARISER, Author.ATTACKER), (6, 2, 1, 1))[
                0
            ]
        )
        own = node_id(tree, parent, author, message, None, slot(0, 0))
        before = context.get(parent or "", ())
        tokens, attributes, version = None, {}, ""
        if policy:
            prompt = before + waiting.get(parent or "", ())
            if summarised.get(parent or "") or source.random() < 0.1:
                prompt = some(1, 6)
                if prompt == before:  # a prompt holds what was said since
                    prompt += some(1, 1)
            sampled = some(1, 4)
            logprobs = tuple(-source.random() for _ in sampled)
            tokens, restart = added(
                seen_ids(walk(parent)), prompt, Tokens(ids=sampled, sampled=len(sampled), logprobs=logprobs)
            )
            attributes = {"tokens": "restart"} if restart else {}
            version = f"v{source.randrange(3)}"
            context[own] = played.saw[own] = prompt + sampled
            played.drew[own] = (sampled, logprobs)
            waiting[own], summarised[own] = (), False
        else:
            context[own] = before
            waiting[own] = waiting.get(parent or "", ()) + some(1, 3)
            summarised[own] = summarised.get(parent or "", False) or author is Author.SUMMARISER
        nodes[own] = Node(
            id=own,
            run_id="run",
            tree_id=tree,
            parent_id=parent,
            depth=0 if parent is None else nodes[parent].depth + 1,
            author=author,
            message=message,
            slot=slot(0, 0),
            tokens=tokens,
            model="tiny",
            policy_version=version,
            attributes=attributes,
        )
        return own

    last = add(None, False)
    for _ in range(steps):
        at = source.choice(list(nodes)) if source.random() < branching else last
        follows_policy = nodes[at].author is Author.POLICY
        last = add(at, policy=not follows_policy and source.random() < 0.7)
    played.tree = Tree(nodes.values())
    leaves = [leaf.id for leaf in played.tree.leaves]
    for index, leaf in enumerate(leaves):
        others = source.sample(leaves, source.randint(1, min(3, len(leaves)))) if source.random() < 0.3 else []
        played.trajectories.append(
            Trajectory(
                id=trajectory_id("run", f"task/{seed}", index, 0),
                run_id="run",
                tree_id=tree,
                task_id=f"task/{seed}",
                env="played",
                index=index,
                attempt=0,
                seed=seed,
                leaf_id=leaf,
                outcome=Outcome(status=Status.COMPLETED, score=source.random()),
                attributes={"leaves": others} if others else {},
            )
        )
    for number, node in enumerate(nodes.values()):
        for _ in range(source.choice((0, 0, 0, 1, 2))):
            played.supervisions.append(
                Supervision(
                    id=f"{number}.{len(played.supervisions)}",
                    node_id=node.id,
                    run_id="run",
                    verdict=source.choice(("keep", "mask", "mask", "bad", "note")),
                    source=source.choice(("rule", "model", "person")),
                    by="judge",
                    at=float(source.randrange(3)),
                )
            )
    source.shuffle(played.supervisions)
    return played


def mismatches(played: Played) -> tuple[int, int]:
    """Read every trajectory of a played tree; return how many walks there were, and how many of them were not what the
    model saw and drew, or did not carry loss once where they should."""
    from silva.train.samples import SampleReader

    reader = SampleReader(played.tree, played.supervisions)
    masked = told_to_mask(played.supervisions)
    wrong = 0
    for trajectory in played.trajectories:
        made = reader.samples(trajectory)
        leaves = {str(trajectory.leaf_id), *trajectory.attributes.get("leaves", ())}
        turns = {n.id for leaf in leaves for n in played.tree.walk(leaf) if n.author is Author.POLICY}
        wrong += not faithful(played, made, turns, masked)
    return len(played.trajectories), wrong


def faithful(played: Played, made: list, turns: set[str], masked: set[str]) -> bool:
    """Whether samples are what the model saw at `turns`, and each drawn id carries its loss exactly once."""
    loss = dict.fromkeys(turns, 0)
    for sample in made:
        inside = 0
        for action in sample.actions:
            ids, logprobs = played.drew[action.node_id]
            if tuple(sample.ids[: action.stop]) != played.saw[action.node_id] or action.stop - action.start != len(ids):
                return False
            if any(
                abs(a - b) > 1e-6 for a, b in zip(sample.logprobs[action.start : action.stop], logprobs, strict=True)
            ):
                return False
            carried = sample.mask[action.start : action.stop]
            if carried.any() != carried.all() or not sample.drawn[action.start : action.stop].all():
                return False
            loss[action.node_id] += bool(carried.any())
            inside += len(ids)
        told = sample.actions[-1].stop == len(sample) and int(sample.drawn.sum()) == inside
        if not told or (sample.mask & ~sample.drawn).any() or sample.logprobs[~sample.drawn].any():
            return False
    return loss == {turn: int(turn not in masked) for turn in turns}


def told_to_mask(supervisions: list[Supervision]) -> set[str]:
    """The nodes to mask, found the slow way: one node and one kind of judge at a time."""
    found = set()
    meant = ("keep", "good", "mask", "bad")
    for node in {each.node_id for each in supervisions}:
        for kind in ("person", "model", "rule"):
            said = [s for s in supervisions if (s.node_id, s.source) == (node, kind) and s.verdict in meant]
            if said:
                if sorted(said, key=lambda s: (s.at, s.id))[-1].verdict in ("mask", "bad"):
                    found.add(node)
                break
    return found
