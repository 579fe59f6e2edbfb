"""What a round is trained on: samples that the policy can read, and what is said of those it cannot. And who may
promote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from policy_folders import adapter as adapter_folder
from policy_folders import base as base_weights_folder
from pydantic import ValidationError

from silva.errors import UsageError
from silva.loops.apollo.config import ApolloConfig
from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.kind import FLYWHEEL
from silva.loops.flywheel.plan import stages
from silva.loops.kernel.ledger import Entry
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing
from silva.loops.line.config import LineConfig
from silva.loops.line.head import registry
from silva.loops.line.report import write
from silva.train.sample import Sample
from silva.train.sample_file import read_samples

ROUNDS: list[dict[str, Any]] = [{"source": "expert", "steps": 1}]


def chains(folder: Path, context: int | None = None) -> Loop[LineConfig]:
    """A loop over sums of several turns."""
    policy = {"base": "tiny", "method": "full", "tiny_tasks": 10, "shape": {"width": 64, "inner": 128, "layers": 2}}
    return FLYWHEEL.open(
        FlywheelConfig.model_validate(
            {
                "folder": folder,
                "env": "arithmetic",
                "policy": {**policy, "context": context},
                "tasks": {"split": "chain", "limit": 12},
                "play": {"agent": "tools"},
                "rounds": ROUNDS,
            }
        )
    )


def note(loop: Loop[LineConfig], stage: str, outputs: dict[str, Any]) -> None:
    inputs = next((each.inputs for each in loop.plan if each.name == stage), "")
    loop.ledger.append(Entry(stage=stage, event="ended", inputs=inputs, at=1.0, seconds=1.0, outputs=outputs))


def selected(loop: Loop[LineConfig]) -> tuple[dict[str, Any], list[Sample]]:
    stage = next(each for each in loop.plan if each.kind == "select")
    outputs = FLYWHEEL.run(loop, stage)
    return outputs, list(read_samples(loop.folder / str(outputs["file"])))


def test_samples_longer_than_the_policys_context_are_cut_behind_an_action_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = chains(tmp_path / "loop")
    for stage in loop.plan[:3]:
        note(loop, stage.name, FLYWHEEL.run(loop, stage))
    outputs, whole = selected(loop)
    assert (outputs["truncated"], outputs["dropped"]) == (0, 0) and "left out or cut" not in capsys.readouterr().err
    lengths = sorted(len(sample) for sample in whole)
    shortest = min(sample.actions[0].stop for sample in whole)
    limit = lengths[len(lengths) // 2]
    assert shortest < limit < lengths[-1]

    short = chains(tmp_path / "loop", context=limit)
    outputs, cut = selected(short)
    longer = sum(length > limit for length in lengths)
    assert outputs["truncated"] == longer and outputs["dropped"] == 0 and outputs["of"] == len(whole)
    assert f"round-1.select: left out or cut, longer than the {limit} ids" in capsys.readouterr().err
    assert all(len(sample) <= limit for sample in cut) and len(cut) == len(whole)
    full = {sample.trajectory_id: sample for sample in whole}
    for sample in cut:
        before = full[sample.trajectory_id]
        assert sample.ids.tolist() == before.ids[: len(sample)].tolist()
        assert sample.actions == before.actions[: len(sample.actions)] and sample.mask.any()
        assert len(sample) in (len(before), sample.actions[-1].stop)

    note(short, "round-1.select", outputs)
    assert f"<small>{longer} truncated</small>" in write(short, "flywheel").read_text(encoding="utf-8")

    firsts = sorted(sample.actions[0].stop for sample in whole)
    few = chains(tmp_path / "loop", context=firsts[0])
    outputs, left = selected(few)
    assert outputs["dropped"] == sum(stop > firsts[0] for stop in firsts) and len(left) + outputs["dropped"] == len(
        whole
    )
    with pytest.raises(Nothing, match=rf"\({len(whole)} were too long for the policy\)"):
        selected(chains(tmp_path / "loop", context=firsts[0] - 1))


def test_nobody_is_promoted_over_a_version_that_others_promoted(tmp_path: Path) -> None:
    loop = FLYWHEEL.open(FlywheelConfig.model_validate({"folder": tmp_path, "env": "arithmetic", "rounds": ROUNDS}))
    kept = registry(loop)
    kept.begin("flywheel", base_weights_folder(tmp_path / "small"))
    ours, theirs = (kept.register("flywheel", adapter_folder(tmp_path / f"made-{n}", seed=n)) for n in (1, 2))
    base = kept.line("flywheel").versions[0]
    kept.promote(theirs.name, by="somebody else")
    note(loop, "base", {"version": base.name})
    note(loop, "round-1.register", {"version": ours.name})
    stage = next(each for each in loop.plan if each.kind == "judge")
    with pytest.raises(UsageError, match=f"line flywheel: {theirs.name} was promoted by others") as told:
        FLYWHEEL.run(loop, stage)
    assert base.name in str(told.value) and "\n" not in str(told.value)
    line = kept.line("flywheel")
    assert line.versions[line.head].name == theirs.name and line.status(ours) == "candidate"


# What is refused before anything is played


def test_a_key_and_parameters_that_later_stages_read_are_refused_by_the_first(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    bad = {"source": "policy", "steps": 1, "algorithm": {"name": "grpo", "parameters": {"klip": 3}}}
    values: dict[str, Any] = {"folder": tmp_path, "env": "arithmetic", "rounds": [*ROUNDS, bad]}
    loop = FLYWHEEL.open(FlywheelConfig.model_validate(values))
    first = {each.kind: each for each in reversed(loop.plan)}
    for kind in ("base", "rollout"):  # the latter where the round was added to a loop that had ended
        with pytest.raises(UsageError, match="round 2: algorithm grpo: klip"):
            FLYWHEEL.run(loop, first[kind])
    loop = FLYWHEEL.open(FlywheelConfig.model_validate({**values, "rounds": ROUNDS, "tasks": {"key": "anything"}}))
    with pytest.raises(UsageError, match="key 'anything' is not known"):
        FLYWHEEL.run(loop, loop.plan[0])
    assert not any(tmp_path.iterdir())


# Where it is played


def test_where_episodes_are_played_decides_nothing_and_may_change(tmp_path: Path) -> None:
    values: dict[str, Any] = {"folder": tmp_path, "env": "arithmetic", "rounds": ROUNDS}
    there = {"on": "ray", "ray": {"workers": 2}}
    one, other = (FlywheelConfig.model_validate({**values, "play": play}) for play in ({}, there))
    assert stages(one) == stages(other)


@pytest.mark.parametrize("places", [{"folder": "demo/loop"}, {"policy": {"base": "weights", "method": "lora"}}])
def test_on_ray_a_place_that_other_nodes_cannot_find_is_refused(tmp_path: Path, places: dict[str, Any]) -> None:
    values: dict[str, Any] = {"folder": str(tmp_path), "env": "arithmetic", "rounds": ROUNDS, **places}
    assert FlywheelConfig.model_validate(values).play.on == "local"
    with pytest.raises(ValidationError, match="means another place on another node"):
        FlywheelConfig.model_validate({**values, "play": {"on": "ray"}})


def test_a_guided_loop_is_not_played_on_ray_where_nobody_is_heard(tmp_path: Path) -> None:
    values: dict[str, Any] = {"folder": tmp_path, "env": "arithmetic", "rounds": ROUNDS, "play": {"on": "ray"}}
    with pytest.raises(ValidationError, match="do not hear people"):
        ApolloConfig.model_validate(values)
    assert ApolloConfig.model_validate({**values, "guidance": False}).play.on == "ray"
