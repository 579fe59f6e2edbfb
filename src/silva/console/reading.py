"""What pages ask of a lake. Every method blocks, and returns plain data.

rows of attempts ◀── Forest (memory)          a tree, a walk, a node ◀── Trees (memory, else the lake)
turns found, images, labels ◀── the lake's tables
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import msgspec

from silva.console import columns, training
from silva.console import overview as figures
from silva.console.attempt import CUT, RUNNING, Attempt, of, row
from silva.console.comparing import side_by_side
from silva.console.lanes import lanes, moments, newest
from silva.console.outline import context, pieces
from silva.console.stream import Streams
from silva.console.trained import trajectory_of
from silva.console.trees import OpenTree, Trees
from silva.console.view import line, text_of, whole
from silva.console.watch import Watch
from silva.console.work import work
from silva.errors import StoreError, UsageError
from silva.guide import events
from silva.lake import Lake, parse
from silva.redteam.seen.failures import marks
from silva.redteam.verdict import said, told
from silva.report.compare import compare
from silva.report.scaling import scaling
from silva.tree import Node, Run, Trajectory, masked_nodes

PAGE = 500
"""Rows given at a time."""
FOUND = 200
"""Turns that a search of the lake gives."""
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")


class Reading:
    """A lake, watched and read.

    Args:
        location: of the lake.

    Raises:
        StoreError: it is no lake, or cannot be read.
    """

    def __init__(self, location: str) -> None:
        self.lake = Lake.open(location, mode="read")
        self.streams = Streams()
        self.trees = Trees(lambda id: self.lake.nodes(tree_id=id))
        self.watch = Watch(self.lake, self.trees, self.streams)
        self.streams.told = self.watch.told
        self._filtered: dict[tuple[str, str, int], list[Attempt]] = {}

    def close(self) -> None:
        """Let go of the lake."""
        self.watch.stop()
        self.lake.close_sync()

    # Runs and attempts

    def runs(self) -> list[dict[str, Any]]:
        """Every run in figures, the latest first."""
        with self.watch.lock:
            forest = self.watch.forest
            found = [figures.overview(forest, run, self.watch.presence) for run in forest.runs.values()]
        return sorted(found, key=lambda each: (-each["moved"], each["id"]))

    def records(self) -> list[Run]:
        """The records of all runs."""
        with self.watch.lock:
            return list(self.watch.forest.runs.values())

    def run(self, id: str, brief: bool = False) -> dict[str, Any]:
        """One run in figures; `brief`: its line of the list alone."""
        with self.watch.lock:
            told = figures.overview if brief else figures.detail
            return told(self.watch.forest, self._run(id), self.watch.presence)

    def attempts(
        self,
        run: str = "",
        where: str = "",
        text: str = "",
        sort: str = "moved",
        descending: bool = True,
        offset: int = 0,
        limit: int = PAGE,
        scores: str = "",
    ) -> dict[str, Any]:
        """A page of attempts' rows, how many there are in all, and the names of their further metrics.

        Args:
            run: of one run; all if none.
            where: a condition on trajectories (`score >= 0.5`); those under way meet none.
            text: what is looked for in task, run, id, status and failure; letters of either case.
            sort: a column, or the name of a metric.
            descending: the largest first.
            offset: rows to pass over.
            limit: rows to give.
            scores: conditions on any score (`score >= 0.5, recall < 1`; see `columns`).

        Raises:
            UsageError: the condition or the column is none.
        """
        found = self._where(run, where)
        if text:
            wanted = text.casefold()
            found = [
                each
                for each in found
                if wanted in f"{each.task} {each.run} {each.id} {each.status} {each.failure} {each.model}".casefold()
            ]

        if scores:
            found = columns.met(found, scores)
        metrics = columns.names(found)
        found = columns.sorted_by(found, sort, descending, metrics)
        rows = [self.watch.told(each) for each in found[max(0, offset) : max(0, offset) + max(1, min(limit, PAGE))]]
        return {"total": len(found), "offset": offset, "rows": rows, "metrics": metrics}

    def attempt(self, id: str) -> Attempt:
        """The row of an attempt, by its id or the only beginning of it.

        Raises:
            UsageError: there is none, or there are several.
        """
        with self.watch.lock:
            known = self.watch.forest.by_id.get(id)
            if known is not None:
                return known
            several = [each for name, each in self.watch.forest.by_id.items() if id and name.startswith(id)]
        if len(several) == 1:
            return several[0]
        what = f"{len(several)} trajectories begin so" if several else "there is no such trajectory"
        raise UsageError(f"trajectory {id[:60]!r}: {what}")

    # One trajectory

    def walk(self, id: str = "", tree: str = "", leaf: str = "", after: str = "") -> dict[str, Any]:
        """A walk as lines: of an attempt by `id`, or to a `leaf` of a `tree`; only what follows the node `after`, where
        that is on it.

        Raises:
            UsageError: there is none.
            StoreError: the lake cannot be read.
        """
        head = self.attempt(id) if id else None
        grown = self.trees.open(head.tree if head else tree)
        nodes = self._nodes(grown, head, leaf)
        start = next((i + 1 for i, node in enumerate(nodes) if node.id == after), 0) if after else 0
        others = [self.watch.told(each) for each in self._of_tree(grown.id)]
        with self.watch.lock:
            task = self.watch.forest.task(head.run, head.task) if head else None
        return {
            "head": self.watch.told(head) if head else None,
            "tree": grown.id,
            "leaf": nodes[-1].id if nodes else "",
            "run": head.run if head else (nodes[-1].run_id if nodes else ""),
            "from": start,
            "count": len(nodes),
            "nodes": [line(node) for node in nodes[start:]],
            "attempts": others[:PAGE],
            "task": {"id": task.id, "env": task.env, "instruction": task.instruction} if task else None,
            "judged": self.judged(head.run if head else "", {node.id for node in nodes}),
            "attacked": self._attacked(head, nodes),
        }

    def nodes(self, tree: str, ids: list[str]) -> list[dict[str, Any]]:
        """Nodes in full."""
        grown = self.trees.open(tree)
        return [whole(grown.node(id)) for id in ids[:100]]

    def context(self, tree: str, node: str) -> dict[str, Any]:
        """What the model saw before a node."""
        grown = self.trees.open(tree)
        with self.watch.lock:
            run = self.watch.forest.runs.get(grown.node(node).run_id)
        return context(grown, node, "" if run is None else run.agent)

    def branches(self, tree: str) -> dict[str, Any]:
        """The tree's pieces and the attempts that end in them."""
        grown = self.trees.open(tree)
        ends = defaultdict(list)
        for each in self._of_tree(tree):
            ends[each.leaf].append(self.watch.told(each))
        runs = sorted({each.run for each in self._of_tree(tree)})
        masked = masked_nodes(judged for run in runs for judged in self.lake.supervisions(run_id=run))
        found = [{**each, "ends": ends.get(each["last"], [])} for each in pieces(grown, masked)]
        return {"nodes": len(grown), "pieces": found}

    def find(self, text: str, id: str = "", tree: str = "", leaf: str = "") -> list[str]:
        """The nodes of a walk in which a text stands, letters of either case."""
        head = self.attempt(id) if id else None
        grown = self.trees.open(head.tree if head else tree)
        wanted = text.casefold()
        return [node.id for node in self._nodes(grown, head, leaf) if wanted in text_of(node).casefold()]

    def work(self, id: str = "", tree: str = "", leaf: str = "", after: int = 0) -> dict[str, Any]:
        """Terminals, files and searches of a walk, of the turns after one."""
        head = self.attempt(id) if id else None
        grown = self.trees.open(head.tree if head else tree)
        return work(self._nodes(grown, head, leaf), after)

    def judged(self, run: str, nodes: set[str] | None = None) -> dict[str, list[dict[str, Any]]]:
        """What rules, models and people said about nodes of a run, by node."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in self.lake.supervisions(run_id=run) if run else ():
            if nodes is None or each.node_id in nodes:
                found[each.node_id].append(
                    {
                        "verdict": each.verdict,
                        "source": each.source,
                        "by": each.by,
                        "reason": each.reason[:2_000],
                        "kind": each.attributes.get("kind", ""),
                        "at": each.at,
                    }
                )
        return dict(found)

    # The lake

    def turns(self, text: str = "", where: str = "") -> list[dict[str, Any]]:
        """Turns that hold words, best first, or that meet a condition on nodes.

        Raises:
            UsageError: neither is given, or the condition is none.
        """
        if text and not where:
            return [{**line(node), "tree": node.tree_id} for _, node in self.lake.search(text, limit=FOUND)]
        if not where:
            raise UsageError("say what to look for: words, or a condition such as author = 'person'")
        found = self.lake.nodes(where=parse(where), limit=FOUND if not text else 50 * FOUND)
        if text:
            found = [node for node in found if text.casefold() in text_of(node).casefold()][:FOUND]
        return [{**line(node), "tree": node.tree_id} for node in found]

    def images(self) -> list[dict[str, Any]]:
        """The newest images of the lake."""
        kinds = ", ".join(f"'{kind}'" for kind in _IMAGES)
        query = (
            f"select id, media_type, size, at from blobs where media_type in ({kinds}) order by at desc limit {FOUND}"
        )
        return self.lake.sql(query).to_pylist()

    def image(self, hash: str) -> tuple[bytes, str]:
        """The bytes of an image and its type, told by its first bytes: what is no image is not given.

        Raises:
            StoreError: there is none.
        """
        data = self.lake.get_blob(hash)
        kind = next((kind for head, kind in _MAGIC if data.startswith(head)), "")
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            kind = "image/webp"
        if not kind:
            raise StoreError(f"blob {hash[:12]} is no image")
        return data, kind

    # Comparing and training

    def compare(self, left: str, right: str) -> dict[str, Any]:
        """Two trajectories side by side."""
        one, other = self.attempt(left), self.attempt(right)
        walks = [self._nodes(self.trees.open(each.tree), each, "") for each in (one, other)]
        trees = [one.tree, other.tree]
        return {"heads": [row(one), row(other)], "trees": trees, **side_by_side(walks[0], walks[1])}

    def compare_runs(self, left: str, right: str) -> dict[str, Any]:
        """Two runs, paired by task: the report's figures, and the attempts of every task that both made."""
        for each in (left, right):
            self._run(each)
        figures = compare(self.lake.trajectories(run_id=left), self.lake.trajectories(run_id=right), left, right)
        with self.watch.lock:
            forest = self.watch.forest
            sides = [self._by_task(list(forest.by_run.get(each, {}).values())) for each in (left, right)]
        tasks = [
            {"task": task, "left": list(map(row, sides[0][task])), "right": list(map(row, sides[1][task]))}
            for task in sorted(sides[0].keys() & sides[1].keys())
        ]
        return {"figures": figures.to_json(), "tasks": tasks[:PAGE], "of": len(tasks)}

    def scaling(self, run: str) -> dict[str, Any] | None:
        """What budgets of turns and of time bought in a run; None where no attempt was scored."""
        self._run(run)

        def walk(trajectory: Trajectory) -> list[Node]:
            return self.trees.open(trajectory.tree_id).walk(trajectory.leaf_id or "")

        found = scaling(self.lake.trajectories(run_id=run), walk)
        return None if found is None else msgspec.to_builtins(found)

    def lanes(self, run: str) -> dict[str, Any]:
        """A whole run over wall-clock time (`lanes`)."""
        with self.watch.lock:
            record, attempts = self._run(run), list(self.watch.forest.by_run.get(run, {}).values())
        now, chosen = time.time(), newest(attempts)
        states = {each.id: self.watch.presence.state(record, each, now)[0] for each in chosen}
        return lanes(attempts, moments(self.lake, run, chosen), events(self.lake, run).read(), states, now)

    def training(self) -> dict[str, Any]:
        """Training runs and policy versions."""
        with self.watch.lock:
            found = training.runs(self.watch.forest)
        return {"runs": found, "versions": training.versions(self.lake.location)}

    def curve(self, run: str) -> list[dict[str, Any]]:
        """The curve of a training run."""
        with self.watch.lock:
            record = self._run(run)
        return training.curve(record)

    # Within

    def _run(self, id: str) -> Any:
        found = self.watch.forest.runs.get(id)
        if found is None:
            raise UsageError(f"lake {self.lake.location}: has no run {id[:100]!r}")
        return found

    def _attacked(self, head: Attempt | None, nodes: list[Node]) -> dict[str, tuple[str, ...]]:
        """What an attacker did at which node, and what came of it; the lake is asked only where one spoke."""
        if not any(said(node) for node in nodes):
            return {}
        ended = head is not None and head.status not in (RUNNING, CUT)
        record = trajectory_of(self.lake, head.id) if head is not None and ended else None
        return marks({} if record is None else told(record), nodes)

    def _of_tree(self, tree: str) -> list[Attempt]:
        with self.watch.lock:
            found = [each for each in self.watch.forest.attempts.values() if each.tree == tree]
        return sorted(found, key=lambda each: (each.run, each.slot))

    def path(self, id: str = "", tree: str = "", leaf: str = "") -> tuple[list[Node], Attempt | None, Run | None]:
        """The nodes of a walk, root first, the attempt that it is of, and its run.

        Raises:
            UsageError: there is none.
        """
        head = self.attempt(id) if id else None
        nodes = self._nodes(self.trees.open(head.tree if head else tree), head, leaf)
        name = head.run if head else (nodes[-1].run_id if nodes else "")
        with self.watch.lock:
            return nodes, head, self.watch.forest.runs.get(name)

    def _nodes(self, grown: OpenTree, head: Attempt | None, leaf: str) -> list[Node]:
        if not leaf and head is not None:
            own = grown.tip(head.run, head.slot)
            leaf = own if head.status in (RUNNING, CUT) else head.leaf
        return grown.walk(leaf) if leaf else []

    @staticmethod
    def _by_task(attempts: list[Attempt]) -> dict[str, list[Attempt]]:
        found: dict[str, list[Attempt]] = defaultdict(list)
        for each in attempts:
            if not each.superseded:
                found[each.task].append(each)
        return found

    def _where(self, run: str, where: str) -> list[Attempt]:
        with self.watch.lock:
            forest = self.watch.forest
            if not where:
                return list(forest.by_run.get(run, {}).values() if run else forest.attempts.values())
            key = (run, where, forest.epoch)
        if key not in self._filtered:
            condition = parse(where)
            found = [of(each) for each in self.lake.trajectories(run_id=run or None, where=condition)]
            self._filtered = {key: found}
        return self._filtered[key]


_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
