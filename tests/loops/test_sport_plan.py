"""A SPORT loop's configuration and plan, and who plays and where training begins: before anything runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from pydantic import ValidationError

from silva.curate.pairs import StepPair
from silva.curate.ratings import rating_record
from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.kernel.ledger import Entry
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Waiting
from silva.loops.line.judged import at_the_word_of
from silva.loops.line.verdict import gain, versus
from silva.loops.sport import lineup
from silva.loops.sport.config import SearchConfig, SportConfig
from silva.loops.sport.kind import SPORT
from silva.loops.sport.lineup import drawing_seed, learnt_from, player, sft_of, start
from silva.loops.sport.searched import searching
from silva.rollout.config import RolloutConfig

EXAMPLES = Path(__file__).parents[2] / "examples" / "sport"
STEPS: dict[str, Any] = {"steps": 8, "optimiser": {"warmup": 1}}
LAST: dict[str, Any] = {"from": "last"}
ROUNDS: list[dict[str, Any]] = [
    {"source": "expert", **STEPS},
    {**STEPS},
    {**STEPS},
    {"arm": "picks", "pairs_of": "", "algorithm": {"name": "sft"}, **STEPS},
    {"arm": "tries", "compare": "tries", "steps_of": "", **STEPS},
]


def config(folder: Path = Path("loop"), **more: Any) -> SportConfig:
    return SportConfig.model_validate({"folder": folder, "env": "babyai", "rounds": ROUNDS, **more})


def stood(folder: Path, **more: Any) -> Loop[SportConfig]:
    """A loop whose first three rounds are over: SFT was promoted, round 2's version was not, round 3 gave no pair."""
    loop = SPORT.open(config(folder, **more))

    def ended(stage: str, event: Any = "ended", **outputs: Any) -> None:
        loop.ledger.append(Entry(stage=stage, event=event, inputs="", at=1.0, outputs=outputs))

    def judged(candidate: str, promoted: bool) -> None:
        said = versus({}, {}, "sport-0", candidate)
        ended(f"round-{candidate[-1]}.judge", candidate=candidate, promoted=promoted, verdict=msgspec.to_builtins(said))

    ended("base", version="sport-0")
    judged("sport-1", True)
    ended("round-2.pairs", file="a")
    judged("sport-2", False)
    ended("round-3.pairs", "skipped")
    return loop


def named(loop: Loop[SportConfig], name: str) -> Any:
    return next(stage for stage in loop.plan if stage.name == name)


def test_a_round_of_preferences_searches_pairs_and_checks_before_it_trains_and_an_arm_takes_what_is_there() -> None:
    names = [stage.name for stage in SPORT.plan(config(synthesis={}))]
    of = {n: [name.partition(".")[2] for name in names if name.startswith(f"round-{n}.")] for n in (1, 3, 4, 5)}
    closing = ["select", "train", "register", "measure", "judge"]
    assert of == {
        1: closing,
        3: ["synthesise", "search", "pairs", "check", *closing],
        4: closing,
        5: ["synthesise", "rollout", *closing],
    }
    for kind in {stage.kind for stage in SPORT.plan(config(synthesis={}, tasks={"test": 0.2}))}:
        assert callable(import_module(SPORT.stages[kind]).run)
    unchecked = SPORT.plan(config(check={"pairs": 0}))
    assert not any(stage.kind in ("check", "synthesise") for stage in unchecked)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_plans(example: Path) -> None:
    said = SportConfig.model_validate(yaml.safe_load(example.read_text(encoding="utf-8")))
    kinds = [stage.kind for stage in SPORT.plan(said)]
    assert kinds.count("search") >= 1 and kinds.count("train") == len(said.rounds)


def test_what_a_search_is_decides_the_rounds_of_preferences_and_nothing_before_them() -> None:
    one, other = SPORT.plan(config()), SPORT.plan(config(search={"candidates": 5}))
    same = [a.name for a, b in zip(one, other, strict=True) if a.inputs == b.inputs]
    assert same == [
        stage.name for stage in one if stage.round == 1 or stage.name in ("base", "survey", "split", "measure")
    ]
    raised = SPORT.plan(config(play={"budget": {"tokens": 9, "seconds": 9.0}}))  # of a run whose budget was spent
    assert [each.inputs for each in raised] == [each.inputs for each in one]
    kept = config(**LAST).model_dump(mode="json")
    assert kept["from"] == "last" and SportConfig.model_validate(kept) == config(**LAST)


