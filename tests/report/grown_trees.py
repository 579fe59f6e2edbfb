"""Trees grown by hand: a trunk, branches from any turn of any path, with what stands at each turn."""

from __future__ import annotations

from typing import Any

import msgspec
from grown_runs import attempt

from silva.tree import (
    Author,
    Message,
    Node,
    Risk,
    Trajectory,
    Tree,
    assistant,
    call,
    node_id,
    slot,
    system,
    tool_result,
    tree_id,
    user,
)


class Grove:
    """One tree and the trajectories that end in it. `path(...)` grows one more."""

    def __init__(self, task: str = "shop/1", run: str = "night", env: str = "shop") -> None:
        self.run, self.task, self.env = run, task, env
        self.id = tree_id(run, task)
        self.nodes: dict[str, Node] = {}
        self.trajectories: list[Trajectory] = []
        self._walks: list[list[Node]] = []

    @property
    def tree(self) -> Tree:
        """The tree as it is now."""
        return Tree(self.nodes.values())

    def path(
        self,
        turns: int,
        *,
        of: int = 0,
        at: int = 0,
        run: str = "",
        risks: tuple[int, ...] = (),
        snapshots: tuple[int, ...] = (),
        given: str = "",
        said: str = "",
        words: str = "",
        ends: bool = True,
        **outcome: Any,
    ) -> Trajectory | None:
        """Grow a path of so many turns in all, from turn `at` of path number `of`.

        Args:
            turns: its turns, those it shares among them.
            of: the path it leaves.
            at: the turn after which it leaves it; 0 for the prompt.
            run: the run that grows it; the tree's own when left out.
            risks: turns that a risk is seen at.
            snapshots: turns after which a snapshot was taken.
            given: its first action, chosen by a person.
            said: what a person says first.
            words: its first action.
            ends: whether there is a trajectory.
            outcome: as `attempt`.
        """
        index = len(self._walks)
        place = slot(index, 0)
        walk = self._shared(of, at)
        if said:
            walk.append(self._node(walk, Author.PERSON, user(said), place, run))
        for turn in range(at + 1, turns + 1):
            first = turn == at + 1 and (given or words)
            act = first or f"step_{turn}"
            message = assistant("", call(act, {"n": turn}, f"c{turn}"))
            facts = {"attributes": {"branch": "given"}} if given and turn == at + 1 else {}
            walk.append(self._node(walk, Author.POLICY, message, place, run, **facts))
            more: dict[str, Any] = {}
            if turn in risks:
                more["risks"] = (Risk(kind="pay", severity=0.5, by="rules"),)
            if turn in snapshots:
                more |= {"snapshot_id": f"{turn:04x}" * 16, "attributes": {"snapshot": {"fidelity": "exact"}}}
            walk.append(self._node(walk, Author.ENVIRONMENT, tool_result(f"c{turn}", "done", act), place, run, **more))
        self._walks.append(walk)
        if not ends:
            return None
        facts = {
            "run": run or self.run,
            "env": self.env,
            "index": index,
            "turns": turns,
            "leaf": walk[-1].id,
            **outcome,
        }
        made = msgspec.structs.replace(attempt(self.task, **facts), tree_id=self.id)
        self.trajectories.append(made)
        return made

    def walk(self, trajectory: Trajectory) -> list[Node]:
        """The nodes of a path."""
        return list(self.tree.walk(trajectory.leaf_id or ""))

    def _shared(self, of: int, at: int) -> list[Node]:
        if not self._walks:
            opening: list[Node] = []
            for message in (system("You keep a shop."), user("Sell the lamp.")):
                opening.append(self._node(opening, Author.ENVIRONMENT, message, "", ""))
            return opening
        shared: list[Node] = []
        turn = 0
        for node in self._walks[of]:
            turn += node.author is Author.POLICY
            if turn > at or (turn == at and node.author is Author.PERSON and at == 0):
                break
            shared.append(node)
        return shared

    def _node(self, walk: list[Node], author: Author, message: Message, place: str, run: str, **facts: Any) -> Node:
        parent = walk[-1].id if walk else None
        made = Node(
            id=node_id(self.id, parent, author, message, None, place),
            run_id=run or self.run,
            tree_id=self.id,
            parent_id=parent,
            depth=len(walk),
            author=author,
            message=message,
            slot=place,
            **facts,
        )
        self.nodes[made.id] = made
        return made
