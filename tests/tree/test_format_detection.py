"""What format a file is in follows from its content; its name decides only where that leaves a choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_formats import walk_bundle

from silva.errors import UsageError
from silva.tree import Tree, assistant, user
from silva.tree.formats import FORMATS, WRITABLE, detect, merged, read, write

GOLDEN = Path(__file__).parent / "golden"
FILES: dict[str, str] = json.loads((GOLDEN / "formats.json").read_text())


def test_every_golden_file_is_listed() -> None:
    found = [*GOLDEN.glob("tools/*.json*"), *GOLDEN.glob("frameworks/*.jsonl"), *GOLDEN.glob("frameworks/*.eval")]
    there = {str(path.relative_to(GOLDEN)) for path in found}
    own = {name for name in there if Path(name).name.startswith("silva-")}  # listed below
    assert there - own == {name for name in FILES if not name.startswith("v1/")}
    assert set(FILES.values()) == set(FORMATS)


@pytest.mark.parametrize("path", FILES)
def test_golden_file_is_known_by_its_content_alone(path: str) -> None:
    assert detect("renamed", (GOLDEN / path).read_bytes()) == FILES[path]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("frameworks/silva-*")), ids=lambda path: path.name)
def test_golden_file_that_silva_wrote_is_known(path: Path) -> None:
    assert detect("renamed", path.read_bytes()) == path.name.removeprefix("silva-").partition(".")[0]


@pytest.mark.parametrize("path", FILES)
def test_golden_file_reads_into_whole_trees_the_same_each_time(path: str) -> None:
    data = (GOLDEN / path).read_bytes()
    once, twice = (merged(read(FILES[path], data, file=path, run="r")) for _ in range(2))
    assert once == twice
    for bundle in once:
        trees = {node.tree_id for node in bundle.nodes}
        for tree_id in trees:
            tree = Tree(node for node in bundle.nodes if node.tree_id == tree_id)
            assert len(tree) > 1
        for trajectory in bundle.trajectories:
            assert trajectory.leaf_id is None or bundle.walk(trajectory)


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith((".jsonl", ".json"))])
def test_text_laid_out_as_an_array_is_known_too(path: str) -> None:
    values = [json.loads(line) for line in (GOLDEN / path).read_text("utf-8").split("\n") if line.strip()]
    if FILES[path] != "messages":  # whose reader takes lines alone
        assert detect("renamed", json.dumps(values, indent=1).encode()) == FILES[path]


@pytest.mark.parametrize("name", WRITABLE)
def test_what_is_written_is_known(name: str) -> None:
    full = walk_bundle(user("q"), assistant("a"))
    for bundle in (full, type(full)(run=full.run, tasks=full.tasks, nodes=full.nodes)):
        pieces = write(name, [bundle])
        sample = b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)
        assert detect("renamed", sample) == name


@pytest.mark.parametrize(("name", "words"), [("otel", '"openinference.span.kind"'), ("otel", "llm.input_messages")])
def test_words_of_a_conversation_decide_nothing(name: str, words: str) -> None:
    pieces = write(name, [walk_bundle(user(f'what is {words}, "openinference. or "gen_ai. or "span_kind"?'))])
    assert detect("renamed", "".join(str(piece) for piece in pieces).encode()) == name


def test_phoenix_spans_that_speak_of_otel_are_of_phoenix() -> None:
    for path in ("tools/phoenix-otlp.json", "tools/phoenix-spans.jsonl"):
        data = (GOLDEN / path).read_bytes().replace(b"weather", b"gen_ai.input.messages")
        assert detect("renamed", data) == "phoenix"


def test_file_whose_first_document_says_nothing_is_known_by_the_next() -> None:
    plain = b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "GET", "attributes": []}]}]}]}\n'
    for path in ("tools/otel.json", "tools/phoenix-otlp.json"):
        assert detect("renamed", plain + (GOLDEN / path).read_bytes()) == FILES[path]


def test_unknown_content_is_one_line_with_the_candidates() -> None:
    for sample in (b"", b"hello", b"{}", b"[]", b"[1]", b'{"a": 1}', b"PK\x03\x04", b"\xff\xfe", b"[" * 10_000):
        with pytest.raises(UsageError, match=r"^x\.txt: format not recognised; say --format messages \|") as caught:
            detect("x.txt", sample)
        assert "\n" not in str(caught.value) and all(name in str(caught.value) for name in FORMATS)


BOTH = {
    "run_type": "llm",
    "trace_id": "t",
    "conversations": [{"from": "human", "value": "hi"}],
}


def test_ambiguous_content_names_the_candidates() -> None:
    with pytest.raises(UsageError, match=r"^x\.jsonl: could be of several formats; say --format sharegpt \| langsmith"):
        detect("x.jsonl", json.dumps(BOTH).encode())


def test_name_decides_between_candidates_and_where_the_content_is_unreadable() -> None:
    line = {"type": "session_meta", "payload": {}, "conversations": []}
    assert detect("sessions/rollout-2026-01-01.jsonl", json.dumps(line).encode()) == "codex"
    assert detect("rollout-2026.jsonl", b"garbage") == "codex"
    assert detect("table.parquet", b"garbage") == "parquet"


def test_more_particular_format_goes_before_messages() -> None:
    row = {"messages": [{"role": "user", "content": "q"}]}
    assert detect("x", json.dumps(row).encode()) == "messages"
    assert detect("x", json.dumps({**row, "run_type": "llm", "trace_id": "t"}).encode()) == "langsmith"


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in WRITABLE])
def test_read_only_format_says_so(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} is read only; to write there are messages, ") as caught:
        list(write(name, []))
    assert "\n" not in str(caught.value)
