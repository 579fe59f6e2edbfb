"""CoEvolve before anything runs: its stages, what it refuses, where it explores, which candidates it tries first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from silva.curate.diversity import diversity, energy_distance, self_redundancy
from silva.curate.signals.signal import Signal
from silva.envs.protocol import Goal
from silva.errors import UsageError
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.contexts import signalled, unguided
from silva.loops.coevolve.growing import ordered
from silva.loops.coevolve.kind import COEVOLVE
from silva.loops.coevolve.plan import stages
from silva.loops.coevolve.stages.rollout import chosen_of, resting, without
from silva.loops.kernel.ledger import Entry
from silva.loops.roles import Candidate, Source
from silva.models.embedding.embedder import unit
from silva.tree import Task, assistant

TEACH = {"source": "expert", "algorithm": {"name": "sft"}, "steps": 2}
LEARN = {"algorithm": {"name": "grpo"}, "steps": 2, "times": 4}


def config(folder: Path, **grow: Any) -> CoEvolveConfig:
    values = {"folder": folder, "env": "arithmetic", "rounds": [TEACH, LEARN], "grow": grow}
    return CoEvolveConfig.model_validate(values)


def growths(of: CoEvolveConfig) -> list[str]:
    return [stage.name for stage in stages(of) if stage.kind == "grow"]


def test_tasks_grow_between_rounds_of_grpo_and_never_where_nothing_follows(tmp_path: Path) -> None:
    names = [stage.name for stage in stages(config(tmp_path))]
    assert names[4:6] == ["round-1.select", "round-1.train"]  # the expert's attempts are those of the survey
    assert names.index("round-2.grow") < names.index("round-2.select")  # a round without a mixed group grows, too
    assert growths(config(tmp_path)) == ["round-2.grow", "round-3.grow", "round-4.grow"]
    assert growths(config(tmp_path, every=2)) == ["round-3.grow"]
    assert growths(config(tmp_path, every=2, first=1)) == ["round-2.grow", "round-4.grow"]
    assert config(tmp_path, every=2, first=1, by="start").share == 2
    assert growths(config(tmp_path, by="nothing")) == []
    start = config(tmp_path, by="start", tasks=5)
    assert growths(start) == ["round-2.grow"] and start.share == 3  # all that the others would grow, at once
    ablated = stages(config(tmp_path, signals={"boundary": {}}))
    base = {stage.name: stage.inputs for stage in stages(config(tmp_path))}
    same = [stage.name for stage in ablated if base[stage.name] == stage.inputs]
    assert same == ["base", "survey", "split", "measure"]  # an ablation shares what stands before it


@pytest.mark.parametrize(
    ("grow", "says"),
    [
        ({"signals": {}}, "signals: none is read"),
        ({"signals": {"fogetting": {}}}, "no reader 'fogetting'"),
        ({"explorer": {"name": "polcy"}}, "did you mean policy"),
        ({"abstracter": {"name": "hindsight", "options": {"leest": 1}}}, "hindsight"),
    ],
)
def test_what_cannot_grow_is_refused_before_anything_runs(tmp_path: Path, grow: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        config(tmp_path, **grow)


def test_a_round_of_the_policy_is_grpo(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="a round of the policy is grpo"):
        CoEvolveConfig.model_validate(
            {"folder": tmp_path, "env": "arithmetic", "rounds": [{"algorithm": {"name": "sft"}, "steps": 2}]}
        )


def test_an_environment_without_the_port_is_refused_in_one_line(tmp_path: Path) -> None:
    loop = COEVOLVE.open(config(tmp_path))
    with pytest.raises(UsageError, match=r"env arithmetic: it cannot say .* \(port Hindsight\).*grow.by: nothing"):
        COEVOLVE.usable(loop, loop.plan[0])
    static = COEVOLVE.open(config(tmp_path, by="nothing"))
    COEVOLVE.usable(static, static.plan[0])


def signal(kind: str, task: str, node: str) -> Signal:
    return Signal(kind=kind, trajectory=f"walk of {node}", task=task, run="run", node=node)


def test_contexts_take_kinds_and_tasks_in_turn_and_a_place_once() -> None:
    many = [signal("boundary", f"t{n % 3}", f"b{n}") for n in range(30)]
    few = [signal("rare", "t9", "r0"), signal("forgetting", "t9", "b0")]
    found = signalled([*many, *few, many[0]], 6, 1)
    kinds = [each.signal for each in found]
    assert kinds[:3] == ["boundary", "forgetting", "rare"] and kinds[3:] == ["boundary"] * 3
    assert len({each.node for each in found}) == 6
    assert len({each.trajectory for each in found}) == 6
    assert signalled([*reversed([*many, *few])], 6, 1) == found  # whatever order they were read in
    assert signalled([], 6, 1) == [] and unguided([], 6, 1) == []


def candidate(place: str, words: str, pattern: str, kind: str, actions: int) -> Candidate:
    task = Task(id=place, env="e", data={"place": place})
    solution = tuple(assistant(str(n)) for n in range(actions))
    goal = Goal(words=words, data={}, pattern=pattern)
    return Candidate(place=task, goal=goal, solution=solution, source=Source(signal=kind))


def test_candidates_take_signals_and_patterns_in_turn_and_the_shorter_solution_counts() -> None:
    easy = [candidate(f"p{n}", "open it", "open", "boundary", 2) for n in range(20)]
    hard = [candidate("p1", "put it there", "put", "boundary", 5), candidate("p2", "hold it", "hold", "rare", 3)]
    longer = candidate("p2", "hold it", "hold", "rare", 6)
    found = ordered([longer, *easy, *hard], 3, 4)
    assert [each.goal.pattern for each in found] == ["open", "hold", "put", "open"]
    assert len(found[1].solution) == 3
    deep = [candidate(f"d{n}", "open it", "open", "boundary", n) for n in (3, 7, 5)]
    assert [len(each.solution) for each in ordered([*easy, *deep], 3, 4, longest=True)] == [7, 5, 3, 2]
    said = [candidate(f"s{n}", "open it", "open", "rare", 0) for n in range(9)]
    for longest in (False, True):
        found = ordered([*said, *deep], 3, 4, longest=longest)
        assert [bool(each.solution) for each in found] == [True, True, True, False], "what nobody could do comes last"


def test_a_share_of_a_round_is_new_as_far_as_there_is_enough() -> None:
    def known(old: int, new: int) -> dict[str, Task]:
        tasks = [Task(id=f"old/{n}", env="e", instruction="") for n in range(old)]
        tasks += [Task(id=f"new/{n}", env="e", instruction="", born={"verdict": "accepted"}) for n in range(new)]
        return {task.id: task for task in tasks}

    def news(old: int, new: int, share: float | None) -> tuple[int, int]:
        chosen = chosen_of(known(old, new), 12, share, seed=1)
        return len(chosen), sum(each.startswith("new/") for each in chosen)

    assert news(60, 20, 0.5) == (12, 6) and news(60, 4, 0.5) == (12, 4) and news(60, 0, 0.5) == (12, 0)
    assert news(8, 20, 0.25) == (12, 4), "where there are few old ones, new ones fill the round"
    assert news(60, 600, None)[1] > 6


def test_mastered_tasks_rest_for_some_rounds_until_they_fail_again(tmp_path: Path) -> None:
    loop = COEVOLVE.open(config(tmp_path))
    played = {2: ("abc", "ab"), 3: ("bde", "de"), 4: ("cde", "ce")}
    for stage in loop.plan:
        if stage.kind == "rollout":
            tasks, done = played.get(stage.round, ("", ""))
            said = {"played": list(tasks), "mastered": list(done)}
            loop.ledger.append(
                Entry(stage=stage.name, event="ended", inputs=stage.inputs, at=0, seconds=0, outputs=said)
            )
    assert resting(loop, 5, 3) == ["e", "c", "a"], "b and d failed since; what was mastered last rests first"
    assert resting(loop, 5, 1) == ["e", "c"] and resting(loop, 3, 9) == ["b", "a"] and resting(loop, 5, 0) == []


def test_mastered_tasks_rest_while_there_are_others_and_the_longest_rested_come_back_first() -> None:
    known = {name: Task(id=name, env="e", instruction="") for name in "abcdef"}
    assert set(without(known, ["e", "c", "gone"], 3)) == set("abdf")
    assert set(without(known, ["e", "c", "a"], 4)) == set("abdf"), "a was mastered before e and c"
    assert set(without(known, ["e", "c"], None)) == set(known) == set(without(known, [], 2))


def test_redundancy_and_distance_are_those_of_the_papers_formulas() -> None:
    corners = np.eye(3, dtype=np.float32)
    assert self_redundancy(corners, 1) == 0.0 and self_redundancy(np.repeat(corners[:1], 3, 0), 2) == 1.0
    assert self_redundancy(corners[:1]) is None
    root = 2**0.5
    # E|x-y| = (0 + 2 * root) / 3; within = 2 * root / 3; one point within itself: 0; spread = root
    expected = (2 * 2 * root / 3 - 2 * root / 3) / root
    assert energy_distance(corners, corners[:1]) == pytest.approx(expected)
    assert energy_distance(corners, corners) == pytest.approx(0.0) and energy_distance(corners[:1], corners) is None
    draw = np.random.default_rng(0)
    near, far = (unit(draw.normal(size=(40, 8)).astype(np.float32) + shift) for shift in (0.0, 3.0))
    told = diversity(far, near)
    assert told["sr"] > diversity(near, near)["sr"] and told["ed"] > 0.5 and told["tasks"] == 40
