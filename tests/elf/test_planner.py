"""The planner without a model: intents, their plans, and what is refused. The sets are those of benchmarks/elf.py."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from silva.elf.checking import checked, faults
from silva.elf.intent.framing import framed
from silva.elf.intent.known import Known
from silva.elf.intent.offline import OfflinePlanner
from silva.elf.plan import Budget, Plan, Step, read_plan
from silva.elf.tool import Permission
from silva.elf.toolbox import Toolbox, own
from silva.errors import UsageError

INTENTS = Path(__file__).parents[2] / "benchmarks" / "elf_intents"
KNOWN = Known(runs=("expert", "night"), envs=("babyai",), files=("alpaca.jsonl",))


@pytest.fixture(scope="module")
def tools() -> Toolbox:
    return Toolbox(own())


@pytest.fixture(scope="module")
def planner(tools: Toolbox) -> OfflinePlanner:
    return OfflinePlanner(tools.cards)


def test_there_are_thirty_tools_and_each_says_what_it_takes(tools: Toolbox) -> None:
    assert len(tools.cards) >= 30
    for card in tools.cards.values():
        function = card.schema["function"]
        assert function["description"] and function["parameters"]["additionalProperties"] is False
        assert set(function["parameters"]["required"]) <= set(function["parameters"]["properties"])
        assert card.asks, card.name


def test_development_intents_are_planned_as_they_should_be(planner: OfflinePlanner, tools: Toolbox) -> None:
    bench = runpy.run_path(str(INTENTS.parent / "elf.py"))
    rows = [json.loads(line) for line in (INTENTS / "development.jsonl").read_text().splitlines()]
    wrong = [(row["intent"], why) for row in rows if (why := bench["judged"](row, planner, tools, bench["WORLD"]))]
    assert not wrong


@pytest.mark.parametrize(
    ("intent", "said"),
    [
        ("", "an intent is needed"),
        ("x" * 5000, "at most 4,000 are read"),
        ("translate the runs of night to French", "capability missing: translation"),
        ("deduplicate alpaca.jsonl, then frobnicate it", "no tool can 'frobnicate'"),
        ("the weather is nice", "not understood"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(planner: OfflinePlanner, intent: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        planner.plan(intent, KNOWN)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_what_is_left_open_is_asked_and_never_runs(planner: OfflinePlanner, tools: Toolbox) -> None:
    plan = planner.plan("summarise the run", KNOWN)
    assert plan.asks == ("summarise-run: which run? (there are: expert, night)",)
    with pytest.raises(UsageError, match="not clear"):
        checked(plan, tools, (Permission.READ,), Budget())
    plan = planner.plan("score alpaca.jsonl with bleurt_20", KNOWN)
    assert plan.asks == ("score-rows: which scorer? there is no bleurt_20 (silva data scorers lists them)",)
    plan = planner.plan("score alpaca.jsonl with fused_local", KNOWN)
    assert plan.step("score-rows").settings == {"scorer": "fused_local"} and not plan.asks


def rows_from(name: str) -> Step:
    return Step(id=name, tool="read-rows", settings={"source": "alpaca.jsonl"})


@pytest.mark.parametrize(
    ("steps", "kind", "said"),
    [
        ([Step(id="a", tool="melt")], "tool", "there is no tool 'melt'"),
        ([Step(id="a", tool="read-rows")], "setting", "needs its setting source"),
        ([Step(id="a", tool="read-rows", settings={"source": "x", "count": "many"})], "setting", "count is 'many'"),
        ([Step(id="a", tool="read-rows", settings={"source": "x", "speed": 9})], "setting", "no setting 'speed'"),
        ([Step(id="a", tool="deduplicate")], "type", "needs rows as rows"),
        (
            [rows_from("r"), Step(id="a", tool="write-table", inputs={"table": ("r",)})],
            "type",
            "takes table as table, r",
        ),
        ([Step(id="a", tool="deduplicate", inputs={"rows": ("ghost",)})], "type", "no such step"),
        (
            [
                Step(id="a", tool="deduplicate", inputs={"rows": ("b",)}),
                Step(id="b", tool="deduplicate", inputs={"rows": ("a",)}),
            ],
            "circle",
            "go in a circle",
        ),
        ([Step(id="a", tool="mask-turns", settings={"run": "night"})], "permission", "needs the permission write"),
        ([rows_from("a")] * 2, "type", "two steps have this id"),
    ],
)
def test_an_ill_typed_or_over_permitted_plan_has_its_fault_named(
    tools: Toolbox, steps: list[Step], kind: str, said: str
) -> None:
    found = faults(Plan(steps=tuple(steps)), tools, (Permission.READ,), Budget())
    assert any(each.kind == kind and said in each.why for each in found), found
    with pytest.raises(UsageError, match="may not run"):
        checked(Plan(steps=tuple(steps)), tools, (Permission.READ,), Budget())


def test_a_plan_beyond_its_budget_never_runs(tools: Toolbox) -> None:
    model = Plan(steps=(Step(id="a", tool="mask-turns-by-model", settings={"run": "night"}),))
    found = faults(model, tools, tuple(Permission), Budget(tokens=100))
    assert [each.kind for each in found] == ["budget"] and "20000 tokens, the budget is 100" in found[0].why


def test_a_plan_of_a_stranger_is_read_strictly() -> None:
    with pytest.raises(UsageError, match="unknown field"):
        read_plan(b'{"steps": [], "exec": "import os"}', "here")
    with pytest.raises(UsageError, match="format 9"):
        read_plan(b'{"steps": [], "format": 9}', "here")


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ("keep rows of a.jsonl longer than 20 words", ["words > 20"]),
        ("deduplicate a.jsonl and drop rows longer than 120 words", ["(words > 120) is not true"]),
        ("remove rows of a.jsonl with fewer than 5 words", ["(words < 5) is not true"]),
        ("filter out rows with empty replies from a.jsonl", ["(reply = '') is not true"]),
        (
            "drop rows longer than 120 words or labelled spam from a.jsonl",
            ["(words > 120 or cast(label as varchar) = 'spam') is not true"],
        ),
        ("keep rows longer than 100 words or shorter than 5 words of a.jsonl", ["(words > 100 or words < 5)"]),
        ("remove duplicates from rows of a.jsonl longer than 20 words", ["words > 20"]),
        (
            "drop rows labelled spam, keep those with at least 3 words",
            ["(cast(label as varchar) = 'spam') is not true", "words >= 3"],
        ),
    ],
)
def test_what_is_to_be_dropped_is_not_what_is_kept(said: str, rows: list[str]) -> None:
    assert framed(said, Known(), 0.0).rows == rows
