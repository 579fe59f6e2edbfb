"""Twigs: the turns of a session that forks, and the records they grow into.

    calls, lines or spans ─▶ Branches.add (a turn under its parent) ─▶ grow ─▶ Bundle: one tree, one trajectory a leaf

A walk from a root to a leaf is what the model saw. So an edit or a retry is a sibling; a compacted context and a
sub-agent, which see none of what came before, open a root of their own in the same tree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from silva.tree.copies import turns_on
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Origin, Turn, prompted
from silva.tree.formats.errors import FormatError
from silva.tree.message import ImagePart, Json, Message, OtherPart, Record, TextPart, ThinkingPart, ToolCall
from silva.tree.node import NO_USAGE, Author, Node, Usage, digest, node_id
from silva.tree.outcome import Outcome, Status
from silva.tree.task import Task
from silva.tree.trajectory import Trajectory, slot, trajectory_id, tree_id

ROOT = -1
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Twig(Record, frozen=True, kw_only=True):
    """A turn at its place: `parent` is the place of the turn before it (ROOT: none)."""

    turn: Turn
    parent: int
    author: Author
    finish_reason: str = ""
    reward: float | None = None


class Ending(Record, frozen=True, kw_only=True):
    """What a file says of the trajectory that ends at a leaf.

    `usage` None: the sum over its turns that no earlier branch passed. `started` holds where no message says when it
    was begun.
    """

    agent: str = ""
    model: str = ""
    outcome: Outcome = Outcome(status=Status.COMPLETED)
    usage: Usage | None = None
    started: float = 0.0
    finished: float = 0.0
    attributes: Json = msgspec.field(default_factory=dict[str, Any])


class Branches:
    """Turns while they come in, each under the one before it; the bytes of their images gather in `blobs`."""

    def __init__(self) -> None:
        self.twigs: list[Twig] = []
        self.blobs: dict[str, bytes] = {}
        self._children: dict[int, list[int]] = {}

    def add(
        self,
        parent: int,
        turn: Turn,
        *,
        author: Author | None = None,
        finish_reason: str = "",
        reward: float | None = None,
    ) -> int:
        """Put a turn under `parent`; its place."""
        place = len(self.twigs)
        self.twigs.append(
            Twig(turn=turn, parent=parent, author=author or turn.author, finish_reason=finish_reason, reward=reward)
        )
        self._children.setdefault(parent, []).append(place)
        return place

    def same(self, parent: int, message: Message) -> int | None:
        """The place of a child of `parent` that says the same, if there is one."""
        key = sameness(message)
        for place in self._children.get(parent, ()):
            if sameness(self.twigs[place].turn.message) == key:
                return place
        return None

    def follow(self, messages: Sequence[Message]) -> None:
        """Add what the messages say after a whole walk of the tree; nothing where they are no such walk gone on."""
        place, number = ROOT, 0
        for message in messages:
            known = self.same(place, message)
            if known is None:
                break
            place, number = known, number + 1
        if place != ROOT and not self.children(place):
            for message in messages[number:]:
                place = self.add(place, Turn(message=message))

    def replace(self, place: int, **changes: Any) -> None:
        """Change what is known of a turn: fields of the twig, or of its turn."""
        twig = self.twigs[place]
        own = {key: value for key, value in changes.items() if key in Twig.__struct_fields__}
        turn = {key: value for key, value in changes.items() if key not in own}
        self.twigs[place] = msgspec.structs.replace(twig, turn=msgspec.structs.replace(twig.turn, **turn), **own)

    def walk(self, place: int) -> list[int]:
        """The places from the root to `place`."""
        path: list[int] = []
        while place != ROOT:
            path.append(place)
            place = self.twigs[place].parent
        return path[::-1]

    def children(self, place: int) -> list[int]:
        """The places right under `place`."""
        return list(self._children.get(place, ()))

    @property
    def leaves(self) -> list[int]:
        """Places without children, in the order in which their branches began: what is added later comes last."""
        found = [place for place in range(len(self.twigs)) if place not in self._children]
        return sorted(found, key=self._forked)

    def _forked(self, leaf: int) -> int:
        """Where the walk to `leaf` last took another turn than the first one there was."""
        while leaf != ROOT and self._children[self.twigs[leaf].parent][0] == leaf:
            leaf = self.twigs[leaf].parent
        return leaf

    def grow(
        self, origin: Origin, tell: Callable[[int], Ending], name: str, line: int, salt: str = "", own: str = ""
    ) -> Bundle:
        """The records: one task, its tree, one trajectory a leaf (a lone one without a leaf where there is no turn).

        Args:
            origin: the run, and the task where the file names one.
            tell: what is known of the trajectory that ends at a leaf.
            name: the file as errors name it.
            line: where in it this was read.
            salt: the session's own id, which keeps sessions of the same words apart; of a fork, that of the session
                it came from, whose turns are its own.
            own: the session's own id where that is another.

        Raises:
            FormatError: a text or number that no record can hold.
        """
        try:
            return self._grown(origin, tell, salt, own or salt)
        except (UnicodeEncodeError, OverflowError, TypeError, RecursionError) as error:
            raise FormatError(name, line, "", f"holds what a record cannot: {error}") from error

    def _grown(self, origin: Origin, tell: Callable[[int], Ending], salt: str, own: str) -> Bundle:
        leaves = self.leaves or [ROOT]
        run = origin.run
        task = origin.task or prompted(tuple(self.twigs[place].turn for place in self.walk(leaves[0])))
        endings = [tell(leaf) for leaf in leaves]
        content = digest(salt, _encode((self.twigs, endings)))
        begun = _place(salt, content) if origin.index is None else origin.index
        begin = _place(own, content) if origin.index is None else origin.index
        tree = tree_id(run.id, task.id)
        nodes = self._nodes(run.id, tree, self._slots(leaves, begun, origin.attempt))
        trajectories: list[Trajectory] = []
        billed: set[int] = set()
        for number, (leaf, ending) in enumerate(zip(leaves, endings, strict=True)):
            index = _index(begin, number)
            if origin.index is None:
                named = digest("imported", tree, content, str(number))
            else:
                named = trajectory_id(run.id, task.id, index, origin.attempt)
            places = self.walk(leaf)
            # What branches share was billed once: the first of them that passes a turn bears its cost.
            usage = sum((nodes[place].usage for place in places if place not in billed), NO_USAGE)
            billed.update(places)
            path = [nodes[place] for place in places]
            trajectories.append(_trajectory(named, origin, task, tree, index, path, ending, usage))
        return Bundle(
            run=run, tasks=(task,), trajectories=tuple(trajectories), nodes=tuple(nodes), blobs=dict(self.blobs)
        )

    def _nodes(self, run_id: str, tree: str, slots: list[str]) -> list[Node]:
        nodes: list[Node] = []
        taken: set[str] = set()
        for place, twig in enumerate(self.twigs):
            parent = None if twig.parent == ROOT else nodes[twig.parent]
            turn = twig.turn
            own = node_id(tree, parent.id if parent else None, twig.author, turn.message, turn.tools, slots[place])
            while own in taken:  # the same words twice under one parent, which the file keeps apart
                own = digest(own, str(place))
            taken.add(own)
            nodes.append(
                Node(
                    id=own,
                    run_id=run_id,
                    tree_id=tree,
                    parent_id=parent.id if parent else None,
                    depth=parent.depth + 1 if parent else 0,
                    author=twig.author,
                    message=turn.message,
                    slot=slots[place],
                    tools=turn.tools,
                    tokens=turn.tokens,
                    model=turn.model,
                    finish_reason=twig.finish_reason,
                    reward=twig.reward,
                    usage=turn.usage,
                    started=turn.started,
                    attributes=turn.attributes,
                )
            )
        return nodes

    def _slots(self, leaves: list[int], begin: int, attempt: int) -> list[str]:
        """The slot of every place: that of the first trajectory that passes it, "" before the first sampled turn."""
        slots: dict[int, str] = {}
        for number, leaf in enumerate(leaves):
            sampled = False
            for place in self.walk(leaf):
                sampled = sampled or self.twigs[place].author is Author.POLICY
                slots.setdefault(place, slot(_index(begin, number), attempt) if sampled else "")
        return [slots[place] for place in range(len(self.twigs))]


def _trajectory(
    own: str, origin: Origin, task: Task, tree: str, index: int, path: list[Node], ending: Ending, usage: Usage
) -> Trajectory:
    return Trajectory(
        id=own,
        run_id=origin.run.id,
        tree_id=tree,
        task_id=task.id,
        env=task.env,
        index=index,
        attempt=origin.attempt,
        seed=0,
        leaf_id=path[-1].id if path else None,
        outcome=ending.outcome,
        agent=ending.agent,
        model=ending.model or next((node.model for node in path if node.model), ""),
        turns=len(turns_on(path)),
        reward=sum(node.reward or 0.0 for node in path),
        usage=usage if ending.usage is None else ending.usage,
        started=next((node.started for node in path if node.started), ending.started or ending.finished),
        finished=ending.finished or max((node.started for node in path), default=0.0),
        attributes=ending.attributes,
    )


def sameness(message: Message) -> tuple[Any, ...]:
    """What two tellings of one message agree in: its words and calls, not its thoughts or how JSON was laid out."""
    shown = (_shown(part) for part in message.parts if not isinstance(part, ThinkingPart))
    calls = tuple((call.id, call.name, _canonical(call)) for call in message.tool_calls)
    return message.role, tuple(words for words in shown if words), calls, message.tool_call_id


def _shown(part: TextPart | ImagePart | OtherPart) -> str:
    if isinstance(part, TextPart):
        return part.text.strip()
    return part.hash if isinstance(part, ImagePart) else json.dumps(part.written, sort_keys=True)


def _canonical(call: ToolCall) -> str:
    try:
        return json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return call.arguments


def _place(salt: str, content: str) -> int:
    """The first place in the group: the session's, so that it stays where the session goes on, else the content's."""
    return int((digest(salt) if salt else content)[:8], 16) >> 1


def _index(begin: int, number: int) -> int:
    return (begin + number) & 0x7FFFFFFF
