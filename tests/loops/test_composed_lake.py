"""Three loops on one lake, as `examples/composed` has them: what one leaves there is what the next begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from silva.curate.curation.corpus import BLAMED
from silva.lake import Lake
from silva.loops.curateevo.raw import corpus
from silva.loops.kernel.kinds import kind
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.turn import turn
from silva.loops.roles import born
from silva.tree import masked_nodes

pytest.importorskip("torch")
pytest.importorskip("peft")

EXAMPLES = Path(__file__).parents[2] / "examples" / "composed"
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_what_guiding_exploring_and_evolving_leave_on_one_lake_flows_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    def turned(loop: str, name: str, **less: Any) -> Loop[Any]:
        said: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
        said |= {"folder": str(tmp_path / name), "lake": str(tmp_path / "lake"), **less}
        said["tasks"] |= {"dev": 0.3, "test": 0}
        said["rounds"] = [{**each, "steps": 6} for each in said.get("rounds", [])]
        return turn(kind(loop).config.model_validate(said), here=True)

    turned("apollo", "guide", training=False)
    explored = turned("coevolve", "explore", judge={"every": 9})
    evolved = turned("curateevo", "evolve", epochs=0, recipe={"steps": 3})
    with Lake.open(str(tmp_path / "lake"), mode="read") as lake:
        blamed = masked_nodes(lake.supervisions(run_id="guide.round-2.rollout"))
        grown = [(task, how) for task, how in born(lake, "explore.round-2.grow") if how.verdict == "accepted"]
        carried = lake.trajectories(run_id="evolve.raw.1")
        guided = {each.id for each in lake.trajectories(run_id="guide.round-2.rollout")}
    assert explored.given("round-2.grow")["by_signal"]["blamed"]["contexts"] > 0
    assert grown and any(how.source.seen in guided for _, how in grown)  # from a walk that was guided
    assert {each.task_id for each in carried} == {task.id for task, _ in grown}
    assert all(each.outcome.success for each in carried)
    assert {each.task_id: each.turns for each in carried} == {task.id: len(how.solution) for task, how in grown}
    found = corpus(evolved)
    faults = {walk["id"]: [turn for turn in walk["turns"] if BLAMED in turn["faults"]] for walk in found.walks}
    assert blamed and sum(map(len, faults.values())) > 0
    assert all(walk in guided for walk, turns in faults.items() if turns)
    assert evolved.given("raw")["achieved"]  # its own walks all succeeded: of walks of the other loops
    assert evolved.given("first")["turns"] > 0
