"""The growing end of one trajectory: turns become nodes, nodes become durable, and nothing is written twice.

    observation ─▶ nodes (pending) ─┐
    turn        ─▶ policy node ─────┴─▶ one append, under way while the environment steps ─▶ durable before the next

A policy node is in the journal before the model is asked again. The nodes of an observation travel with the next policy
node: should the process die between, stepping the stored action gives them again. A resumed path starts with `stored`
nodes; observations that no longer hash to the stored ids are a divergence.

What a stage shows in the environment's place stands on the walk, marked `rewrites`; what the environment said stands
beside it, marked `rewritten`. A resumed path compares the environment with that, and shows again what was shown.

The reward of an observation stands on its last node. One without messages, as the last of an episode often is, has no
node: its reward is in the trajectory's sum alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import msgspec

from silva.envs.protocol import Observation
from silva.rollout.agent import Turn
from silva.rollout.guided_nodes import (
    ADDED,
    BESIDE,
    REFUSED,
    REFUSES,
    REWRITES,
    REWRITTEN,
    answers,
    takes_turn,
)
from silva.rollout.journal import Journal
from silva.rollout.shown import Shown
from silva.rollout.stored import Stored, in_words
from silva.rollout.summary import made_at
from silva.tree import (
    NO_USAGE,
    AnyRecord,
    Author,
    Json,
    Message,
    Node,
    Tokens,
    Tool,
    Usage,
    node_id,
    tool_result,
    user,
)
from silva.tree.exact import node_tokens, seen_after, seen_ids


class Diverged(Exception):
    """A resumed environment did not repeat what it said before."""


class Path:
    """One walk under construction.

    `written`: ids of this tree's nodes that are in the lake or on their way there, shared by the group.
    """

    def __init__(
        self, store: Journal, run_id: str, tree_id: str, slot: str, written: set[str], stored: Iterable[Node] = ()
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._tree_id = tree_id
        self._slot = slot
        self._written = written
        self._stored = Stored(stored)
        self.summaries = self._stored.summaries
        self._pending: list[AnyRecord] = []
        self._in_flight: asyncio.Future[None] | None = None
        self._seen: list[int] | None = []
        self._actions: list[Node] = []
        self.messages: list[Message] = []
        self.walk: list[Node] = []
        self.tools: tuple[Tool, ...] = ()
        self.leaf: Node | None = None
        self.turns = 0
        self.reward = 0.0
        self.usage = NO_USAGE

    @property
    def remembered(self) -> Node | None:
        """The stored action that comes next, if this path is being resumed and has one."""
        node = self._stored.at(len(self.messages))
        return node if node is not None and takes_turn(node) else None

    @property
    def followed(self) -> Node | None:
        """The stored node that comes next, whoever wrote it."""
        return self._stored.at(len(self.messages))

    @property
    def refused(self) -> bool:
        """Whether the last node is a stored action that was not taken."""
        leaf, behind = self.leaf, self.followed
        if leaf is None or not takes_turn(leaf):
            return False
        return REFUSED in leaf.attributes or (behind is not None and REFUSES in behind.attributes)

    def beside_it(self, slot: str, stored: Iterable[Node] = ()) -> Path:
        """A walk of another agent of the same episode, with a root of its own in the same tree."""
        return Path(self._store, self._run_id, self._tree_id, slot, self._written, stored)

    def observe(
        self, observation: Observation, seconds: float, shown: Shown | None = None, voice: Author = Author.ENVIRONMENT
    ) -> None:
        """Add what the environment said. `seconds` is how long it took; `shown`, where stages looked at it, what the
        agent is shown; `voice` is whose words its last message is.

        Raises:
            Diverged: a stored observation at this place has other content.
        """
        slot = self._slot if self.turns else ""
        said, writers = observation, shown.writers if shown else {}
        observation, cost = shown.observation if shown else observation, Usage(env_seconds=seconds)
        last = len(observation.messages) - 1
        for place, message in enumerate(observation.messages):
            first, writer = place == 0, writers.get(place)
            own = voice if place == len(said.messages) - 1 else Author.ENVIRONMENT
            marks: dict[str, object] = {}
            if writer is not None and place < len(said.messages):
                tools, beside = said.tools if first else None, {REWRITTEN: writer.stage}
                original = self._node(own, said.messages[place], slot, tools=tools, attributes=beside)
                self._add(original)
                marks = {REWRITES: original.id, "by": writer.stage}
            elif writer is not None:
                marks = {ADDED: writer.stage}
            node = self._node(
                own if writer is None else writer.author,
                message,
                slot,
                tools=observation.tools if first else None,
                reward=observation.reward if place == last else None,
                usage=cost if first else NO_USAGE,
                risks=observation.risks if place == last else (),
                attributes={**(observation.attributes if place == last else {}), **marks},
            )
            expected = self._stored.at(node.depth)
            if expected is not None:
                if node.id != expected.attributes.get(REWRITES, expected.id):
                    raise Diverged(f"at message {node.depth}: stored {in_words(expected)}, now {in_words(node)}")
                node = expected
            self._add(node)
            self._advance(node)
            self.tools = self.tools if node.tools is None else node.tools
        if observation.tools is not None and not observation.messages:
            self.tools = observation.tools
        if observation.reward is not None:
            self.reward += observation.reward
        self.usage = self.usage + cost

    def act(self, turn: Turn, started: float, *, hold: bool = False) -> Node:
        """Add the policy's turn and send it, with what is pending, on its way to the journal; `hold` leaves it pending
        until `send`, for what must not be kept without it."""
        node = self._drawn(turn, started)
        self._written.add(node.id)
        self._pending.append(node)
        self._advance(node)
        self.turns += 1
        self.usage = self.usage + turn.usage
        if not hold:
            self.send()
        return node

    def beside(self, candidates: Iterable[tuple[Turn, float]], chosen: Turn) -> None:
        """Keep the candidates that were not chosen, as siblings of the one that is about to be taken; all of them were
        paid for. One that says what the chosen one says is the same node, so it is not kept twice."""
        for turn, started in candidates:
            self.usage = self.usage + turn.usage
            if turn.message != chosen.message:
                self.aside(turn, started)

    def aside(self, turn: Turn, started: float, answer: Observation | None = None) -> None:
        """Keep a candidate beside the one that is taken, and what a copy of the environment answered; not its cost."""
        behind = self._drawn(msgspec.structs.replace(turn, attributes={**turn.attributes, BESIDE: True}), started)
        self._add(behind)
        said = answer or Observation()
        for place, message in enumerate(said.messages, 1):
            last = place == len(said.messages)
            marks = {**(said.attributes if last else {}), BESIDE: True}
            end = {"reward": said.reward, "risks": said.risks} if last else {}
            tools = said.tools if place == 1 else None
            behind = self._node(
                Author.ENVIRONMENT, message, self._slot, behind=behind, tools=tools, attributes=marks, **end
            )
            self._add(behind)

    def act_for(self, turn: Turn, attributes: dict[str, object]) -> Node:
        """Add an action that a person takes in the policy's place, with ids if it has any; pending until `send`."""
        tokens, told = node_tokens(self._seen, turn.prompt_ids, turn.tokens) if turn.tokens else (None, {})
        node = self.interject(turn.message, {**turn.attributes, **attributes, **told}, tokens=tokens)
        self.turns += 1
        return node

    def set_aside(self) -> Node:
        """Step back over the last action, which was never taken: it stays in the tree, beside what comes in its place.
        What it cost stays counted."""
        action = self.walk.pop()
        self.messages.pop()
        self._actions.pop()
        self.turns -= 1
        self.leaf = self.walk[-1] if self.walk else None
        self._seen = seen_ids(self.walk)
        return action

    def take_up(self, walk: Iterable[Node]) -> None:
        """Begin in the middle: the nodes of another walk, root first, are what has been said so far. They cost this
        path nothing."""
        for node in walk:
            self._written.add(node.id)
            self._advance(node)
            if node.tools is not None:
                self.tools = node.tools
            self.turns += takes_turn(node)
            self.reward += node.reward or 0.0

    def interject(
        self,
        message: Message,
        attributes: dict[str, object] | None = None,
        author: Author = Author.PERSON,
        tokens: Tokens | None = None,
    ) -> Node:
        """Add what a person (or another author) says; it travels with the next turn."""
        node = self._node(author, message, self._slot, attributes=attributes or {}, tokens=tokens)
        self._add(node)
        self._advance(node)
        return node

    def answer(self, action: Node, why: str, author: Author = Author.PERSON) -> None:
        """Answer an action that was not taken, in the environment's place; memory's answer is what was asked for."""
        text = why if author is Author.MEMORY else f"Not done. {why}."
        calls = action.message.tool_calls
        for message in [tool_result(call.id, text, call.name) for call in calls] or [user(text)]:
            self.interject(message, {REFUSES: action.id}, author)

    def recall(self) -> None:
        """Take again what people and stages said here before this path was cut off."""
        while (node := self.followed) is not None and not answers(node) and not takes_turn(node):
            self._advance(node)

    def note(self, record: AnyRecord) -> None:
        """Let a record travel with the next turn."""
        self._pending.append(record)

    def action(self, turn: int) -> Node | None:
        """The action of a turn, from 1; 0 is the last. None where there is none."""
        return self._actions[turn - 1] if 0 <= turn <= len(self._actions) and self._actions else None

    def turn_of(self, node_id: str) -> int:
        """Which turn an action is, from 1; 0 where it is none of this walk."""
        return next((turn for turn, node in enumerate(self._actions, 1) if node.id == node_id), 0)

    @property
    def markable(self) -> bool:
        """Whether the last node is the environment's, has no snapshot, and can still be given one."""
        leaf = self.leaf
        return (
            leaf is not None
            and (answers(leaf) or ADDED in leaf.attributes)
            and not leaf.snapshot_id
            and any(record is leaf for record in self._pending)  # behind it may stand candidates
        )

    def mark(self, snapshot_id: str, attributes: dict[str, object]) -> None:
        """Say on the last node, which must be `markable`, which snapshot was taken after it."""
        assert self.markable and self.leaf is not None
        marked = msgspec.structs.replace(
            self.leaf, snapshot_id=snapshot_id, attributes={**self.leaf.attributes, **attributes}
        )
        self._pending = [marked if record is self.leaf else record for record in self._pending]
        self.walk[-1] = self.leaf = marked

    def remember(self, node: Node) -> None:
        """Take a stored turn again, without asking the model."""
        self._advance(node)
        self.turns += 1
        self.usage = self.usage + self._stored.cost(node)

    async def summarise(self, end: int, turn: Turn, started: float, attributes: dict[str, object]) -> None:
        """Add a summary of the first `end` nodes as a branch behind them. It is durable on return, or, where what it
        stands behind is not yet, travels with the next turn."""
        behind = self.walk[end - 1]
        seen = seen_ids(self.walk[:end])
        node = self._made(Author.SUMMARISER, turn, started, seen, attributes, behind)
        self.summaries.update(made_at([node]))
        self.usage = self.usage + turn.usage
        if node.id in self._written:
            return
        self._written.add(node.id)
        if any(record is behind for record in self._pending):
            self._pending.append(node)
            return
        await self.durable()
        self._in_flight = self._store.submit([node])
        await self.durable()

    @property
    def seen(self) -> int | None:
        """How many ids the model had seen and drawn after the last turn; None where they are not known."""
        return None if self._seen is None else len(self._seen)

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
        self.send()
        await self.durable()

    def send(self) -> None:
        """Send what is pending on its way to the journal, as one append."""
        if self._pending:
            batch, self._pending = self._pending, []
            self._in_flight = self._store.submit(batch)

    def _add(self, node: Node) -> None:
        if node.id not in self._written:
            self._written.add(node.id)
            self._pending.append(node)

    def _drawn(self, turn: Turn, started: float) -> Node:
        return self._made(Author.POLICY, turn, started, self._seen, {})

    def _made(
        self, author: Author, turn: Turn, started: float, ids: list[int] | None, marks: Json, behind: Node | None = None
    ) -> Node:
        tokens, told = node_tokens(ids, turn.prompt_ids, turn.tokens)
        return self._node(
            author,
            turn.message,
            self._slot,
            behind=behind,
            tokens=tokens,
            model=turn.model,
            policy_version=turn.policy_version,
            finish_reason=turn.finish_reason,
            usage=turn.usage,
            started=started,
            attributes={**turn.attributes, **marks, **told},
        )

    def _advance(self, node: Node) -> None:
        self.messages.append(node.message)
        self.walk.append(node)
        if node.id in self.summaries:
            self.usage = self.usage + self.summaries[node.id].usage
        if takes_turn(node):
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
        behind: Node | None = None,
        **fields: object,
    ) -> Node:
        above = behind or self.leaf
        parent = above.id if above else None
        return Node(
            id=node_id(self._tree_id, parent, author, message, tools, slot),
            run_id=self._run_id,
            tree_id=self._tree_id,
            parent_id=parent,
            depth=0 if above is None else above.depth + 1,
            author=author,
            message=message,
            slot=slot,
            tools=tools,
            started=time.time() if started is None else started,
            **fields,  # pyright: ignore[reportArgumentType]
        )
