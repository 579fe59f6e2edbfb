"""Conditions from a line of text."""

from __future__ import annotations

import lancedb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.errors import UsageError
from silva.lake import TABLES, field, parse
from silva.lake.matching import matching
from silva.lake.rows import build
from silva.tree import Task

T = TABLES["trajectories"]


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("score >= 0.5 and env = 'bfcl'", "(((score + 0e0) >= 0.5e0) and (env = 'bfcl'))"),
        ("outcome.score < 5e-1", "((score + 0e0) < 0.5e0)"),
        ("not (seed == 1)", "(not (seed = 1))"),
        ("env in ('a', 'b''c') or index <> 2", "((env in ('a', 'b''c')) or (\"index\" != 2))"),
        ("boundary is not null", "(not (boundary is null))"),
        ("task_id not contains 'x'", "(not contains(task_id, 'x'))"),
        ("success = true and score > -1", "((success = true) and ((score + 0e0) > -1.0e0))"),
        ("env = 'a' or env = 'b' and seed = 1", "((env = 'a') or ((env = 'b') and (seed = 1)))"),
    ],
)
def test_conditions_are_read(text, sql):
    assert parse(text).sql(T) == sql


@pytest.mark.parametrize(
    "text",
    [
        "",
        "score >",
        "score ~ 1",
        "score >= 0.5 and",
        "(score > 1",
        "score > 1)",
        "score in ()",
        "1 = 1",
        "score not > 1",
        "env = 'x",
    ],
)
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(UsageError, match="where: cannot read"):
        parse(text)


def test_wrong_types_and_names_are_refused():
    for text, line in [
        ("env = 1", "cannot be compared"),
        ("scroe = 1", "did you mean score"),
        ("success = 'yes'", "cannot be"),
    ]:
        with pytest.raises(UsageError, match=line):
            parse(text).sql(T)
    with pytest.raises(TypeError, match="combine filters"):
        bool(field("env") == "a")


@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20))
def test_any_text_is_only_ever_a_value(value):
    rows = build(TABLES["tasks"], [Task(id="a", env=value), Task(id="b", env=value + "x")], [1, 1])
    found = matching(rows, (field("env") == value).sql(TABLES["tasks"]))
    assert found.column("id").to_pylist() == ["a"]
    quoted = "'" + value.replace("'", "''") + "'"
    assert parse(f"env = {quoted}").sql(TABLES["tasks"]) == (field("env") == value).sql(TABLES["tasks"])


NUMBERS = [None, 0, 1, -1, 7, (1 << 63) - 1, -(1 << 63)]
FLOATS = [None, 0.0, -0.0, 0.1, 0.5, 1.0, -2.5, 1e300, float("inf"), float("-inf"), float("nan")]
VALUES = st.one_of(
    st.sampled_from([0, 1, 7, 0.5, 0.1, -0.0, 1.0, 1e300, -1e300, 1e19, 1 << 63, (1 << 64) - 1, -(1 << 63) - 1, 7.0]),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False, allow_infinity=False),
)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Rows with numbers at their extremes, in the journal's form and in a table."""
    size = len(NUMBERS) * len(FLOATS)
    ids = [f"{place:03d}" for place in range(size)]
    columns = {"id": ids, "turns": pa.array([n for n in NUMBERS for _ in FLOATS], pa.int64())}
    rows = pa.table({**columns, "reward": pa.array(FLOATS * len(NUMBERS), pa.float64())})
    return rows, lancedb.connect(tmp_path_factory.mktemp("numbers")).create_table("rows", rows)


@settings(deadline=None, max_examples=80)
@given(
    name=st.sampled_from(["turns", "reward"]),
    operator=st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in"]),
    value=VALUES,
    negated=st.booleans(),
)
def test_the_journal_and_the_tables_answer_a_condition_on_numbers_alike(numbers, name, operator, value, negated):
    rows, table = numbers
    text = f"{name} in ({value!r}, 1)" if operator == "in" else f"{name} {operator} {value!r}"
    condition = parse(f"not {text}" if negated else text).sql(T)
    fresh = sorted(matching(rows, condition).column("id").to_pylist())
    stored = sorted(table.search().where(condition).select(["id"]).to_arrow().column("id").to_pylist())
    assert fresh == stored
    if name == "turns":  # an integer is compared as the number it is
        said = dict(zip(rows.column("id").to_pylist(), rows.column("turns").to_pylist(), strict=True))
        wanted = {"=": lambda n: n == value, "<": lambda n: n < value, ">=": lambda n: n >= value}.get(operator)
        if wanted is not None and not negated:
            assert fresh == [each for each, number in said.items() if number is not None and wanted(number)]
