"""Following a run: each node once, whatever is compacted between two looks, and no table read again without need."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from silva.lake import Lake
from silva.lake.run_follower import RunFollower
from silva.tree import Author, Node, Outcome, Run, Status, Task, Trajectory, node_id, tree_id, user

TREE = tree_id("r", "e/1")


def nodes(count: int, after: Node | None = None, run: str = "r") -> list[Node]:
    """A chain, each made a day before the one above it: when a node was made says nothing of when it was kept."""
    made: list[Node] = []
    tree = tree_id(run, "e/1")
    for _ in range(count):
        parent = made[-1] if made else after
        message = user(f"number {parent.depth + 1 if parent else 0}")
        made.append(
            Node(
                id=node_id(tree, parent.id if parent else None, Author.ENVIRONMENT, message, None, "0.0"),
                run_id=run,
                tree_id=tree,
                parent_id=parent.id if parent else None,
                depth=parent.depth + 1 if parent else 0,
                author=Author.ENVIRONMENT,
                message=message,
                slot="0.0",
                started=1e9 - 86400.0 * (parent.depth + 1 if parent else 0),
            )
        )
    return made


def ended(index: int) -> Trajectory:
    return Trajectory(
        id=f"t{index}",
        run_id="r",
        tree_id=TREE,
        task_id="e/1",
        env="e",
        index=index,
        attempt=0,
        seed=0,
        leaf_id=None,
        outcome=Outcome(status=Status.COMPLETED),
        turns=0,
    )


@pytest.mark.parametrize("seed", range(8))
def test_each_node_comes_once_whatever_is_compacted_between_two_looks(tmp_path: Path, seed: int) -> None:
    chance, written, seen = Random(seed), list[Node](), list[str]()
    with Lake.open(tmp_path) as writer, Lake.open(tmp_path, mode="read") as reader:
        follower = RunFollower(reader, "r")
        for _ in range(40):
            match chance.choice(("write", "write", "compact", "look", "other")):
                case "write":
                    made = nodes(chance.randint(1, 4), written[-1] if written else None)
                    writer.append_sync([Run(id="r", status="running"), *made])
                    written += made
                case "compact":
                    writer.compact()
                case "other":
                    writer.append_sync(nodes(1, run="another"))
                case _:
                    seen += [node.id for node in follower.fresh().nodes]
        seen += [node.id for node in follower.fresh().nodes]
        assert follower.fresh().nodes == [] and len(seen) == len(set(seen))
        assert set(seen) == {node.id for node in written}


def test_parents_come_before_children_and_what_ended_comes_too(tmp_path: Path) -> None:
    with Lake.open(tmp_path) as writer, Lake.open(tmp_path, mode="read") as reader:
        follower = RunFollower(reader, "r")
        assert follower.fresh().nodes == [] and follower.run is None
        chain = nodes(6)
        writer.append_sync([Run(id="r", status="running"), Task(id="e/1", env="e"), *chain[::-1], ended(0)])
        fresh = follower.fresh()
        assert [node.depth for node in fresh.nodes] == list(range(6)) and [t.id for t in fresh.trajectories] == ["t0"]
        assert follower.tasks[TREE] == "e/1" and follower.run is not None and follower.run.status == "running"
        writer.append_sync([Run(id="r", status="finished", finished=2.0), ended(1)])
        assert [t.id for t in follower.fresh().trajectories] == ["t1"] and follower.run.finished == 2.0


def test_a_run_that_came_and_went_between_two_looks_is_seen(tmp_path: Path) -> None:
    with Lake.open(tmp_path) as writer:
        writer.append_sync([Run(id="older", status="finished")])
    with Lake.open(tmp_path, mode="read") as reader:
        follower = RunFollower(reader, "r")
        assert follower.fresh().nodes == []
        for status in ("stopped", "finished"):
            made = nodes(3) if status == "stopped" else nodes(2, nodes(3)[-1])
            with Lake.open(tmp_path) as writer:
                writer.append_sync([Run(id="r", status=status), *made])
            assert [node.id for node in follower.fresh().nodes] == [node.id for node in made]
            assert follower.run is not None and follower.run.status == status


def test_a_look_at_what_has_not_moved_reads_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lake.open(tmp_path) as writer, Lake.open(tmp_path, mode="read") as reader:
        chain = nodes(5)
        writer.append_sync([Run(id="r", status="running"), *chain[:3]])
        follower = RunFollower(reader, "r")
        assert len(follower.fresh().nodes) == 3

        def again(*_: object, **__: object) -> None:
            raise AssertionError("the lake is read again")

        for name in ("nodes", "tasks", "trajectories", "run"):
            monkeypatch.setattr(reader, name, again)
        assert follower.fresh().nodes == []
        writer.append_sync(chain[3:])
        assert len(follower.fresh().nodes) == 2


def test_without_a_journal_here_the_tables_are_read(tmp_path: Path) -> None:
    """As where the lake is in an object store and somebody elsewhere writes it."""
    with Lake.open(tmp_path) as writer:
        writer.append_sync([Run(id="r", status="running"), *nodes(2)])
    (tmp_path / "journal").rename(tmp_path / "elsewhere")
    with Lake.open(tmp_path, mode="read") as reader:
        follower = RunFollower(reader, "r")
        assert len(follower.fresh().nodes) == 2 and follower.fresh().nodes == []
        (tmp_path / "elsewhere").rename(tmp_path / "journal")
        with Lake.open(tmp_path) as writer:
            writer.append_sync(nodes(1, nodes(2)[-1]))
        (tmp_path / "journal").rename(tmp_path / "elsewhere")
        assert [node.depth for node in follower.fresh().nodes] == [2]
