"""The growing end of one trajectory: turns become nodes, nodes become durable, and nothing is written twice.

    observation ─▶ nodes (pending) ─┐
    turn        ─▶ policy node ─────┴─▶ one append, under way while the environment steps ─▶ durable before the next

A policy node is in the journal before the model is asked again. The nodes of an observation travel with the next policy
node: should the process die between, stepping the stored action gives them again. A resumed path starts with `stored`
nodes; observations that no longer hash to the stored ids are a divergence.

The reward of an observation stands on its last node. One without messages, as the last of an episode often is, has no
node: its reward is in the trajectory's sum alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from silva.envs.protocol import Observation
from silva.rollout.agent import Turn
from silva.tree import (
    NO_USAGE,
    AnyRecord,
    Author,
    Message,
    Node,
    Tokens,
    Tool,
    Usage,
    added,
    node_id,
)
from silva.tree.exact import COMPLETION, RESTART, seen_after


class Journal(Protocol):
    """Where records go: durable when the future of `submit` is done."""

    def submit(self, records: Sequence[AnyRecord]) -> asyncio.Future[None]:
        """Send the records on their way; the future is done once they are on disk."""
        ...


class Diverged(Exception):
    """A resumed environment did not repeat what it said before."""


class Path:
    """One walk under construction.

    `written` is the set of node ids of this tree that are in the lake or on their way there, shared by the group.
    """

    def __init__(
        self, store: Journal, run_id: str, tree_id: str, slot: str, written: set[str], stored: Iterable[Node] = ()
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._tree_id = tree_id
        self._slot = slot
        self._written = written
        self._stored = sorted(stored, key=lambda node: node.depth)
        self._stored_at = {node.depth: node for node in self._stored}
        self._pending: list[AnyRecord] = []
        self._in_flight: asyncio.Future[None] | None = None
        self._seen: list[int] | None = []
        self._actions: list[Node] = []
        self.messages: list[Message] = []
        self.tools: tuple[Tool, ...] = ()
        self.leaf: Node | None = None
        self.turns = 0
        self.reward = 0.0
        self.usage = NO_USAGE

    @property
    def remembered(self) -> Node | None:
        """The stored policy node that comes next, if this path is being resumed and has one."""
        node = self._stored_at.get(len(self.messages))
        return node if node is not None and node.author is Author.POLICY else None

    def observe(self, observation: Observation, seconds: float) -> None:
        """Add what the environment said. `seconds` is how long it took.

        Raises:
            Diverged: a stored observation at this place has other content.
        """
        slot = self._slot if self.turns else ""
        last = len(observation.messages) - 1
        for place, message in enumerate(observation.messages):
            first = place == 0
            node = self._node(
                Author.ENVIRONMENT,
                message,
                slot,
                tools=observation.tools if first else None,
                reward=observation.reward if place == last else None,
                usage=Usage(env_seconds=seconds) if first else NO_USAGE,
                risks=observation.risks if place == last else (),
                attributes=observation.attributes if place == last else {},
            )
            expected = self._stored_at.get(node.depth)
            if expected is not None and expected.id != node.id:
                raise Diverged(f"at message {node.depth}: stored {_shown(expected)}, now {_shown(node)}")
            if node.id not in self._written:
                self._written.add(node.id)
                self._pending.append(node)
            self._advance(node)
        if observation.tools is not None:
            self.tools = observation.tools
        if observation.reward is not None:
            self.reward += observation.reward
        self.usage = self.usage + Usage(env_seconds=seconds)

    def act(self, turn: Turn, started: float) -> None:
        """Add the policy's turn and send it, with what is pending, on its way to the journal."""
        tokens, attributes = self._exact_tokens(turn)
        node = self._node(
            Author.POLICY,
            turn.message,
            self._slot,
            tokens=tokens,
            model=turn.model,
            policy_version=turn.policy_version,
            finish_reason=turn.finish_reason,
            usage=turn.usage,
            started=started,
            attributes={**turn.attributes, **attributes},
        )
        self._written.add(node.id)
        self._pending.append(node)
        self._advance(node)
        self.turns += 1
        self.usage = self.usage + turn.usage
        self._send()

    def take_up(self, walk: Iterable[Node]) -> None:
        """Begin in the middle: the nodes of another walk, root first, are what has been said so far. They cost this
        path nothing."""
        for node in walk:
            self._written.add(node.id)
            self._advance(node)
            if node.tools is not None:
                self.tools = node.tools
            self.turns += node.author is Author.POLICY
            self.reward += node.reward or 0.0

    def interject(self, message: Message, attributes: dict[str, object] | None = None) -> Node:
        """Add what a person says; it travels with the next turn."""
        node = self._node(Author.PERSON, message, self._slot, attributes=attributes or {})
        if node.id not in self._written:
            self._written.add(node.id)
            self._pending.append(node)
        self._advance(node)
        return node

    def recall_words(self) -> None:
        """Take again what people said here before this path was cut off."""
        while (node := self._stored_at.get(len(self.messages))) is not None and node.author is Author.PERSON:
            self._advance(node)

    def note(self, record: AnyRecord) -> None:
        """Let a record travel with the next turn."""
        self._pending.append(record)

    def action(self, turn: int) -> Node | None:
        """The policy's node of a turn, from 1; 0 is the last. None where there is none."""
        return self._actions[turn - 1] if 0 <= turn <= len(self._actions) and self._actions else None

    @property
    def markable(self) -> bool:
        """Whether the last node is the environment's, has no snapshot, and can still be given one."""
        leaf = self.leaf
        return (
            leaf is not None
            and leaf.author is Author.ENVIRONMENT
            and not leaf.snapshot_id
            and bool(self._pending)
            and self._pending[-1] is leaf
        )

    def mark(self, snapshot_id: str, attributes: dict[str, object]) -> None:
        """Say on the last node, which must be `markable`, which snapshot was taken after it."""
        assert self.markable and self.leaf is not None
        marked = msgspec.structs.replace(
            self.leaf, snapshot_id=snapshot_id, attributes={**self.leaf.attributes, **attributes}
        )
        self._pending[-1] = self.leaf = marked

    def remember(self, node: Node) -> None:
        """Take a stored turn again, without asking the model."""
        self._advance(node)
        self.turns += 1
        self.usage = self.usage + node.usage

    def waited(self, seconds: float) -> None:
        """Count time spent on a model that gave no turn."""
        self.usage = self.usage + Usage(model_seconds=seconds)

    async def durable(self) -> None:
        """Wait until what was sent is on disk.

        Raises:
            StoreError: the lake could not keep it.
        """
        if self._in_flight is not None:
            in_flight, self._in_flight = self._in_flight, None
            await in_flight

    async def finish(self, *records: AnyRecord) -> None:
        """Write what is pending and `records`, and wait until all of it is on disk."""
        self._pending.extend(records)
        await self.durable()
        self._send()
        await self.durable()

    def _send(self) -> None:
        if self._pending:
            batch, self._pending = self._pending, []
            self._in_flight = self._store.submit(batch)

    def _advance(self, node: Node) -> None:
        self.messages.append(node.message)
        if node.author is Author.POLICY:
            self._actions.append(node)
        self.leaf = node
        self._seen = seen_after(self._seen, node)

    def _node(
        self,
        author: Author,
        message: Message,
        slot: str,
        *,
        tools: tuple[Tool, ...] | None = None,
        started: float | None = None,
        **fields: object,
    ) -> Node:
        parent = self.leaf.id if self.leaf else None
        return Node(
            id=node_id(self._tree_id, parent, author, message, tools, slot),
            run_id=self._run_id,
            tree_id=self._tree_id,
            parent_id=parent,
            depth=len(self.messages),
            author=author,
            message=message,
            slot=slot,
            tools=tools,
            started=time.time() if started is None else started,
            **fields,  # pyright: ignore[reportArgumentType]
        )

    def _exact_tokens(self, turn: Turn) -> tuple[Tokens | None, dict[str, object]]:
        """The ids this turn added so that ids along the walk concatenate to what the model saw.

        Where a template rewrote earlier turns the prompt is no continuation; the node then holds the whole context and
        says `restart`. Where the backend did not say what it saw, exactness is lost and the node says `completion`.
        """
        sampled = turn.tokens
        if sampled is None:
            return None, {}
        if not turn.prompt_ids:
            return sampled, {"tokens": COMPLETION}
        tokens, restart = added(self._seen, turn.prompt_ids, sampled)
        return tokens, {"tokens": RESTART} if restart else {}


def _shown(node: Node) -> str:
    text = node.message.text.replace("\n", " ")
    return repr(text[:60] + ("…" if len(text) > 60 else ""))
