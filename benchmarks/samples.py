"""Whether samples are what the model saw, and what they cost beside encoding the words again.

random trees, played by a model that remembers ─▶ samples ─▶ mismatches
50-turn conversations ─▶ samples: ids on the nodes         ┐ seconds
                      ├▶ anew: template + tokenizer, at every turn  (what a reader of requests and replies does)
                      └▶ anew, once: template + tokenizer, the whole conversation (it loses what was drawn)
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exact import TOOL, conversation, text

from report import Measurement, arguments, hand_in, load
from silva.models.exact import Extension, Renderer, open_renderer
from silva.train.sample import Sample
from silva.train.samples import SampleReader, samples
from silva.tree import Author, Message, Node, Tokens, Tree, added, node_id, system, user

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "train"))


def exactness(wanted: int) -> dict[str, Any]:
    """Read at least that many random walks; how many are not what the model saw."""
    from played import mismatches, play

    walks = wrong = trees = nodes = 0
    while walks < wanted:
        played = play(1_000_000 + trees, steps=40)
        read, bad = mismatches(played)
        walks, wrong, trees, nodes = walks + read, wrong + bad, trees + 1, nodes + len(played.tree)
    return {"walks": walks, "mismatches": wrong, "trees": trees, "nodes": nodes}


def grown(renderer: Renderer, turns: int, words: int) -> list[Node]:
    """A conversation as a walk whose turns hold exact ids, as the engine keeps them."""
    source = random.Random(2)
    messages: tuple[Message, ...] = (system("You fix programs."), user(text(random.Random(1), words)))
    nodes: list[Node] = []

    def add(author: Author, message: Message, tokens: Tokens | None = None) -> None:
        parent = nodes[-1].id if nodes else None
        own = node_id("tree", parent, author, message, None, "0.0")
        nodes.append(
            Node(
                id=own,
                run_id="run",
                tree_id="tree",
                parent_id=parent,
                depth=len(nodes),
                author=author,
                message=message,
                slot="0.0",
                tokens=tokens,
                model="policy",
                policy_version="v1",
            )
        )

    for message in messages:
        add(Author.ENVIRONMENT, message)
    seen: tuple[int, ...] = ()
    asked = renderer.render(messages, (TOOL,))
    for reply, new in conversation(turns, words):
        told = renderer.render((*messages, reply), (TOOL,), generation_prompt=False)
        start = len(renderer.render(messages, (TOOL,)))
        drawn = told[start : max(place + 1 for place, number in enumerate(told) if number in renderer.stop_ids)]
        logprobs = tuple(-source.random() for _ in drawn)
        tokens, _ = added(seen, asked, Tokens(ids=drawn, sampled=len(drawn), logprobs=logprobs))
        add(Author.POLICY, reply, tokens)
        seen, messages = asked + drawn, (*messages, reply)
        found = renderer.extend(seen, messages, new, (TOOL,))
        assert isinstance(found, Extension), found
        for message in new:
            add(Author.ENVIRONMENT, message)
        asked, messages = seen + found.ids, (*messages, *new)
    return nodes


def anew_each_turn(renderer: Renderer, walk: list[Node]) -> int:
    """Encode the conversation from its words up to every reply; return how many ids that made."""
    messages = tuple(node.message for node in walk)
    return sum(
        len(renderer.render(messages[: place + 1], (TOOL,), generation_prompt=False))
        for place, node in enumerate(walk)
        if node.author is Author.POLICY
    )


def anew_once(renderer: Renderer, walk: list[Node]) -> int:
    """Encode the whole conversation from its words."""
    return len(renderer.render(tuple(node.message for node in walk), (TOOL,), generation_prompt=False))


def best(work: Callable[[], Any], times: int) -> float:
    """The median of its seconds."""
    found: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def branched(walk: list[Node], leaves: int) -> tuple[Tree, list[str]]:
    """A tree of that walk with siblings of its last turn, each the end of a trajectory."""
    last = next(place for place in range(len(walk) - 1, 0, -1) if walk[place].author is Author.POLICY)
    stem, turn = walk[:last], walk[last]
    ends: list[Node] = []
    for number in range(leaves):
        own = node_id("tree", stem[-1].id, turn.author, turn.message, None, f"{number}.0")
        fields = {name: getattr(turn, name) for name in ("run_id", "tree_id", "author", "message", "tokens", "model")}
        ends.append(Node(id=own, parent_id=stem[-1].id, depth=len(stem), slot=f"{number}.0", **fields))
    return Tree([*stem, *ends]), [end.id for end in ends]


def shared(walk: list[Node], leaves: int) -> tuple[float, float]:
    """Milliseconds a trajectory costs in a tree that shares all but its last turn, and read alone."""
    from silva.tree import Outcome, Status, Trajectory

    tree, ends = branched(walk, leaves)
    outcome = Outcome(status=Status.COMPLETED, score=1.0)
    given = [
        Trajectory(
            id=end,
            run_id="run",
            tree_id="tree",
            task_id="t",
            env="e",
            index=number,
            attempt=0,
            seed=0,
            leaf_id=end,
            outcome=outcome,
        )
        for number, end in enumerate(ends)
    ]
    together = best(
        lambda: [made for reader in [SampleReader(tree)] for each in given for made in reader.samples(each)], 3
    )
    alone = best(lambda: [samples(tree.walk(str(each.leaf_id)), each) for each in given], 3)
    return together * 1000 / leaves, alone * 1000 / leaves


def main() -> int:
    """Measure and hand in."""
    options = arguments(__doc__).parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    before = load()
    exact = exactness(300 if options.quick else 10_000)
    turns, words, times = (10, 50, 1) if options.quick else (50, 200, 5)
    renderer = open_renderer("local")
    walk = grown(renderer, turns, words)
    (made,) = samples(walk)
    assert isinstance(made, Sample)
    transform = best(lambda: samples(walk), 5 * times)
    each_turn = best(lambda: anew_each_turn(renderer, walk), 1 if options.quick else 3)
    once = best(lambda: anew_once(renderer, walk), times)
    together, alone = shared(walk, 16)
    encoded = best(made.to_bytes, 5 * times)
    data = made.to_bytes()
    decoded = best(lambda: Sample.from_bytes(data), 5 * times)
    rows = [
        {"way": "samples: ids on the nodes", "ids made": 0, "ms": round(transform * 1000, 3), "times as long": 1.0},
        {
            "way": "encoded anew at every turn",
            "ids made": anew_each_turn(renderer, walk),
            "ms": round(each_turn * 1000, 1),
            "times as long": round(each_turn / transform, 1),
        },
        {
            "way": "encoded anew once, at the end",
            "ids made": anew_once(renderer, walk),
            "ms": round(once * 1000, 1),
            "times as long": round(once / transform, 1),
        },
    ]
    ratio = each_turn / transform
    return hand_in(
        Measurement(
            name="samples",
            question=f"Is a sample what the model saw, and what does one of {turns} turns and {len(made):,} ids cost?",
            bar="0 mismatches in 10,000 random walks, and at least 10 times faster than encoding each turn anew",
            ratio=ratio,
            holds=exact["mismatches"] == 0 and ratio >= 10,
            rows=rows,
            details={
                "exactness": exact,
                "ratio_to_encoding_once": round(once / transform, 2),
                "siblings": {
                    "trajectories": 16,
                    "ms_each_in_a_tree": round(together, 3),
                    "ms_each_alone": round(alone, 3),
                },
                "bytes": {
                    "size": len(data),
                    "to_bytes_ms": round(encoded * 1000, 3),
                    "from_bytes_ms": round(decoded * 1000, 3),
                },
                "tokenizer": renderer.name,
            },
            versions={name: __import__(name).__version__ for name in ("tokenizers", "jinja2", "numpy")},
            quick=options.quick,
        ),
        before,
    )


if __name__ == "__main__":
    sys.exit(main())
