"""A live episode as the stages of its turns see it: what it grows, where it acts, who acts, what it may still spend.

    Live ─┬▶ path ── the walk so far; nodes are added to it        ├▶ ask ── one more turn of the agent
          ├▶ env, blobs ── the leased environment, the lake's bytes ├▶ put_off ── the deadline waits
          └▶ config, slot, id ── what is played, and as what        └▶ refuse ── an action is answered, not taken

An agent that has a walk of its own (an attacker, a judge, the other player) has a `Live` of its own, with its path,
agent and tools, beside the same environment: a stage is given that of the one who acts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from silva.models.errors import ModelError
from silva.models.model import Sampling
from silva.rollout.agent import Agent, AgentFor, Turn, View
from silva.rollout.config import RolloutConfig
from silva.rollout.ending import Ended, Stopped
from silva.rollout.guided_nodes import REFUSED
from silva.rollout.path import Path
from silva.rollout.slots import Slot
from silva.rollout.summary import context, in_force
from silva.rollout.takeover import written
from silva.tree import AnyRecord, Author, Boundary, Failure, Message, Node, Usage, digest, trajectory_id
from silva.tree.role import ORDER, ROLE

SEEDS = 1 << 31
"""Sampling seeds stay below this: some servers take a signed 32-bit number only."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that is not taken: `by` whom, `why` as the agent is told, `author` of that answer, and what else is
    kept of it (`notes`, of the action's node)."""

    by: str
    why: str
    author: Author = Author.VERIFIER
    notes: Callable[[Node], Sequence[AnyRecord]] = lambda action: ()


class Live:
    """One episode under way.

    Args:
        config: the run's.
        slot: the place it fills.
        path: what it grows.
        overdrawn: whether the run's budget is spent.
        role: which of several agents acts; "" where there is one.
    """

    env: Any
    """The leased environment; there from the first hook on, as `agent` and `blobs` are."""
    agent: Agent
    blobs: Any
    agent_for: AgentFor
    """What makes this episode's agents, for another instance of its environment too."""
    another: Callable[[], Any] | None = None
    """Leases another instance (an async context manager), to try things out in; None where there is none to be had."""
    forbids: Callable[[Message], object | None] = staticmethod(lambda action: None)
    """Who forbids an action, as far as people have said; None where nobody does."""

    def __init__(
        self,
        config: RolloutConfig,
        slot: Slot,
        path: Path,
        overdrawn: Callable[[], Failure | None] = lambda: None,
        role: str = "",
    ) -> None:
        self.config = config
        self.slot = slot
        self.path = path
        self.id = trajectory_id(config.run, slot.task.id, slot.index, slot.attempt)
        self.images: dict[str, bytes] = {}
        self.limit = 0
        self.deadline: asyncio.Timeout | None = None
        drawn = (str(config.seed), slot.task.id, str(slot.index), *((role,) if role else ()))
        self.sampling_seed = int(digest(*drawn)[:8], 16)
        self.role = role
        self.session = f"{self.id}.{role}" if role else self.id
        self.together: Callable[[], tuple[int, Usage]] | None = None
        """Of several agents: how many actions all of them have taken, and what they cost."""
        self._overdrawn = overdrawn

    async def ask(self, draw: int = 0) -> tuple[Turn, float]:
        """The agent's next turn, and when it was begun (Unix seconds). Further draws at one place sample anew.

        Raises:
            Ended: a budget is spent.
            Stopped: the model's context is full.
            ModelError: the model could not be had.
        """
        spent = self.overdrawn()
        if spent is not None:
            raise Ended(spent)
        path, started, clock = self.path, time.time(), time.monotonic()
        try:
            turn = await self.agent.act(self.view(context(path.walk, in_force(path.walk, path.summaries)), draw))
        except ModelError as error:
            path.waited(time.monotonic() - clock)
            if error.kind == "context_length" and path.turns:
                raise Stopped from error
            raise
        if self.together is not None:
            order = self.together()[0] + 1
            turn = msgspec.structs.replace(turn, attributes={**turn.attributes, ROLE: self.role, ORDER: order})
        return turn, started

    def view(self, messages: tuple[Message, ...], draw: int = 0) -> View:
        """What the agent acts on, of messages that it is to be shown."""
        return View(
            messages=messages,
            tools=self.path.tools,
            sampling=self._sampling(draw),
            deadline=self.config.deadlines.model,
            session=self.session,
            images=self.images,
        )

    def written(self, action: Message) -> Turn:
        """A person's action where the walk now ends, with the ids the policy would have sampled where the run names a
        renderer for that."""
        return written(
            self.agent, self.view(context(self.path.walk, in_force(self.path.walk, self.path.summaries))), action
        )

    async def refuse(self, turn: Turn, started: float, refusal: Refusal) -> None:
        """Keep an action that is not taken, with its answer, as one; durable on return."""
        path = self.path
        turn = msgspec.structs.replace(turn, attributes={**turn.attributes, REFUSED: refusal.by})
        action = path.act(turn, started, hold=True)
        for record in refusal.notes(action):
            path.note(record)
        path.answer(action, refusal.why, refusal.author)
        path.send()
        await path.durable()

    def put_off(self, seconds: float) -> None:
        """The episode's deadline waits with an episode that is held."""
        end = self.deadline.when() if self.deadline is not None else None
        if self.deadline is not None and end is not None:
            self.deadline.reschedule(end + seconds)

    def overdrawn(self) -> Failure | None:
        """The budget failure that a further turn would be; None while there is budget."""
        spent = self._overdrawn()
        limit = self.config.budget.episode_tokens
        usage = self.path.usage if self.together is None else self.together()[1]
        used = usage.prompt_tokens + usage.completion_tokens
        if spent is not None or limit is None or used < limit:
            return spent
        message = f"{used} tokens used of {limit} an episode"
        return Failure(boundary=Boundary.BUDGET, code="budget.episode_tokens", message=message)

    def _sampling(self, draw: int) -> Sampling:
        wanted = self.config.sampling
        seed = self.sampling_seed if not draw else int(digest(str(self.sampling_seed), f"draw {draw}")[:8], 16)
        return Sampling(
            temperature=wanted.temperature,
            top_p=wanted.top_p,
            max_tokens=wanted.max_tokens,
            stop=wanted.stop,
            seed=(seed + self.path.turns) % SEEDS,
            logprobs=wanted.logprobs,
        )