def test_training_begins_at_sft_on_all_pairs_so_far_or_at_the_last_version_on_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worse: set[str] = set()

    def compared(loop: Any, left: str, right: str, part: str) -> Any:
        assert (left, part) == ("sport-1", "dev")
        known = [-1.0 if right in worse else 1.0] * 12
        return msgspec.structs.replace(versus({}, {}, left, right), gain=gain(known))

    monkeypatch.setattr(lineup, "compared", compared)  # what was measured stands in a lake
    loop = stood(tmp_path / "sft")
    third, picks, tries = (named(loop, f"round-{n}.train") for n in (3, 4, 5))
    assert sft_of(loop) == "sport-1"
    assert {start(loop, each) for each in (third, picks, tries)} == {"sport-1"}
    assert learnt_from(loop, third, "pairs") == learnt_from(loop, picks, "pairs") == ["round-2.pairs"]
    assert (player(loop, third), player(loop, tries)) == ("sport-2", "sport-1")  # its arm's last; another arm's SFT
    worse.add("sport-2")
    assert player(loop, third) == "sport-1"  # one that training broke does not play
    worse.clear()
    last = stood(tmp_path / "last", **LAST)
    assert start(last, named(last, "round-3.train")) == "sport-2"
    assert learnt_from(last, named(last, "round-3.train"), "pairs") == []  # its own gave none
    first_of_arms = {drawing_seed(loop, named(loop, f"round-{n}.select")) for n in (2, 5)}
    assert len(first_of_arms) == 1 != drawing_seed(loop, third)  # the same tasks for the same iteration


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rounds": [STEPS, {"source": "expert", **STEPS}]}, "put them first"),
        ({"rounds": [{"algorithm": {"name": "grpo"}, **STEPS}]}, "preferred or imitated: dpo or sft"),
        ({"rounds": [{"arm": "b", "pairs_of": "a", **STEPS}]}, "pairs_of 'a' of round 1: no such arm has searched"),
        ({"rounds": [{"steps_of": "", **STEPS}]}, "steps_of: it is for compare: tries"),
        ({"rounds": [STEPS, {"compare": "tries", "search": {}, **STEPS}]}, "whole tries are played"),
        ({"search": {"candidates": 1}}, "greater than or equal to 2"),
        ({"search": {"verifier": "random", "prefer_by": "completions"}}, "it is not asked"),
        ({"from": "base"}, "'sft' or 'last'"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ValidationError, match=line):
        config(**changes)


def test_another_verifier_than_the_one_that_picks_may_say_what_is_preferred() -> None:
    search = SearchConfig(verifier="random", also={"completions": {"k": 2}}, prefer_by="completions")
    asked = searching(search)["stages"]["candidates"]
    assert asked == {"n": 4, "verifier": "random", "options": {"completions": {"k": 2}}, "also": ["completions"]}
    RolloutConfig.model_validate({"env": "babyai", **searching(search)})


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ({"verifier": "oracle"}, "round 2: verifier 'oracle': is not installed; there are: completions"),
        ({"options": {"k": 0}}, "round 2: verifier completions: cannot be made of its options"),
    ],
)
def test_a_verifier_that_cannot_be_made_is_refused_before_the_first_stage(
    tmp_path: Path, search: dict[str, Any], line: str
) -> None:
    pytest.importorskip("torch", reason="a loop that trains looks for it first")
    loop = SPORT.open(config(tmp_path, search=search))
    with pytest.raises(UsageError, match=line):
        SPORT.usable(loop, loop.plan[0])


def test_pairs_that_people_are_to_judge_wait_for_them_and_are_then_learnt_from_at_their_word(tmp_path: Path) -> None:
    loop = SPORT.open(config(tmp_path))
    made = [
        StepPair(
            tree_id="t",
            task_id="t",
            parent_id=f"{name}-parent",
            chosen_id=f"{name}-one",
            rejected_id=f"{name}-two",
            chosen_trajectory="x",
            rejected_trajectory="y",
            gap=0.5,
            by="completions",
        )
        for name in "abcd"
    ]
    fresh = made[1:]  # "a" is of a round before, and rated

    def rate(pair: StepPair, better: str, at: float) -> None:
        with Lake.open(loop.lake) as lake:
            lake.append_sync([rating_record(pair, better, "ann", "run", at)])

    rate(made[0], made[0].chosen_id, 1.0)
    with pytest.raises(
        Waiting, match=r"people have rated 0 of its 3 pairs, 2 are wanted: silva console --lake .+ --open"
    ):
        at_the_word_of("people", loop, made, fresh, 2)
    assert at_the_word_of("verifier", loop, made, fresh, 2) == made
    rate(made[1], made[1].rejected_id, 2.0)
    with pytest.raises(Waiting, match="rated 1 of its 3"):
        at_the_word_of("people", loop, made, fresh, 2)
    rate(made[2], "", 3.0)  # neither is better: that is a word, and no pair
    found = at_the_word_of("people", loop, made, fresh, 2)
    assert [each.chosen_id for each in found] == ["a-one", "b-two"]
    with pytest.raises(Waiting, match="rated 2 of its 3 pairs, 3 are wanted"):
        at_the_word_of("people", loop, made, fresh, 10)
    with pytest.raises(Nothing, match="prefer no step"):
        at_the_word_of("people", loop, made[2:3], made[2:3], 1)
