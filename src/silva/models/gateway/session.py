"""A session: one rollout at the gateway. It places each request on the tree and turns each reply into nodes.

    Asked ─▶ match ─▶ Place (entry reached, what is new, exact ids so far) ─▶ … ─▶ Completion ─▶ grow ─▶ Nodes

A request that repeats a conversation continues it; one that asks the same again makes a sibling; one that rewrites
earlier turns (a compacted context, an edit) branches where the words part, with a link to the turn at every copy of a
reply that stands there (`silva.tree.copies`), so that it stays one conversation; other opening words (a sub-agent)
begin another walk in the same tree. A *repeated* request, one whose first answer was recorded but may not have arrived,
gets that answer again and makes no node.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from silva.models.gateway.allowance import Allowance
from silva.models.gateway.attempts import Answer, Attempt
from silva.models.gateway.entry import Entry
from silva.models.gateway.index import TreeIndex, own_slot, tools_key
from silva.models.gateway.keys import Key, message_key
from silva.models.gateway.place import Place
from silva.models.gateway.problem import Problem
from silva.models.gateway.rollout import Rollout
from silva.models.gateway.witness import Witness
from silva.models.model import Completion
from silva.tree import (
    NO_USAGE,
    Author,
    Message,
    Node,
    Outcome,
    Tokens,
    Tool,
    Trajectory,
    node_id,
)
from silva.tree.copies import REPEATS, REWRITES, copy_of
from silva.tree.exact import node_tokens

MOST_REMEMBERED = 1024
"""Answers a session can find again: for requests that are repeated, or go on from a response by its name."""
MOST_LEAVES = 1000
"""Ends of walks that a trajectory names, the latest."""


class Session:
    """One rollout: its place in the tree, the index (shared by the rollouts of its task) and its answered requests.

    `stale`: the lake failed since it was made, so what it takes for kept may not be; it must not be built upon.
    """

    def __init__(self, rollout: Rollout, index: TreeIndex, allowance: Allowance | None = None) -> None:
        self.rollout = rollout
        self.allowance = allowance or Allowance(rollout.most_turns, rollout.most_tokens)
        self.key = rollout.trajectory_id
        self.turns = 0
        self.usage = NO_USAGE
        self.models: set[str] = set()
        self.versions: set[str] = set()
        self.started = time.time()
        self.used = time.monotonic()
        """When its agent last asked for something."""
        self.last: tuple[str, str] | None = None
        """The node sampled last, and the root of its conversation."""
        self.stale = False
        self.problem: Problem | None = None
        self.witness: Witness | None = None
        self.beside: list[Node] = []
        """Nodes to be written with the turn that was grown last, which no conversation goes through."""
        self._index = index
        self._slot = rollout.slot
        self._tree = index.tree_id
        self._leaves: dict[str, str] = {}
        self._answered: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """The reply to a request, and what was asked (see `Attempt.words`)."""
        self._by_reply: OrderedDict[str, str] = OrderedDict()
        self.in_flight: dict[str, list[Attempt]] = {}
        """By what was asked: the same may be asked many times at once."""
        self.settling: set[str] = set()
        """Replies whose turn was sent on its way to disk and was not seen to arrive."""
        self._roots: dict[str, int] = {}

    def match(self, messages: Sequence[Message], tools: tuple[Tool, ...]) -> Place:
        """Where a request stands."""
        keys = tuple(map(message_key, messages))
        key = tools_key(tools)
        entry, covered = self._index.match(self._slot, keys, key)
        rest = [message for message, _ in self._told(messages, keys, entry, covered)]
        if entry is None:
            return Place(tuple(rest), keys)
        recorded = (_as_recorded(step.message, given) for step, given in zip(entry.walk(), messages, strict=False))
        return Place((*recorded, *rest), keys, (self._index, entry), key)

    def _told(
        self, messages: Sequence[Message], keys: Sequence[Key], entry: Entry | None, covered: int
    ) -> Iterable[tuple[Message, dict[str, Any]]]:
        """What a request says beyond what is on the tree, as the model is told it, each with the attributes of its
        node. Of the policy's replies that the client did not send back in their place those that still say the same
        are told as they were sampled; of the others the client's words count. Both are linked to what was sampled."""
        spoke = None if entry is None else entry.spoke
        before = "" if spoke is None else spoke.stands_for
        for place in range(covered, len(messages)):
            message, key = messages[place], keys[place]
            linked: dict[str, Any] = {}
            if key.loose is not None:
                first = place == covered
                found = self._index.original(self._slot, message, key, entry, before, placed=first)
                if found is not None:
                    before = found.entry.id
                    again = found.same and place < len(messages) - 1
                    message = _as_recorded(found.entry.message, message) if again else message
                    linked = {REPEATS if again else REWRITES: before}
            yield message, linked

    def lacks(self, messages: Sequence[Message], keys: Sequence[Key], tools: tuple[Tool, ...]) -> bool:
        """Whether part of a conversation may have been dropped from memory: then `recall` it before going on."""
        if not self._index.partial:
            return False
        _, covered = self._index.match(self._slot, keys, tools_key(tools))
        return any(message.role == "assistant" for message in messages[covered:])

    def recall(self, nodes: Iterable[Node]) -> None:
        """Take what the lake holds of the tree into memory again."""
        self._index.load(nodes)

    def conversation(self, reply: str) -> tuple[Message, ...] | None:
        """The messages up to and with the reply of that id, or None where there is no such reply."""
        entry = self._index.entries.get(self._by_reply.get(reply, ""))
        return None if entry is None else tuple(step.message for step in entry.walk())

    def dropped(self, reply: str) -> bool:
        """Whether the conversation with the reply of that id was dropped from memory: then `recall` it."""
        return self._index.partial and reply in self._by_reply

    def tokens_until(self, reply: str) -> int:
        """How many tokens the conversation up to and with the reply of that id has; 0 where that is not known."""
        entry = self._index.entries.get(self._by_reply.get(reply, ""))
        return 0 if entry is None else entry.node.usage.prompt_tokens + entry.node.usage.completion_tokens

    def grow(
        self,
        messages: Sequence[Message],
        keys: Sequence[Key],
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
        self.beside = []
        started = now - completion.usage.model_seconds
        spoke = "" if entry is None or entry.spoke is None else entry.spoke.id
        for message, linked in self._told(messages, keys, entry, covered):
            sampled_before = sampled_before or bool(linked)
            own = self._slot if sampled_before else ""
            changed = tools if key != in_force else None
            author, marks = Author.ENVIRONMENT, linked
            seen = self.witness(message, spoke) if self.witness is not None and not linked else None
            if seen is not None:
                author, marks = seen.author, seen.attributes
                if seen.original is not None:
                    said = self._node(parent, depth, Author.ENVIRONMENT, seen.original, own, changed, started=started)
                    self.beside.append(msgspec.structs.replace(said, attributes=seen.beside))
                    marks = {**marks, seen.link: said.id}
            node = self._node(parent, depth, author, message, own, changed, started=started, attributes=marks)
            nodes.append(node)
            parent, depth, in_force = node.id, depth + 1, key
        tokens, extra = self._tokens(entry, completion)
        changed = tools if key != in_force else None
        place, made = self._fresh(parent, completion.message, changed)
        reply = self._node(
            parent,
            depth,
            Author.POLICY,
            completion.message,
            place,
            changed,
            made,
            started=started,
            tokens=tokens,
            model=completion.model,
            policy_version=completion.policy_version,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
            attributes={**completion.attributes, **attributes, **extra},
        )
        nodes.append(reply)
        return nodes

    def keep(self, nodes: Sequence[Node], written: Sequence[bytes], keys: Sequence[Key]) -> None:
        """Take in nodes that are on their way to disk, `written` so; the last is the reply. `keys` are those of the
        whole request."""
        entry: Entry | None = None
        for node, data in zip(nodes, written, strict=True):
            parent = self._index.entries.get(node.parent_id) if node.parent_id is not None else None
            known = node.depth < len(keys) and not copy_of(node)  # of a copy the recorded words may stand there
            entry = self._index.add(node, data, parent, keys[node.depth] if known else None)
        if entry is not None:
            self._index.move_on(entry, nodes[-1])
            self._turn(entry, nodes[-1])

    def answered(self, request: str) -> Answer | None:
        """What a repeated request was answered last, or None."""
        return self.answer(self._answered.get(request, ("", ""))[0])

    def words(self, request: str) -> str:
        """The digest of what was asked under a key ("" where nothing was, or that is not known)."""
        at_work = self.in_flight.get(request)
        return at_work[-1].words if at_work else self._answered.get(request, ("", ""))[1]

    def answer(self, reply: str) -> Answer | None:
        """The answer of that id, or None where it was not kept."""
        entry = self._index.entries.get(self._by_reply.get(reply, ""))
        return None if entry is None else Answer(completion=self._restored(entry), reply=reply)

    def begin(self, attempt: Attempt) -> None:
        """A request is at work; `end` it in any case."""
        self.in_flight.setdefault(attempt.request, []).append(attempt)

    def end(self, attempt: Attempt) -> None:
        """A request is done, one way or the other; who joined it is told."""
        at_work = self.in_flight[attempt.request]
        at_work.remove(attempt)
        if not at_work:
            del self.in_flight[attempt.request]
        if not attempt.answer.done():
            attempt.answer.cancel()

    def load(self, nodes: Iterable[Node]) -> None:
        """Go on from what the lake holds of this rollout."""
        stored = sorted(nodes, key=lambda node: (node.started, node.depth))
        self._index.load(stored)
        for node in stored:
            entry = self._index.entries.get(node.id)
            if entry is not None and node.author is Author.POLICY and own_slot(node.slot) == self._slot:
                self._turn(entry, node)
        self.allowance.restore(self.turns, self.usage)

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
            leaf_id=leaf,
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
    def leaf(self) -> str | None:
        """The last turn sampled in the main conversation: the one with most turns, or a later one of at least two."""
        if self.last is None:
            return None
        most = max(self._roots.values())
        for leaf, root in reversed(self._leaves.items()):
            if self._roots[root] >= min(most, 2):
                return leaf
        return self.last[0]

    @property
    def leaves(self) -> list[str]:
        """The last node of every walk that ends in a sampled turn, in the order they were reached; the latest of them
        where they are many."""
        return list(self._leaves)[-MOST_LEAVES:]

    def _turn(self, entry: Entry, node: Node) -> None:
        before = None if entry.parent is None else entry.parent.turn
        if before is not None:  # it is no leaf any more
            self._leaves.pop(before.id, None)
        root = entry.talk
        self._leaves.pop(entry.id, None)
        self._leaves[entry.id] = root
        self._roots[root] = self._roots.get(root, 0) + 1
        self.last = (entry.id, root)
        self.turns += 1
        self.usage = self.usage + node.usage
        self.models.add(node.model)
        if node.policy_version:
            self.versions.add(node.policy_version)
        request, reply = node.attributes.get("request", ""), node.attributes.get("reply", "")
        if request:
            _remember(self._answered, request, (reply, node.attributes.get("words", "")))
        if reply:
            _remember(self._by_reply, reply, entry.id)

    def _node(
        self,
        parent: str | None,
        depth: int,
        author: Author,
        message: Message,
        own_slot: str,
        tools: tuple[Tool, ...] | None,
        id: str = "",
        **fields: Any,
    ) -> Node:
        return Node(
            id=id or node_id(self._tree, parent, author, message, tools, own_slot),
            run_id=self.rollout.run_id,
            tree_id=self._tree,
            parent_id=parent,
            depth=depth,
            author=author,
            message=message,
            slot=own_slot,
            tools=tools,
            **fields,
        )

    def _fresh(self, parent: str | None, message: Message, tools: tuple[Tool, ...] | None) -> tuple[str, str]:
        """The slot and id of a reply; one with a sibling's words gets a slot of its own, being another sample."""
        place, count = self._slot, 1
        while (made := node_id(self._tree, parent, Author.POLICY, message, tools, place)) in self._index.entries:
            count += 1
            place = f"{self._slot}~{count}"
        return place, made

    def _tokens(self, entry: Entry | None, completion: Completion) -> tuple[Tokens | None, dict[str, Any]]:
        prompt = completion.prompt_ids
        seen = () if entry is None or not prompt else self._index.seen(entry)[0]
        return node_tokens(seen, prompt, completion.tokens)

    def _restored(self, entry: Entry) -> Completion:
        """A completion as it was, put together from its node."""
        node = entry.node
        tokens = node.tokens
        sampled = () if tokens is None else tokens.ids[len(tokens.ids) - tokens.sampled :]
        seen, _ = self._index.seen(entry)
        prompt = () if seen is None or not sampled else seen[: len(seen) - len(sampled)]
        own = Tokens(ids=sampled, sampled=len(sampled), logprobs=tokens.logprobs) if tokens and sampled else None
        return Completion(
            message=node.message,
            finish_reason=node.finish_reason,
            tokens=own,
            prompt_ids=prompt,
            logprobs=() if own is None else own.logprobs,
            usage=node.usage,
            model=node.model,
            policy_version=node.policy_version,
            extra=node.attributes.get("extra"),
            dialect=node.attributes.get("spoken", ""),
        )


def _remember(answers: OrderedDict[str, Any], name: str, answer: Any) -> None:
    answers[name] = answer
    if len(answers) > MOST_REMEMBERED:
        answers.popitem(last=False)


def _as_recorded(recorded: Message, given: Message) -> Message:
    """What was sampled, in place of what a client made of it; not where it gave the calls other names, by which later
    messages answer them."""
    same = [call.id for call in recorded.tool_calls] == [call.id for call in given.tool_calls]
    return recorded if same else given
