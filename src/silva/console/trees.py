"""The trees that somebody looks at: read from the lake once, then kept up to date by what the journal brings.

    Trees.open(id) ─▶ OpenTree ◀─ take(new nodes)     a walk grows at its end; nothing is read or sent again

The least recently used tree is let go where more than a few are open.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from silva.errors import UsageError
from silva.tree import Author, Node, Tree

MOST = 12
"""Trees held at once."""


class OpenTree:
    """The nodes of one tree, growing. Safe to use from several threads."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._nodes: dict[str, Node] = {}
        self._children: dict[str | None, list[str]] = {}
        self._tips: dict[tuple[str, str], str] = {}
        self._mutex = threading.Lock()

    def take(self, nodes: Iterable[Node]) -> None:
        """Add nodes; those that are there already are passed over."""
        with self._mutex:
            for node in nodes:
                if node.id in self._nodes:
                    continue
                self._nodes[node.id] = node
                self._children.setdefault(node.parent_id, []).append(node.id)
                if node.author is Author.SUMMARISER:
                    continue  # stands beside the walk, which goes on
                tip = self._nodes.get(self._tips.get((node.run_id, node.slot), ""))
                if tip is None or (node.started, node.depth) >= (tip.started, tip.depth):
                    self._tips[node.run_id, node.slot] = node.id

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, id: str) -> Node:
        """The node of that id.

        Raises:
            UsageError: there is none.
        """
        found = self._nodes.get(id)
        if found is None:
            raise UsageError(f"tree {self.id[:12]}: has no node {id[:40]}")
        return found

    def children(self, id: str | None) -> list[Node]:
        """A node's children, in order of slot, then of time; the roots of None."""
        with self._mutex:
            nodes = [self._nodes[child] for child in self._children.get(id, ())]
        return sorted(nodes, key=lambda node: (node.slot, node.started, node.id))

    def tip(self, run: str, slot: str) -> str:
        """The node at which an attempt stands now; "" where it has none of its own."""
        return self._tips.get((run, slot), "")

    def tree(self) -> Tree:
        """The tree as it is now.

        Raises:
            TreeError: a node lacks its parent.
        """
        with self._mutex:
            return Tree(list(self._nodes.values()))

    def walk(self, leaf: str) -> list[Node]:
        """The nodes from the root down to a node; what misses its parent begins there.

        Raises:
            UsageError: there is no such node.
        """
        path: list[Node] = []
        node: Node | None = self.node(leaf)
        while node is not None:
            path.append(node)
            node = None if node.parent_id is None else self._nodes.get(node.parent_id)
        path.reverse()
        return path


class Trees:
    """Keeps a few open. Safe to use from several threads.

    Args:
        read: all nodes of a tree, from the lake.
    """

    def __init__(self, read: Callable[[str], list[Node]]) -> None:
        self._read = read
        self._open: OrderedDict[str, OpenTree] = OrderedDict()
        self._mutex = threading.Lock()

    def open(self, id: str) -> OpenTree:
        """The tree of that id.

        Raises:
            UsageError: there is none.
            StoreError: the lake cannot be read.
        """
        with self._mutex:
            known = self._open.get(id)
            if known is not None:
                self._open.move_to_end(id)
                return known
            made = OpenTree(id)
            self._open[id] = made  # from here on it hears what is new, so nothing falls between reading and hearing
        try:
            made.take(sorted(self._read(id), key=lambda node: node.depth))
        except BaseException:
            with self._mutex:
                self._open.pop(id, None)
            raise
        if not len(made):
            with self._mutex:
                self._open.pop(id, None)
            raise UsageError(f"there is no tree {id[:40]}")
        with self._mutex:
            while len(self._open) > MOST:
                self._open.popitem(last=False)
        return made

    def take(self, nodes: Iterable[Node]) -> None:
        """Give new nodes to the trees that are open."""
        with self._mutex:
            if not self._open:
                return
            for node in nodes:
                tree = self._open.get(node.tree_id)
                if tree is not None:
                    tree.take((node,))

    def forget(self) -> None:
        """Let all go: what the journal brought may have gaps."""
        with self._mutex:
            self._open.clear()
