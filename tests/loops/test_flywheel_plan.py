"""The flywheel's plan, ledger and verdict: pure parts, and what bad input is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_folders import adapter as adapter_folder
from policy_folders import base as base_weights_folder
from pydantic import ValidationError

from silva.errors import StoreError, UsageError
from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.kind import FLYWHEEL
from silva.loops.flywheel.plan import stages
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.ledger import FILE, Entry, StageLedger
from silva.loops.kernel.stage import before
from silva.loops.kernel.turn import check
from silva.loops.line.head import head_of, head_so_far, registry
from silva.loops.line.verdict import gain, judge, rates
from silva.loops.line.weights import playing, trained_from
from silva.rollout import RolloutConfig
from silva.tree import Boundary, Failure, Outcome, Status, Trajectory

SFT: dict[str, Any] = {"source": "expert", "steps": 4}
GRPO: dict[str, Any] = {"source": "policy", "algorithm": {"name": "grpo"}, "steps": 2}


def config(folder: Path = Path("loop"), **more: Any) -> FlywheelConfig:
    return FlywheelConfig.model_validate({"folder": folder, "env": "babyai", "rounds": [SFT, GRPO], **more})


def entry(stage: str, event: Any = "ended", inputs: str = "i", **more: Any) -> Entry:
    return Entry(stage=stage, event=event, inputs=inputs, at=1.0, **more)


def attempt(task: str, success: bool | None, index: int = 0, run: str = "r") -> Trajectory:
    failure = Failure(boundary=Boundary.MODEL, code="model.timeout", message="late") if success is None else None
    status = Status.COMPLETED if success is not None else Status.FAILED
    score = None if success is None else float(success)
    return Trajectory(
        id=f"{run}{task}{index}",
        tree_id=f"{run}{task}",
        run_id=run,
        task_id=task,
        env="babyai",
        index=index,
        attempt=0,
        seed=0,
        leaf_id=None,
        outcome=Outcome(status=status, score=score, success=success, failure=failure),
    )


def test_an_expert_round_needs_no_rollout_and_a_loop_without_test_no_proof() -> None:
    names = [stage.name for stage in stages(config(tasks={"train": 0.7, "dev": 0.3, "test": 0.0}))]
    assert "round-1.rollout" not in names and "round-2.rollout" in names
    assert not any(name.startswith("prove") for name in names)
    assert names[:4] == ["base", "survey", "split", "measure"]


@given(st.integers(1, 4), st.integers(1, 3))
def test_rounds_added_leave_the_stages_before_them_as_they_were(some: int, more: int) -> None:
    short = stages(config(rounds=[SFT] + [GRPO] * (some - 1)))
    long = stages(config(rounds=[SFT] + [GRPO] * (some - 1 + more)))
    known = {stage.name: stage for stage in long}
    for stage in short:
        if stage.kind not in ("prove", "report"):
            assert known[stage.name] == stage
    assert len({stage.seed for stage in long}) == len(long)


@pytest.mark.parametrize(
    "changed", [{"seed": 1}, {"env": "textworld"}, {"measure": {"seeds": 5}}, {"play": {"max_tokens": 9}}]
)
def test_another_configuration_is_another_plan(changed: dict[str, Any]) -> None:
    assert all(a.inputs != b.inputs for a, b in zip(stages(config()), stages(config(**changed)), strict=True))


def test_how_fast_and_how_often_may_change() -> None:
    other = config(play={"pool": 1}, threads=1, rounds=[{**SFT, "checkpoint_every": 1}, GRPO])
    assert stages(other) == stages(config())


def test_a_round_changed_changes_only_what_comes_after_its_beginning() -> None:
    one = stages(config())
    other = stages(config(rounds=[SFT, {**GRPO, "group": 4}]))
    same = [a.name for a, b in zip(one, other, strict=True) if a == b]
    assert same == [stage.name for stage in before(next(s for s in one if s.round == 2), one)]


def test_the_ledger_keeps_what_was_written_and_cuts_off_a_torn_line(tmp_path: Path) -> None:
    ledger = StageLedger(tmp_path)
    ledger.append(entry("base", "begun"))
    ledger.append(entry("base", outputs={"version": "a-0"}))
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole + b'{"stage": "surv')
    again = StageLedger(tmp_path)
    assert [each.event for each in again.entries] == ["begun", "ended"]
    again.append(entry("survey", "begun"))
    assert (tmp_path / FILE).read_bytes().startswith(whole)
    assert [each.stage for each in StageLedger(tmp_path).entries] == ["base", "base", "survey"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 400))
def test_a_ledger_cut_anywhere_holds_its_whole_lines(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = StageLedger(folder)
    for number in range(3):
        ledger.append(entry(f"s{number}"))
    data = (folder / FILE).read_bytes()[:cut]
    (folder / FILE).write_bytes(data)
    assert len(StageLedger(folder).entries) == data.count(b"\n")


def test_a_ledger_damaged_in_the_middle_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not json\n")
    with pytest.raises(StoreError, match=r"ledger.jsonl line 1"):
        StageLedger(tmp_path)


def test_a_folder_of_another_configuration_is_refused(tmp_path: Path) -> None:
    loop = FLYWHEEL.open(config(tmp_path))
    loop.keep_config()
    loop.ledger.append(entry("base", inputs=loop.plan[0].inputs, outputs={"version": "flywheel-0"}))
    check(FLYWHEEL.open(config(tmp_path)))
    with pytest.raises(UsageError, match="stage base was of another configuration"):
        check(FLYWHEEL.open(config(tmp_path, seed=3)))


def test_another_lake_is_refused_and_a_folder_that_moved_with_its_own_is_not(tmp_path: Path) -> None:
    loop = FLYWHEEL.open(config(tmp_path / "here"))
    loop.folder.mkdir()
    loop.keep_config()
    loop.ledger.append(entry("base", inputs=loop.plan[0].inputs, outputs={"version": "flywheel-0"}))
    with pytest.raises(UsageError, match=r"what it has made is in lake .*here/lake, not in elsewhere"):
        check(FLYWHEEL.open(config(tmp_path / "here", lake="elsewhere")))
    loop.folder.rename(tmp_path / "there")
    check(FLYWHEEL.open(config(tmp_path / "there")))


def test_a_folder_with_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds thesis\.txt and no loop"):
        check(FLYWHEEL.open(config(tmp_path)))
    with pytest.raises(UsageError, match="holds no loop"):
        read_loop(tmp_path)[1]
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_head_is_the_last_one_promoted_before_a_stage(tmp_path: Path) -> None:
    loop = FLYWHEEL.open(config(tmp_path, rounds=[SFT, GRPO, GRPO]))
    loop.ledger.append(entry("base", outputs={"version": "flywheel-0"}))
    loop.ledger.append(entry("round-1.judge", outputs={"promoted": True, "candidate": "flywheel-1"}))
    loop.ledger.append(entry("round-2.judge", outputs={"promoted": False, "candidate": "flywheel-2"}))
    by_name = {stage.name: stage for stage in loop.plan}
    assert head_of(loop, by_name["round-1.train"]) == "flywheel-0"
    assert head_of(loop, by_name["round-2.judge"]) == "flywheel-1"
    assert head_of(loop, by_name["round-3.rollout"]) == "flywheel-1"
    assert head_of(loop, by_name["prove-after-3"]) == "flywheel-1"


def test_rounds_added_after_a_proof_that_rolled_back_start_from_the_base(tmp_path: Path) -> None:
    loop = FLYWHEEL.open(config(tmp_path, rounds=[SFT]))
    assert head_so_far(loop) == ""
    loop.ledger.append(entry("base", outputs={"version": "flywheel-0"}))
    loop.ledger.append(entry("round-1.judge", outputs={"promoted": True, "candidate": "flywheel-1"}))
    assert head_of(loop) == "flywheel-1"
    loop.ledger.append(entry("prove-after-1", outputs={"rolled_back": True, "base": "flywheel-0"}))
    longer = FLYWHEEL.open(config(tmp_path, rounds=[SFT, GRPO]))
    by_name = {stage.name: stage for stage in longer.plan}
    assert head_of(longer, by_name["round-2.rollout"]) == head_of(longer, by_name["round-2.judge"]) == "flywheel-0"
    assert head_of(loop) == head_of(longer) == "flywheel-0"
    longer.ledger.append(entry("round-2.judge", outputs={"promoted": True, "candidate": "flywheel-2"}))
    assert head_of(longer) == head_of(longer, by_name["prove-after-2"]) == "flywheel-2"


def test_training_goes_on_from_the_registrys_copy_of_an_adapter_beside_what_plays(tmp_path: Path) -> None:
    base = base_weights_folder(tmp_path / "small")
    (tmp_path / "named").symlink_to(base, target_is_directory=True)
    loop = FLYWHEEL.open(config(tmp_path / "loop", policy={"base": str(tmp_path / "named"), "method": "lora"}))
    kept = registry(loop)
    kept.begin("flywheel", base)
    version = kept.register("flywheel", adapter_folder(tmp_path / "trained"))
    played = playing(loop, version.name)
    policy = trained_from(loop, version.name)
    assert policy.start is not None and Path(policy.weights).name == "small"
    said = json.loads((policy.start / "adapter_config.json").read_text(encoding="utf-8"))
    assert said["base_model_name_or_path"] == "small"
    assert (Path(played.removeprefix("local:")) / "model.safetensors").is_file()
    assert playing(loop, version.name) == played and policy.start.is_dir()
    elsewhere = loop.config.model_copy(update={"play": loop.config.play.model_copy(update={"engine": "vllm"})})
    on_a_gpu = FLYWHEEL.open(elsewhere)
    assert playing(on_a_gpu, version.name) == f"vllm:{played.removeprefix('local:')}"
    assert on_a_gpu.plan == loop.plan  # where it is computed decides no result


def test_a_gain_on_every_task_is_proven_and_one_on_few_is_not() -> None:
    left = [attempt(f"t{n}", False) for n in range(20)]
    clear = judge(left, [attempt(f"t{n}", n % 5 > 0, run="s") for n in range(20)], "a-0", "a-1")
    assert clear.proven_better() and clear.better == 16 and clear.right_rate == pytest.approx(0.8)
    assert not clear.proven_better(least=0.79)
    slight = judge(left, [attempt(f"t{n}", n == 0, run="s") for n in range(20)], "a-0", "a-1")
    assert not slight.proven_better() and not slight.proven_worse
    back = judge([attempt(f"t{n}", n % 5 > 0, run="s") for n in range(20)], left, "a-1", "a-0")
    assert back.proven_worse


def test_an_attempt_that_broke_counts_as_no_success() -> None:
    left = [attempt(f"t{n}", True) for n in range(10)]
    broke = judge(left, [attempt(f"t{n}", None if n < 5 else True, run="s") for n in range(10)], "a", "b")
    assert broke.tasks == 10 and broke.right_rate == 0.5


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=60))
def test_an_interval_of_gains_holds_its_mean_and_stays_possible(differences: list[float]) -> None:
    found = gain(differences)
    assert found is not None and found.low is not None and found.high is not None
    assert -1 <= found.low <= found.value + 1e-9 and found.value - 1e-9 <= found.high <= 1
    assert found.low < found.high


def test_one_task_is_too_little_to_judge_by() -> None:
    verdict = judge([attempt("t", False)], [attempt("t", True, run="s")], "a", "b")
    assert not verdict.proven_better() and "too few" in str(verdict)


def test_rates_are_by_task_over_its_seeds() -> None:
    assert rates([attempt("t", True, 0), attempt("t", False, 1), attempt("u", None)]) == {"t": 0.5, "u": 0.0}


def test_of_several_attempts_at_one_place_the_last_counts() -> None:
    lost, again = attempt("t", None), msgspec.structs.replace(attempt("t", True), id="again", attempt=1)
    assert rates([lost, again]) == rates([again, lost]) == {"t": 1.0}


def test_the_longest_name_of_a_line_leaves_names_for_its_runs(tmp_path: Path) -> None:
    loop = FLYWHEEL.open(config(tmp_path, line="l" * 45))
    longest = f"{loop.config.line}.test.{loop.config.line}-999"
    for run in (longest, *map(loop.run_name, loop.plan)):
        assert RolloutConfig.model_validate({"run": run, "env": "babyai", "policy": "expert"}).run == run
    with pytest.raises(ValidationError, match="at most 45"):
        config(tmp_path, line="l" * 46)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"rounds": [{"source": "expert"}]}, "steps or epochs"),
        ({"rounds": [{"source": "expert", "steps": 9, "optimiser": {"warmup": 9}}]}, "9 steps leave none of 9"),
        ({"rounds": [{"source": "expert", "steps": 1, "algorithm": {"name": "grpo"}}]}, "plays each task once"),
        ({"rounds": [{**GRPO, "group": 1}]}, "at least 2"),
        ({"rounds": [{**GRPO, "algorithm": {"name": "opd"}}]}, "takes sft, grpo or dpo"),
        ({"rounds": []}, "at least 1"),
        ({"tasks": {"train": 0.9}}, "add up to"),
        ({"line": "a-1"}, "no -NUMBER"),
        ({"policy": {"base": "tiny"}}, "method: full"),
    ],
)
def test_bad_configurations_are_told_in_a_line(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        config(**changed)
