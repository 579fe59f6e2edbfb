"""A session: one rollout at the gateway. It places each request on the tree and turns each reply into nodes.

    Asked ─▶ match ─▶ Place (entry reached, what is new, exact ids so far) ─▶ … ─▶ Completion ─▶ grow ─▶ Nodes

A request that repeats a conversation continues it; one that asks the same again makes a sibling; one that rewrites
earlier turns (a compacted context, an edit) branches where the words part; other opening words (a sub-agent) begin
another walk in the same tree. A *repeated* request, one whose first answer was recorded but may not have arrived,
gets that answer again and makes no node.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from silva.models.gateway.index import Entry, TreeIndex, own_slot, tools_key
from silva.models.gateway.problem import Problem
from silva.models.model import Completion
from silva.tree import (
    NO_USAGE,
    Author,
    Message,
    Node,
    Outcome,
    Record,
    Tokens,
    Tool,
    Trajectory,
    Usage,
    added,
    node_id,
    slot,
    trajectory_id,
    tree_id,
)
from silva.tree.exact import ABSENT, RESTART

MOST_REPLIES = 64
"""Replies a session keeps whole for repeated requests; older ones are put together from their nodes."""


class Rollout(Record, frozen=True, kw_only=True):
    """Which rollout a session is: its run and name, and its place among the rollouts of its task."""

    run_id: str
    name: str
    task_id: str
    env: str = "gateway"
    index: int = 0
    attempt: int = 0
    seed: int = 0
    agent: str = ""

    @property
    def slot(self) -> str:
        """What its sampled nodes carry."""
        return slot(self.index, self.attempt)

    @property
    def tree_id(self) -> str:
        """The tree its task grows in this run."""
        return tree_id(self.run_id, self.task_id)

    @property
    def trajectory_id(self) -> str:
        """The id its trajectory will have."""
        return trajectory_id(self.run_id, self.task_id, self.index, self.attempt)


def rollout_of(trajectory: Trajectory) -> Rollout:
    """The rollout that a trajectory written by a gateway belongs to."""
    return Rollout(
        run_id=trajectory.run_id,
        name=str(trajectory.attributes.get("rollout", "main")),
        task_id=trajectory.task_id,
        env=trajectory.env,
        index=trajectory.index,
        attempt=trajectory.attempt,
        seed=trajectory.seed,
        agent=trajectory.agent,
    )


class Place(Record, frozen=True, kw_only=True, gc=True):
    """Where a request stands: `covered` of its messages are on the tree. `seen` are the exact ids up to the last
    sampled turn among them (None: not known), `said` the messages they stand for as they were recorded, not as the
    client repeats them; `same_tools`: they were said under the tools this request has. `keys` are the content keys of
    its messages, `messages` the request's with what is on the tree as it was recorded.
    """

    covered: int
    messages: tuple[Message, ...]
    keys: tuple[Hashable, ...] = ()
    seen: tuple[int, ...] | None = None
    said: tuple[Message, ...] = ()
    same_tools: bool = True


class Answer(Record, frozen=True, kw_only=True, gc=True):
    """What a request was answered; `reply` is the id the reply had."""

    completion: Completion
    reply: str


class Session:
    """One rollout: its place in the tree, the index (shared by the rollouts of its task) and its answered requests.

    `stale`: the lake failed since it was made, so what it takes for kept may not be; it must not be built upon.
    """

    def __init__(self, rollout: Rollout, index: TreeIndex) -> None:
        self.rollout = rollout
        self.key = rollout.trajectory_id
        self.turns = 0
        self.usage = NO_USAGE
        self.models: set[str] = set()
        self.versions: set[str] = set()
        self.started = time.time()
        self.touched = self.started
        self.last: Entry | None = None
        self.lost = 0
        self.stale = False
        self.most_turns: int | None = None
        self.problem: Problem | None = None
        self._index = index
        self._slot = rollout.slot
        self._tree = index.tree_id
        self._leaves: dict[str, Entry] = {}
        self._answered: dict[str, tuple[Entry, str]] = {}
        self._by_reply: dict[str, Entry] = {}
        self._replies: OrderedDict[str, Completion] = OrderedDict()
        self.in_flight: dict[str, asyncio.Future[Answer]] = {}
        self.undelivered: set[str] = set()
        self.settling: set[str] = set()
        """Requests whose turn was sent on its way to disk and was not seen to arrive."""
        self._roots: dict[str, int] = {}

    def match(self, messages: Sequence[Message], tools: tuple[Tool, ...]) -> Place:
        """Where a request stands."""
        keys = tuple(map(self._index.key, messages))
        key = tools_key(tools)
        entry, covered = self._index.match(self._slot, keys, key)
        if entry is None:
            return Place(covered=covered, keys=keys, messages=tuple(messages))
        recorded = (_as_recorded(step.message, given) for step, given in zip(entry.walk(), messages, strict=False))
        whole = (*recorded, *messages[covered:])
        seen, last = entry.seen()
        if not seen or last is None:
            return Place(covered=covered, keys=keys, messages=whole)
        said = tuple(step.message for step in last.walk())
        return Place(covered=covered, seen=seen, said=said, same_tools=last.tools == key, keys=keys, messages=whole)

    def conversation(self, reply: str) -> tuple[Message, ...] | None:
        """The messages up to and with the reply of that id, or None where there is no such reply."""
        entry = self._by_reply.get(reply)
        return None if entry is None else tuple(step.message for step in entry.walk())

    def grow(
        self,
        messages: Sequence[Message],
        keys: Sequence[Hashable],
        tools: tuple[Tool, ...],
        completion: Completion,
        attributes: dict[str, Any],
    ) -> list[Node]:
        """The nodes a completed turn adds: what the request said that is not on the tree, then the reply. They are to
        be written; `keep` takes them into the index once they are on their way."""
        now = time.time()
        key = tools_key(tools)
        entry, covered = self._index.match(self._slot, keys, key)
        parent, depth, in_force = (None, 0, "") if entry is None else (entry.id, entry.depth + 1, entry.tools)
        sampled_before = entry is not None and bool(entry.slot)
        nodes: list[Node] = []
        started = now - completion.usage.model_seconds
        for message in messages[covered:]:
            own = self._slot if sampled_before else ""
            changed = tools if key != in_force else None
            node = self._node(parent, depth, Author.ENVIRONMENT, message, own, changed, started=started)
            nodes.append(node)
            parent, depth, in_force = node.id, depth + 1, key
        tokens, extra = self._tokens(entry, completion)
        changed = tools if key != in_force else None
        usage = completion.usage
        reply = self._node(
            parent,
            depth,
            Author.POLICY,
            completion.message,
            self._fresh(parent, completion.message, changed),
            changed,
            started=started,
            tokens=tokens,
            model=completion.model,
            policy_version=completion.policy_version,
            finish_reason=completion.finish_reason,
            usage=usage,
            attributes={**completion.attributes, **attributes, **extra},
        )
        nodes.append(reply)
        return nodes

    def keep(self, nodes: Sequence[Node], keys: Sequence[Hashable], completion: Completion) -> None:
        """Take in nodes that are on their way to disk; the last is the reply. `keys` are those of the whole request."""
        entry: Entry | None = None
        for node in nodes:
            parent = self._index.entries.get(node.parent_id) if node.parent_id is not None else None
            entry = self._index.add(node, parent, keys[node.depth] if node.depth < len(keys) else None)
        if entry is not None:
            self._turn(entry, nodes[-1])
        request = nodes[-1].attributes.get("request", "")
        self._replies[request] = completion
        if len(self._replies) > MOST_REPLIES:
            self._replies.popitem(last=False)

    def answered(self, request: str) -> Answer | None:
        """What a repeated request was answered before, or None."""
        found = self._answered.get(request)
        if found is None:
            return None
        entry, reply = found
        return Answer(completion=self._replies.get(request) or self._restored(entry), reply=reply)

    def load(self, nodes: Iterable[Node]) -> None:
        """Go on from what the lake holds of this rollout."""
        stored = sorted(nodes, key=lambda node: (node.started, node.depth))
        self._index.load(stored)
        for node in stored:
            entry = self._index.entries.get(node.id)
            if entry is not None and node.author is Author.POLICY and own_slot(node.slot) == self._slot:
                self._turn(entry, node)

    def trajectory(self, outcome: Outcome, *, started_at: float | None = None, **fields: Any) -> Trajectory:
        """The record of this rollout as it stands: its leaf is the last turn of its main conversation."""
        leaf = self.leaf
        rollout = self.rollout
        return Trajectory(
            id=rollout.trajectory_id,
            run_id=rollout.run_id,
            tree_id=rollout.tree_id,
            task_id=rollout.task_id,
            env=rollout.env,
            index=rollout.index,
            attempt=rollout.attempt,
            seed=rollout.seed,
            leaf_id=None if leaf is None else leaf.id,
            outcome=outcome,
            agent=rollout.agent,
            model=", ".join(sorted(self.models)),
            policy_version=", ".join(sorted(self.versions)),
            turns=self.turns,
            usage=self.usage,
            started=self.started if started_at is None else started_at,
            finished=time.time(),
            **fields,
        )

    @property
    def leaf(self) -> Entry | None:
        """The last turn sampled in the main conversation: the one with most turns, or a later one of at least two."""
        if self.last is None:
            return None
        most = max(self._roots.values())
        for entry in reversed(self._leaves.values()):
            if self._roots[_root(entry).id] >= min(most, 2):
                return entry
        return self.last

    @property
    def leaves(self) -> list[str]:
        """The last node of every walk that ends in a sampled turn, in the order they were reached."""
        return list(self._leaves)

    def _turn(self, entry: Entry, node: Node) -> None:
        above = entry.parent
        while above is not None:  # the turn that this one goes on from is no leaf any more
            if above.sampled:
                self._leaves.pop(above.id, None)
                break
            above = above.parent
        self._leaves.pop(entry.id, None)
        self._leaves[entry.id] = entry
        root = _root(entry).id
        self._roots[root] = self._roots.get(root, 0) + 1
        self.last = entry
        self.turns += 1
        self.usage = self.usage + node.usage
        self.models.add(node.model)
        if node.policy_version:
            self.versions.add(node.policy_version)
        request, reply = node.attributes.get("request", ""), node.attributes.get("reply", "")
        if request:
            self._answered[request] = (entry, reply)
        if reply:
            self._by_reply[reply] = entry
        self.touched = time.time()

    def _node(
        self,
        parent: str | None,
        depth: int,
        author: Author,
        message: Message,
        own_slot: str,
        tools: tuple[Tool, ...] | None,
        **fields: Any,
    ) -> Node:
        tree = self._index.tree_id
        return Node(
            id=node_id(tree, parent, author, message, tools, own_slot),
            run_id=self.rollout.run_id,
            tree_id=tree,
            parent_id=parent,
            depth=depth,
            author=author,
            message=message,
            slot=own_slot,
            tools=tools,
            **fields,
        )

    def _fresh(self, parent: str | None, message: Message, tools: tuple[Tool, ...] | None) -> str:
        """The slot of a reply. One with the words of a sibling gets a slot of its own, as two samples are two nodes."""
        tree, place = self._index.tree_id, self._slot
        count = 1
        while node_id(tree, parent, Author.POLICY, message, tools, place) in self._index.entries:
            count += 1
            place = f"{self._slot}~{count}"
        return place

    def _tokens(self, entry: Entry | None, completion: Completion) -> tuple[Tokens | None, dict[str, Any]]:
        sampled = completion.tokens
        if sampled is None or not completion.prompt_ids:
            return None, {"tokens": ABSENT}
        seen = () if entry is None else entry.seen()[0]
        tokens, restart = added(seen, completion.prompt_ids, sampled)
        return tokens, {"tokens": RESTART} if restart else {}

    def _restored(self, entry: Entry) -> Completion:
        tokens = entry.tokens
        sampled = None if tokens is None else tokens.ids[len(tokens.ids) - tokens.sampled :]
        seen, _ = entry.seen()
        prompt = () if seen is None or sampled is None else seen[: len(seen) - len(sampled)]
        own = Tokens(ids=sampled, sampled=len(sampled), logprobs=tokens.logprobs) if tokens and sampled else None
        return Completion(
            message=entry.message,
            finish_reason="tool_calls" if entry.message.tool_calls else "stop",
            tokens=own,
            prompt_ids=prompt,
            usage=Usage(prompt_tokens=len(prompt), completion_tokens=len(sampled or ())),
        )


def _as_recorded(recorded: Message, given: Message) -> Message:
    """What was sampled, in place of what a client made of it; not where it gave the calls other names, by which later
    messages answer them."""
    same = [call.id for call in recorded.tool_calls] == [call.id for call in given.tool_calls]
    return recorded if same else given


def _root(entry: Entry) -> Entry:
    while entry.parent is not None:
        entry = entry.parent
    return entry
