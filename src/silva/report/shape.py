"""The shape of a tree: what of it a picture shows, with runs of turns without a fork folded to one stem each.

    Tree, trajectories ─▶ shape ─▶ stems (parents first): turns, marks, what they lead to ─▶ drawn (so many paths)

A turn is one action with what was answered to it; the prompt is turn 0. A path ends at a leaf, or within a stem where
another path goes on from its last turn: that one is a stem without length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import msgspec

from silva.redact import redact
from silva.report.conversation import verdict
from silva.tree import Author, ImagePart, Message, Node, Record, Trajectory, Tree
from silva.tree.copies import turn_at

KINDS = ("solved", "unsolved", "unjudged", "broke", "open")
"""How a path can have ended; `open`: no trajectory says so (it is under way, or was lost)."""

_SAID_BY = {
    Author.PERSON: "a person spoke",
    Author.ATTACKER: "an attacker wrote this",
    Author.SUMMARISER: "summarised",
    Author.VERIFIER: "a verifier spoke",
    Author.MEMORY: "was given skills",
}


class Mark(Record, frozen=True, kw_only=True):
    """Something that stands at a turn. `kind` is risk, snapshot, given or said."""

    turn: int
    kind: str
    words: str


class End(Record, frozen=True, kw_only=True):
    """How a path ended. `trajectory_id` is "" for one that no trajectory speaks of; `mine`: the page's run grew it."""

    kind: str
    trajectory_id: str = ""
    run_id: str = ""
    place: str = ""
    score: float | None = None
    safety: float | None = None
    turns: int = 0
    facts: tuple[str, ...] = ()
    mine: bool = False


class Stem(Record, frozen=True, kw_only=True):
    """Turns in a row without a fork.

    Attributes:
        parent: the number of the stem it grows from; None for a root.
        first: the turn it leaves its parent at.
        last: its last turn: a fork's, or a path's end.
        action: its first action, in one line; "" where it begins otherwise.
        marks: in order of turns.
        end: how its path ended, if it ends here.
        mine: whether the page's run grew any of it.
        children: numbers of the stems that grow from its end, siblings by slot.
        paths: how many paths lead through it, by how they ended.
        value: the mean score of the paths through it; None where none has one.
    """

    parent: int | None
    first: int
    last: int
    action: str = ""
    marks: tuple[Mark, ...] = ()
    end: End | None = None
    mine: bool = True
    children: tuple[int, ...] = ()
    paths: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    value: float | None = None


class Shape(Record, frozen=True, kw_only=True):
    """A whole tree: its stems, parents before children; `task` and `env` name what it was grown for."""

    tree_id: str
    env: str
    task: str
    stems: tuple[Stem, ...]

    @property
    def roots(self) -> list[int]:
        """Numbers of the stems without a parent."""
        return [number for number, stem in enumerate(self.stems) if stem.parent is None]

    @property
    def turns(self) -> int:
        """The turns of the longest path."""
        return max((stem.last for stem in self.stems), default=0)

    @property
    def forks(self) -> int:
        """Places with more than one way on."""
        return sum(len(stem.children) > 1 for stem in self.stems) + (len(self.roots) > 1)

    @property
    def paths(self) -> Counter[str]:
        """Paths by how they ended."""
        return Counter(stem.end.kind for stem in self.stems if stem.end is not None)

    def count(self, kind: str) -> int:
        """How many marks there are of a kind."""
        return sum(mark.kind == kind for stem in self.stems for mark in stem.marks)


def shape(tree: Tree, trajectories: Sequence[Trajectory], run_id: str) -> Shape:
    """The shape of a tree.

    Args:
        tree: its nodes, of whatever runs.
        trajectories: those that end in it.
        run_id: the run that the page is about.
    """
    ends: dict[str, list[End]] = {}
    for each in sorted(trajectories, key=lambda t: (_by_slot(t.slot), t.id)):
        if each.leaf_id is not None and each.leaf_id in tree:
            ends.setdefault(each.leaf_id, []).append(_end(each, run_id))
    grown: list[Stem] = []
    children: dict[int, list[int]] = {}
    waiting: list[tuple[Node, int | None, int]] = [(root, None, 0) for root in reversed(tree.roots)]
    while waiting:
        node, parent, turn = waiting.pop()
        number, first = len(grown), turn
        walked = [node]
        marks: list[Mark] = []
        while True:
            node = walked[-1]
            turn += bool(turn_at(node))
            marks += _marks(node, turn)
            following = tree.children(node.id)
            if len(following) != 1 or node.id in ends:
                break
            walked.append(following[0])
        ended = ends.get(node.id, [])
        only = not following and len(ended) < 2
        grown.append(
            Stem(
                parent=parent,
                first=first,
                last=turn,
                action=next((brief(each.message) for each in walked[:2] if turn_at(each)), ""),
                marks=tuple(marks),
                end=None if not only else ended[0] if ended else End(kind="open", mine=node.run_id == run_id),
                mine=any(each.run_id == run_id for each in walked),
            )
        )
        if parent is not None:
            children.setdefault(parent, []).append(number)
        if only:
            continue
        for end in ended:
            children.setdefault(number, []).append(len(grown))
            grown.append(Stem(parent=number, first=turn, last=turn, end=end, mine=end.mine))
        following.sort(key=lambda each: (_by_slot(each.slot), each.id))
        waiting += [(each, number, turn) for each in reversed(following)]
    some = trajectories[0] if trajectories else None
    return Shape(
        tree_id=tree.id,
        env=some.env if some else "",
        task=some.task_id if some else "",
        stems=tuple(_summed(grown, children)),
    )


