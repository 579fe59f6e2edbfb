"""One episode under way on some worker, as the driver knows it: what the journal has of it, and how it ended."""

from __future__ import annotations

import asyncio
import time

from silva.rollout.config import RolloutConfig
from silva.rollout.on_ray.letters import Assignment, Records
from silva.rollout.slots import Slot
from silva.tree import (
    NO_USAGE,
    Boundary,
    Failure,
    Node,
    Outcome,
    Status,
    Trajectory,
    decode,
    trajectory_id,
)
from silva.tree.copies import turns_on


class Flight:
    """One attempt at one slot, whichever workers play it. `losses` counts the workers it has lost."""

    def __init__(self, slot: Slot, walk: list[Node], written: set[str]) -> None:
        self.slot = slot
        self.losses = 0
        self.ending = False
        self._started = time.time()
        self._walk = {node.id: node for node in walk}
        self._said: dict[str, bytes] = {}
        self._written = written
        self.done: asyncio.Future[Trajectory] = asyncio.get_running_loop().create_future()

    def assignment(self, number: int, spent: Failure | None) -> Assignment:
        """What a worker is told to begin it, or to begin it again where the one before was lost."""
        return Assignment(flight=number, slot=self.slot, walk=self.walk(), spent=spent)

    def walk(self) -> tuple[Node, ...]:
        """Its nodes that the journal has."""
        for name, payload in self._said.items():
            node = decode(payload)
            assert isinstance(node, Node)
            self._walk[name] = node
        self._said.clear()
        return tuple(self._walk.values())

    def take(self, letter: Records) -> list[bytes]:
        """What of a letter is to be written: nodes that the tree lacks, and the trajectory."""
        fresh: list[bytes] = []
        for name, payload in letter.nodes:
            self._said[name] = payload
            if name not in self._written:  # else a sibling on another worker said it first
                self._written.add(name)
                fresh.append(payload)
        if letter.trajectory:
            self.ending = True
            fresh.append(letter.trajectory)
        return fresh

    def kept(self, letter: Records) -> None:
        """The letter is on disk; one with the trajectory ends the episode."""
        if letter.trajectory and not self.done.done():
            trajectory = decode(letter.trajectory)
            assert isinstance(trajectory, Trajectory)
            self.done.set_result(trajectory)

    def failed(self, error: Exception) -> None:
        """The worker that plays it is lost, or the run ends in an error. What is being written goes on."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # nobody may be waiting any more

    def again(self) -> None:
        """Another worker is to take it up."""
        self.done = asyncio.get_running_loop().create_future()

    def given_up(self, config: RolloutConfig, why: str) -> Trajectory:
        """The record of an attempt that lost too many workers."""
        slot = self.slot
        walk = sorted(self.walk(), key=lambda node: node.depth)
        leaf = walk[-1] if walk else None
        usage = NO_USAGE
        for node in walk:
            usage = usage + node.usage
        message = f"{self.losses} Ray workers were lost while they played it; the last: {why}"
        return Trajectory(
            id=trajectory_id(config.run, slot.task.id, slot.index, slot.attempt),
            run_id=config.run,
            tree_id=slot.tree_id,
            task_id=slot.task.id,
            env=slot.task.env,
            index=slot.index,
            attempt=slot.attempt,
            seed=slot.seed,
            leaf_id=leaf.id if leaf else None,
            outcome=Outcome(
                status=Status.FAILED,
                failure=Failure(boundary=Boundary.INFRASTRUCTURE, code="ray.worker", message=message, retryable=False),
            ),
            agent=config.agent if config.policy == "model" else config.policy,
            model=config.policy_name,
            policy_version=leaf.policy_version if leaf else "",
            turns=len(turns_on(walk)),
            reward=sum(node.reward or 0.0 for node in walk),
            usage=usage,
            started=self._started,
            finished=max(self._started, time.time()),
        )
