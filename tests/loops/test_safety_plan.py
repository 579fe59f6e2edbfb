"""The safety loop's configuration and plan: what is learnt from and what is held out are apart before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from silva.loops.kernel.kinds import kind
from silva.loops.line.plan import decisive_values
from silva.loops.line.verdict import Verdict, gain
from silva.loops.safety.held import safety, useful
from silva.tree import Outcome, Status, Trajectory

EXAMPLES = Path(__file__).parents[2] / "examples" / "safety"


def configured(**changes: Any) -> Any:
    said = yaml.safe_load((EXAMPLES / "errands.yaml").read_text(encoding="utf-8"))
    return kind("safety").config.model_validate({**said, **changes})


def test_the_examples_are_plans_and_what_they_attack_with_decides_all_stages() -> None:
    mine = kind("safety")
    loop = mine.plan(configured())
    assert [each.kind for each in loop][:5] == ["base", "survey", "split", "measure", "guard"]
    assert [each.name for each in loop][5:9] == ["round-1.attack", "round-1.explore", "round-1.select", "round-1.train"]
    large = mine.config.model_validate(yaml.safe_load((EXAMPLES / "endpoint.yaml").read_text(encoding="utf-8")))
    assert sum(each.kind == "guard" for each in mine.plan(large)) == 3

    read = configured().attacks  # a list stands for each of its attacks with each of its goals
    assert len({(each.attack, each.wish) for each in read.learn}) == len(read.learn) == 24 and len(read.held_out) == 2
    attacks = read.model_dump()
    other = configured(attacks={**attacks, "held_out": attacks["held_out"][:1]})
    assert all(one.inputs != two.inputs for one, two in zip(loop, mine.plan(other), strict=True))
    searched = configured(find={"turns": 7})
    assert [one.inputs == two.inputs for one, two in zip(loop, mine.plan(searched), strict=True)][3:7] == [
        True,
        True,
        False,
        False,
    ]


def test_whose_word_pairs_are_taken_at_decides_a_round_and_the_verifiers_is_as_before() -> None:
    mine, said = kind("safety"), configured()
    rounds = [each.model_dump(mode="json") for each in said.rounds]
    people = configured(rounds=[{**each, "judged_by": "people"} for each in rounds])
    before = decisive_values(said)["rounds"][0]
    assert "judged_by" not in before and decisive_values(people)["rounds"][0]["judged_by"] == "people"
    changed = [one.inputs != two.inputs for one, two in zip(mine.plan(said), mine.plan(people), strict=True)]
    assert not any(changed[:5]) and all(changed[5:])


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"attacks": {"learn": [{"attack": "a/b/c"}], "held_out": []}}, "there is no surface 'a'"),
        (
            {
                "attacks": {
                    "learn": [{"attack": "tool_result/plain/leak"}],
                    "held_out": [{"attack": "document/plain/deny"}],
                }
            },
            "its framing plain is learnt from",
        ),
        (
            {
                "attacks": {
                    "learn": [{"attack": "tool_result/plain/leak"}],
                    "held_out": [{"attack": "document/authority/leak"}],
                }
            },
            "its goal is learnt from",
        ),
        ({"rounds": [{"steps": 5, "algorithm": {"name": "grpo"}, "group": 2}]}, "sft or dpo"),
        ({"rounds": [{"steps": 5, "source": "expert"}]}, "a round attacks the policy"),
        (
            {"rounds": [{"steps": 5, "algorithm": {"name": "dpo"}, "group": 2, "control": "benign"}]},
            "without an unsafe side are no pairs",
        ),
    ],
)
def test_what_proves_nothing_is_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ValidationError, match=line):
        configured(**changes)


def attempt(task: str, **attack: Any) -> Trajectory:
    return Trajectory(
        id=f"{task}{attack}",
        run_id="r",
        tree_id="t",
        task_id=task,
        env="e",
        index=0,
        attempt=0,
        seed=0,
        leaf_id="n",
        outcome=Outcome(status=Status.COMPLETED, score=1.0, success=True),
        attributes={"attack": {"name": "x", **attack}},
    )


def test_who_saw_no_attack_is_not_safe_and_equal_use_at_every_task_is_enough() -> None:
    found = safety([attempt("a", exposed=2, reached=3), attempt("a", exposed=2), attempt("b", launched=True)])
    assert found == {"a": 0.5}

    def verdict(*differences: float) -> Verdict:
        worse = sum(each < 0 for each in differences)
        return Verdict(
            left="l",
            right="r",
            tasks=len(differences),
            left_rate=0.5,
            right_rate=0.5,
            gain=gain(differences),
            better=0,
            worse=worse,
        )

    assert useful(verdict(0.0, 0.0, 0.0), -0.02) and not useful(verdict(0.0, -1.0, 0.0), -0.02)
    assert useful(verdict(*[0.0] * 400, -1.0), -0.02)
