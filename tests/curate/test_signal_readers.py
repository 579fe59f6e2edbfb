"""Signals: each reader finds what its definition says, where it says, and nothing else; kept once, read back whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from walks import act, nodes

from silva.cli.main import run as silva
from silva.curate.signals.attempt import Attempt
from silva.curate.signals.reader import made
from silva.curate.signals.reading import signals_in, signals_of
from silva.curate.turn import read_walk
from silva.errors import Exit, UsageError
from silva.lake import Lake
from silva.tree import Boundary, Failure, Node, Outcome, Run, Status, Supervision, Trajectory, deciding

LOOK, LEFT, RIGHT = (act("run_command", command=word) for word in ("look", "left", "right"))


def ended(name: str, walk: Sequence[Node], score: float | None, task: str = "task", run: str = "run") -> Trajectory:
    failed = Failure(boundary=Boundary.MODEL, code="model.timeout", message="gone") if score is None else None
    status = Status.FAILED if failed else Status.COMPLETED
    return Trajectory(
        id=name,
        run_id=run,
        tree_id=walk[0].tree_id,
        task_id=task,
        env="e",
        index=0,
        attempt=0,
        seed=0,
        leaf_id=walk[-1].id,
        outcome=Outcome(status=status, score=score, success=None if score is None else score >= 1, failure=failed),
    )


def attempt(name: str, step: int, score: float | None, *steps: Any, task: str = "task", judged: Any = ()) -> Attempt:
    walk = nodes(*steps, tree=name)
    trajectory = ended(name, walk, score, task)
    said = [judged(walk)] if judged else []
    return Attempt(trajectory=trajectory, walk=read_walk(walk, trajectory.outcome), step=step, judged=deciding(said))


def found(kind: str, attempts: list[Attempt], since: int = 0, **options: Any) -> list[tuple[str, int]]:
    return [(each.trajectory, each.turn) for each in signals_in(attempts, made({kind: options}), since)]


def test_a_task_is_forgotten_where_it_was_solved_within_the_window_and_is_not_now() -> None:
    solved = attempt("solved", 0, 1.0, LOOK, "", LEFT, "")
    lost = [attempt(f"lost{step}", step, 0.0, LOOK, "", RIGHT, "") for step in (1, 2, 3)]
    assert found("forgetting", [solved, *lost], window=2) == [("lost1", 2), ("lost2", 2)]
    assert found("forgetting", [solved, *lost], since=2, window=3) == [("lost2", 2), ("lost3", 2)]


def test_attempts_of_one_moment_are_not_each_others_past_and_a_failure_is_no_score() -> None:
    group = [attempt("a", 0, 1.0, LEFT, ""), attempt("b", 0, 0.0, RIGHT, "")]
    broken = attempt("broken", 1, None, RIGHT, "")
    other = attempt("other", 1, 0.0, RIGHT, "", task="another")
    assert found("forgetting", [*group, broken, other]) == []
    assert found("boundary", [attempt("a", 0, 1.0, LEFT), attempt("broken", 0, None, RIGHT)]) == []


def test_a_group_that_ends_both_ways_is_a_boundary_where_its_walks_part() -> None:
    group = [
        attempt("good", 0, 1.0, LOOK, "", LEFT, ""),
        attempt("bad", 0, 0.0, LOOK, "", RIGHT, ""),
        attempt("half", 0, 0.5, LOOK, ""),
    ]
    assert found("boundary", group) == [("good", 2), ("bad", 2)]
    assert found("boundary", [*group[1:], attempt("worse", 0, 0.1, RIGHT)]) == []


def test_what_is_seldom_done_is_rare_once_enough_was_seen_and_more_than_one_walk_did_it() -> None:
    usual = [attempt(f"u{n}", 0, 0.0, LOOK, "", act("view_file", path=str(n)), "") for n in range(30)]
    odd = [attempt(f"o{n}", 1, 0.0, act("sleep", why="x"), "", act("sleep", why="y"), "") for n in range(2)]
    assert found("rare", [*usual, *odd], since=1, least=32, share=7) == [("o0", 2), ("o1", 2)]
    assert found("rare", [*usual, *odd], since=1, least=33, share=7) == []  # not enough was seen
    assert found("rare", [*usual, *odd], since=1, least=32, share=6) == []  # 2 of 32 are more than 6 %
    assert found("rare", [*usual, odd[0]], since=1, least=10, share=7) == []  # one walk alone


def test_blame_counts_as_it_decides_about_the_loss() -> None:
    def word(source: str, verdict: str) -> Any:
        return lambda walk: Supervision(
            id=verdict, node_id=walk[3].id, run_id="run", verdict=verdict, source=source, by="ann", reason="too fast"
        )

    bad = attempt("bad", 0, 1.0, LOOK, "", LEFT, "", judged=word("person", "bad"))
    good = attempt("good", 0, 1.0, LOOK, "", LEFT, "", judged=word("person", "good"))
    model = attempt("model", 0, 1.0, LOOK, "", LEFT, "", judged=word("model", "mask"))
    (signal,) = signals_in([bad, good, model], made({"blamed": {}}))
    assert (signal.trajectory, signal.turn, signal.focus) == ("bad", 2, "too fast")
    assert found("blamed", [bad, good, model], sources=["model"]) == [("model", 2)]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"forgeting": {}}, "no reader 'forgeting'"),
        ({"rare": {"share": 200}}, "signals.rare.share"),
        ({"boundary": {"window": 1}}, "signals.boundary.window"),
    ],
)
def test_what_is_not_known_is_refused_by_name(wanted: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        made(wanted)


def test_signals_of_a_run_are_kept_once_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "lake"

    async def fill() -> None:
        async with Lake.open(place) as lake:
            for run, score in (("before", 1.0), ("now", 0.0)):
                walk = nodes(LOOK, "", LEFT if score else RIGHT, "", tree=run)
                await lake.append([Run(id=run, status="finished"), *walk, ended(run, walk, score, run=run)])

    asyncio.run(fill())
    words = ["curate", "signals", "before", "now", "--lake", str(place), "--keep"]
    assert silva([*words, "--json"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["trajectory"], each["turn"]) for each in told] == [("forgetting", "now", 2)]
    assert silva(words) == Exit.OK
    assert "1 signals in 1 of 1 walks: blamed 0, boundary 0, forgetting 1" in (said := capsys.readouterr().out)
    assert "0 new notes" in said
    with Lake.open(place, mode="read") as lake:
        (kept,) = signals_of(lake, "now")
        assert kept.id == told[0]["id"] and lake.supervisions(run_id="now")[0].node_id == kept.node
    assert silva([*words[:2], "nowhere", "--lake", str(place)]) == Exit.USAGE
    assert "has no run 'nowhere'" in capsys.readouterr().err
