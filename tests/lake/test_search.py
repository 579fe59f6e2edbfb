"""A query finds the same before and after compaction and under an index."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from silva.errors import UsageError
from silva.lake import Lake
from silva.tree import Author, Node, assistant, node_id

LONG = "deadbeef" * 8
TEXTS = [
    "请把发票总额写入表格 invoice",
    f"sha {LONG} end",
    "path /usr/lib/python3.11/site-packages/foo_bar.py here",
    "running runs run",
    "the a an",
    "C++ vs C#",
    "don't stop",
    "naïve café",
    "snake_case_name",
    "ÅNGSTRÖM ß STRASSE",
    "emoji 🔑 key",
]
FOUND = {
    "发票": [0],
    "invoice": [0],
    LONG: [1],
    "foo_bar": [2],
    "foo_bar.py": [2],
    "foo": [2],
    "run": [3],
    "the": [4],
    "C++": [5],
    "don't": [6],
    "cafe": [7],
    "CAFÉ": [7],
    "snake_case_name": [8],
    "snake": [8],
    "ångström": [9],
    "strasse": [9],
    "straße": [9],
    "🔑": [10],
    '"python3.11"': [2],
    '"naïve  Café"': [7],
    '"café naïve"': [],
    "invoice stop": [0, 6],
    "inv": [],
}


def node(text: str) -> Node:
    message = assistant(text)
    return Node(
        id=node_id("t", None, Author.POLICY, message, None, "0.0"),
        run_id="r",
        tree_id="t",
        parent_id=None,
        depth=0,
        author=Author.POLICY,
        message=message,
        slot="0.0",
    )


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """The texts in the journal, in a table, under an index; and a third of them in each, as a lake is while it is
    written."""
    opened: list[Lake] = []
    for name in ("journal", "table", "index", "beside"):
        lake = Lake.open(tmp_path_factory.mktemp("search") / name)
        if name == "beside":
            lake.append_sync([node(text) for text in TEXTS[:4]])
            lake.compact()
            lake.optimize()
            lake.append_sync([node(text) for text in TEXTS[4:8]])
            lake.compact()
            lake.append_sync([node(text) for text in TEXTS[8:]])
            opened.append(lake)
            continue
        lake.append_sync([node(text) for text in TEXTS])
        if name != "journal":
            lake.compact()
        if name == "index":
            lake.optimize()
        opened.append(lake)
    yield opened
    for lake in opened:
        lake.close_sync()


@pytest.mark.parametrize("query", FOUND)
def test_a_query_finds_what_it_means(lakes, query):
    for lake in lakes:
        found = {node.message.text for score, node in lake.search(query) if score > 0}
        assert found == {TEXTS[place] for place in FOUND[query]}


def answer(lake: Lake, query: str) -> set[str] | str:
    """What is found, or why the query is refused: two quotes around nothing ask for nothing."""
    try:
        return {node.id for _, node in lake.search(query)}
    except UsageError as refused:
        return str(refused)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(['"', '"'])
@given(
    st.lists(
        st.sampled_from([*sorted({word for text in TEXTS for word in text.split()}), "py", "x", '"', "_", "é"]),
        min_size=1,
        max_size=3,
    )
)
def test_the_journal_the_table_and_the_index_agree(lakes, words):
    answers = [answer(lake, " ".join(words)) for lake in lakes]
    assert answers[0] == answers[1] == answers[2] == answers[3]