def drawn(stems: Sequence[Stem], most: int) -> set[int]:
    """Numbers of the stems to draw: those that lead to `most` paths, the page's run's own first, else spread evenly."""
    leaves = [number for number, stem in enumerate(stems) if stem.end is not None]
    own = [number for number in leaves if stems[number].mine]
    others = [number for number in leaves if not stems[number].mine]
    kept: set[int] = set()
    for number in [*_spread(own, most), *_spread(others, max(0, most - len(own)))]:
        place: int | None = number
        while place is not None and place not in kept:
            kept.add(place)
            place = stems[place].parent
    return kept


def brief(message: Message) -> str:
    """A message in one line, as a reader may see it."""
    calls = " ".join(f"{call.name}({_plain(call.arguments)})" for call in message.tool_calls)
    pictures = " ".join("[image]" for part in message.parts if isinstance(part, ImagePart))
    return redact(" ".join(f"{calls or message.text} {pictures}".split())[:400]) or "(nothing)"


def _plain(arguments: str) -> str:
    """A call's arguments without what all of them have: braces and quotes around names and words."""
    try:
        given = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return arguments
    if not isinstance(given, dict):
        return arguments
    return ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in given.items())


def _spread(numbers: Sequence[int], most: int) -> list[int]:
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[place * len(numbers) // most] for place in range(most)]


def _by_slot(slot: str) -> tuple[tuple[int, int | str], ...]:
    """Slots in the order they were drawn: 2.0 before 10.0, what is shared first."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in slot.split(".")) if slot else ()


def _end(trajectory: Trajectory, run_id: str) -> End:
    outcome = trajectory.outcome
    facts = [outcome.status.value]
    if outcome.failure is not None:
        facts.append(redact(f"{outcome.failure.code}: {outcome.failure.message}")[:200])
    if trajectory.superseded:
        facts.append("tried again after it broke")
    grown = trajectory.attributes.get("branch")
    if isinstance(grown, dict):
        if isinstance(grown.get("turns"), int):
            facts.append(f"{grown['turns']} new turns")
        reasons = grown.get("reasons")
        if isinstance(reasons, list) and reasons:
            facts.append(f"tried because of: {', '.join(map(str, reasons))}")
        restored = grown.get("restored")
        if isinstance(restored, dict) and restored.get("by"):
            facts.append(f"reached by {restored['by']}")
    return End(
        kind=verdict(trajectory),
        trajectory_id=trajectory.id,
        run_id=trajectory.run_id,
        place=f"#{trajectory.index}" + (f", try {trajectory.attempt + 1}" if trajectory.attempt else ""),
        score=outcome.score,
        safety=outcome.safety,
        turns=trajectory.turns,
        facts=tuple(facts),
        mine=trajectory.run_id == run_id,
    )


def _marks(node: Node, turn: int) -> list[Mark]:
    found = [
        Mark(turn=turn, kind="risk", words=f"risk: {risk.kind} ({risk.severity:g}){f', {risk.by}' if risk.by else ''}")
        for risk in node.risks
    ]
    if node.snapshot_id:
        about = node.attributes.get("snapshot")
        fidelity = about.get("fidelity", "") if isinstance(about, dict) else ""
        text = f"snapshot {node.snapshot_id[:12]}{f' ({fidelity})' if fidelity else ''}"
        found.append(Mark(turn=turn, kind="snapshot", words=text))
    if node.author is Author.POLICY and node.attributes.get("branch") == "given":
        found.append(Mark(turn=turn, kind="given", words=f"action chosen by a person: {brief(node.message)[:160]}"))
    if node.author in _SAID_BY:
        found.append(Mark(turn=turn, kind="said", words=f"{_SAID_BY[node.author]}: {brief(node.message)[:160]}"))
    return found


def _summed(grown: Sequence[Stem], children: dict[int, list[int]]) -> list[Stem]:
    """The stems with what stands behind each: parents come before children, so one pass from the end is enough."""
    paths = [Counter[str]() for _ in grown]
    scores: list[list[float]] = [[] for _ in grown]
    for number in range(len(grown) - 1, -1, -1):
        stem = grown[number]
        if stem.end is not None:
            paths[number][stem.end.kind] += 1
            if stem.end.score is not None:
                scores[number].append(stem.end.score)
        if stem.parent is not None:
            paths[stem.parent].update(paths[number])
            # The longer list grows: a trunk of forks would else be copied at each of them.
            mine, theirs = scores[number], scores[stem.parent]
            value = fmean(mine) if mine else None
            longer, shorter = (mine, theirs) if len(mine) > len(theirs) else (theirs, mine)
            longer += shorter
            scores[stem.parent], scores[number] = longer, [] if value is None else [value]
    return [
        msgspec.structs.replace(
            stem,
            children=tuple(children.get(number, ())),
            paths=dict(paths[number]),
            value=fmean(scores[number]) if scores[number] else None,
        )
        for number, stem in enumerate(grown)
    ]
