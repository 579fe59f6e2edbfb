"""Every format goes both ways without loss, between formats too, and says line and field of what is wrong."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from grown import bundles, contents
from hypothesis import given
from hypothesis import strategies as st

from silva.errors import Exit, UsageError
from silva.tree import (
    ImagePart,
    Node,
    Run,
    Task,
    TextPart,
    Tool,
    ToolCall,
    Tree,
    assistant,
    call,
    messages,
    system,
    tool_result,
    tools,
    user,
)
from silva.tree.formats import FORMATS, WRITABLE, Bundle, FormatError, detect, merged, read, renamed, write
from silva.tree.formats.draft import Draft, Origin, Turn, grow

SEARCH = Tool(name="search", description="Search.", parameters={"type": "object", "properties": {"q": {}}})


def walk_bundle(*said: Any, run: str = "run", task: str = "env/1", tools: tuple[Tool, ...] = (SEARCH,)) -> Bundle:
    turns = tuple(Turn(message=message, tools=tools if place == 0 else None) for place, message in enumerate(said))
    origin = Origin(run=Run(id=run, started=1.0), task=Task(id=task, env="env"), index=0)
    return grow(Draft(origin=origin, turns=turns, agent="tools", model="m"), "test", 0)


def again(name: str, *given: Bundle) -> Bundle:
    pieces = list(write(name, given))
    source: Any = b"".join(pieces) if FORMATS[name].binary else pieces  # type: ignore[arg-type]
    (bundle,) = merged(read(name, source))
    return bundle


@pytest.mark.parametrize("name", WRITABLE)
@given(bundle=bundles())
def test_round_trip_loses_nothing(name: str, bundle: Bundle) -> None:
    assert contents(again(name, bundle)) == contents(bundle)


@given(bundle=bundles(), order=st.permutations(WRITABLE))
def test_chain_through_all_formats_loses_nothing(bundle: Bundle, order: list[str]) -> None:
    carried = bundle
    for name in order:
        carried = again(name, carried)
    assert contents(carried) == contents(bundle)


def test_messages_row_is_what_trainers_read() -> None:
    bundle = walk_bundle(
        system("Be brief."),
        user("Weather?", ImagePart(hash="a" * 64)),
        assistant("", call("search", {"q": "é"}, "c1")),
        tool_result("c1", "sunny", "search"),
        assistant("Sunny."),
    )
    (line,) = write("messages", [bundle])
    row = json.loads(str(line))
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert row["messages"][0] == {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    assert row["messages"][1]["content"][1]["path"] == f"images/{'a' * 64}.png"
    assert row["messages"][2]["tool_calls"][0]["function"] == {"name": "search", "arguments": {"q": "é"}}
    assert row["messages"][3]["tool_call_id"] == "c1"
    assert row["tools"][0]["function"]["name"] == "search"
    assert set(row) == {"messages", "tools", "silva"}
    assert isinstance(row["silva"], str)


def test_rows_load_as_columns() -> None:
    """Arrow's JSON reader (what `datasets.load_dataset("json")` uses) takes the file."""
    import io

    import pyarrow.json

    talk = walk_bundle(
        user("q"), assistant("", call("search", {"q": "x"}, "c1")), tool_result("c1", "r"), assistant("a")
    )
    short = walk_bundle(user("q"), assistant("b"), task="env/2", tools=())
    seen = walk_bundle(user("q", ImagePart(hash="a" * 64)), assistant("b"), task="env/3")
    seen_again = walk_bundle(user("q"), assistant("c"), user("r", ImagePart(hash="b" * 64)), task="env/4")
    for bundles_ in ([talk, short], [seen, seen_again]):
        data = "".join(str(line) for line in write("messages", bundles_)).encode()
        table = pyarrow.json.read_json(io.BytesIO(data))
        assert table.num_rows == 2 and set(table.column_names) == {"messages", "tools", "silva"}
        assert len(list(read("messages", [json.dumps(row) for row in table.to_pylist()]))) == 2


def test_extension_says_nothing_twice() -> None:
    words = "a sentence that stands in the plain part " * 20
    (line,) = write("messages", [walk_bundle(user(words), assistant(words))])
    assert str(line).count(words[:41]) == 2 * 20


def test_invalid_tool_arguments_survive_as_raw_text() -> None:
    broken = assistant("", ToolCall(id="c1", name="s", arguments='{"q'))
    bundle = walk_bundle(user("x"), broken)
    (line,) = write("messages", [bundle])
    row = json.loads(str(line))
    assert row["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"_raw": '{"q'}
    del row["silva"]
    (foreign,) = read("messages", [json.dumps(row)])
    assert foreign.nodes[1].message.tool_calls[0].arguments == '{"q'


FOREIGN = {
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning": "look it up",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "assistant", "content": "Sunny.", "weight": 0},
    ],
    "tools": [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}],
    "source": "somewhere",
}


def test_foreign_row_reads_and_keeps_its_columns() -> None:
    (bundle,) = read("messages", [json.dumps(FOREIGN)], run="r")
    walk = bundle.walk(bundle.trajectories[0])
    assert [m.role for m in messages(walk)] == ["system", "user", "assistant", "tool", "assistant"]
    assert walk[2].message.tool_calls[0].arguments == '{"q":1}'
    assert walk[2].message.thinking == "look it up"
    assert tools(walk)[0].name == "search"
    assert len(Tree(bundle.nodes)) == 5
    (line,) = write("messages", [bundle])
    row = json.loads(str(line))
    assert row["source"] == "somewhere"
    assert row["messages"][4]["weight"] == 0


def test_importing_twice_gives_the_same_records() -> None:
    line = json.dumps(FOREIGN)
    once = merged(read("messages", [line], run="r"))
    twice = merged(read("messages", [line, "\n", line], run="r"))
    assert once == twice
    (_, other) = read("messages", [line, line.replace("Sunny.", "Rain.")], run="r")
    both = Tree(merged([*once, other])[0].nodes)
    assert len(both.leaves) == 2 and len(both.roots) == 1


def test_tools_and_extension_may_be_text_or_object() -> None:
    row = {**FOREIGN, "tools": json.dumps(FOREIGN["tools"])}
    (bundle,) = read("messages", [json.dumps(row)])
    assert tools(bundle.nodes)[0].name == "search"
    (line,) = write("messages", [bundle])
    own = json.loads(str(line))
    own["silva"] = json.loads(own["silva"])
    (back,) = read("messages", [json.dumps(own)])
    assert back.nodes == bundle.nodes


def test_embedded_image_comes_out_as_blob() -> None:
    data = b"\x89PNG not really"
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    row = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}
    (bundle,) = read("messages", [json.dumps(row)])
    name = hashlib.sha256(data).hexdigest()
    assert bundle.blobs == {name: data}
    assert bundle.nodes[0].message.parts == (ImagePart(hash=name),)


def test_image_beside_the_file_is_loaded() -> None:
    row = {"messages": [{"role": "user", "content": [{"type": "image", "path": "pics/cat.jpg"}]}]}
    (bundle,) = read("messages", [json.dumps(row)], load={"pics/cat.jpg": b"cat"}.get)
    (part,) = bundle.nodes[0].message.parts
    assert isinstance(part, ImagePart) and part.media_type == "image/jpeg"
    assert bundle.blobs[part.hash] == b"cat"
    with pytest.raises(FormatError, match=r"line 1: messages\[0\]\.content\[0\]: image 'pics/cat.jpg' is not there"):
        list(read("messages", [json.dumps(row)], load={}.get))


def broken_row(change: Any) -> str:
    row = json.loads(json.dumps(FOREIGN))
    change(row)
    return json.dumps(row)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "a row is an object"),
        ('{"tools": []}', "messages: required field is missing"),
        ('{"messages": {}}', "messages: must be a list"),
        (broken_row(lambda r: r["messages"][2].update(role="robot")), "messages[2].role: unknown role 'robot'"),
        (broken_row(lambda r: r["messages"][1].pop("role")), "messages[1].role: required field is missing"),
        (broken_row(lambda r: r["messages"][1].update(content=7)), "messages[1].content: expected"),
        (
            broken_row(lambda r: r["messages"][2]["tool_calls"][0]["function"].pop("name")),
            "messages[2].tool_calls[0].function.name: required field is missing",
        ),
        (
            broken_row(lambda r: r["messages"][1].update(content=[{"type": "video"}])),
            "messages[1].content[0].type: unknown kind of part 'video'",
        ),
        (broken_row(lambda r: r.update(tools=[{"function": {}}])), "tools[0].function.name: required"),
        (broken_row(lambda r: r.update(tools="nope")), "tools: not JSON"),
        (broken_row(lambda r: r.update(silva="nope")), "silva: not JSON"),
        (broken_row(lambda r: r.update(silva={"schema": 99})), "silva.schema: 99 is not one this Silva reads"),
        ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "holds what a record cannot"),
        ('{"messages": ' + "[" * 100_000, "not JSON"),
    ],
)
def test_error_names_file_line_and_field(line: str, said: str) -> None:
    good = json.dumps(FOREIGN)
    with pytest.raises(FormatError) as caught:
        list(read("messages", [good, "", line], file="rows.jsonl"))
    text = str(caught.value)
    assert text.startswith(f"rows.jsonl line 3: {said}"), text
    assert "\n" not in text
    assert caught.value.code is Exit.USAGE


@pytest.mark.parametrize("name", ["messages", "atif"])
def test_edited_plain_part_is_refused(name: str) -> None:
    bundle = walk_bundle(user("What is it?"), assistant("ORIGINAL"))
    (line,) = write(name, [bundle])
    with pytest.raises(FormatError, match=r"messages\[1\]: was changed after export"):
        list(read(name, [str(line).replace("ORIGINAL", "edited")]))
    row = json.loads(str(line).replace("ORIGINAL", "edited"))
    row.pop("silva", None)
    row.pop("extra", None)
    (fresh,) = read(name, [json.dumps(row)])
    assert fresh.nodes[1].message.text == "edited"


@given(bundle=bundles())
def test_renamed_run_keeps_everything_but_ids(bundle: Bundle) -> None:
    other = renamed(bundle, "another-run")
    assert renamed(bundle, bundle.run.id) is bundle
    assert [n.message for n in sorted(bundle.nodes, key=lambda n: n.depth)] == [n.message for n in other.nodes]
    assert not {n.id for n in bundle.nodes} & {n.id for n in other.nodes}
    assert len({n.id for n in other.nodes}) == len(bundle.nodes)
    for old, new in zip(bundle.trajectories, other.trajectories, strict=True):
        assert [n.message for n in bundle.walk(old)] == [n.message for n in other.walk(new)]
        assert {n.tree_id for n in other.walk(new)} <= {new.tree_id}
    assert renamed(bundle, "another-run") == other


def test_walk_missing_from_the_bundle_is_an_error() -> None:
    bundle = walk_bundle(user("a"), assistant("b"))
    torn = Bundle(run=bundle.run, trajectories=bundle.trajectories, nodes=bundle.nodes[1:])
    with pytest.raises(FormatError, match="of its walk is missing"):
        list(write("messages", [torn]))


def test_group_keeps_shared_nodes_once() -> None:
    left = walk_bundle(user("q"), assistant("a"))
    turns = (Turn(message=user("q"), tools=(SEARCH,)), Turn(message=assistant("b")))
    origin = Origin(run=left.run, task=left.tasks[0], index=1)
    right = grow(Draft(origin=origin, turns=turns), "test", 0)
    (both,) = merged([left, right])
    assert len(both.nodes) == 3
    assert len(list(write("messages", [both]))) == 2
    assert contents(again("messages", both)) == contents(both)


def test_parquet_columns_are_readable_by_others() -> None:
    import io

    import pyarrow.parquet

    bundle = walk_bundle(user("q"), assistant("a"))
    data = b"".join(write("parquet", [bundle]))  # type: ignore[arg-type]
    table = pyarrow.parquet.read_table(io.BytesIO(data))
    rows = table.to_pylist()
    assert [row["text"] for row in rows if row["kind"] == "node"] == ["q", "a"]
    assert {row["kind"] for row in rows} == {"run", "task", "node", "trajectory"}


def test_parquet_of_a_foreign_data_set() -> None:
    import io

    import pyarrow
    import pyarrow.parquet

    plain = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    called = {"messages": FOREIGN["messages"][2:4]}  # type: ignore[index]
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([plain, called]), sink)
    first, second = read("parquet", sink.getvalue())
    assert [n.message.text for n in first.nodes] == ["q", "a"]
    assert first.nodes[0].message.parts == (TextPart(text="q"),)
    assert second.nodes[0].message.tool_calls[0].id == "c1"


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"\x00" * 64 + b"PAR1", b"hello"])
def test_damaged_parquet_is_one_line(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^x\.parquet: (not a Parquet file|is damaged)"):
        list(read("parquet", data, file="x.parquet"))


def test_parquet_keeps_blobs_and_many_bundles_apart() -> None:
    first, second = walk_bundle(user("a"), run="one"), walk_bundle(user("b"), run="two")
    first = Bundle(run=first.run, nodes=first.nodes, trajectories=first.trajectories, blobs={"h": b"\x00\xff"})
    data = b"".join(write("parquet", [first, second]))  # type: ignore[arg-type]
    assert list(read("parquet", data)) == [first, second]


def test_numbers_json_cannot_write_are_kept_or_refused_never_changed() -> None:
    bundle = walk_bundle(user("q"))
    (node,) = bundle.nodes
    odd = Node(**{f: getattr(node, f) for f in node.__struct_fields__} | {"reward": float("inf")})
    kept = again("messages", Bundle(run=bundle.run, nodes=(odd,), trajectories=bundle.trajectories))
    assert kept.nodes[0].reward == float("inf")
    toolset = (Tool(name="t", parameters={"x": float("nan")}),)
    with pytest.raises(FormatError, match="write parquet"):
        list(write("messages", [walk_bundle(user("q"), tools=toolset)]))


def test_detect() -> None:
    bundle = walk_bundle(user("q"))
    for name in WRITABLE:
        pieces = list(write(name, [bundle]))
        sample = b"".join(p if isinstance(p, bytes) else p.encode() for p in pieces)
        assert detect("some/file", sample) == name
    pretty = json.dumps({"agent": {}, "schema_version": "ATIF-v1.8"}, indent=2).encode()
    assert detect("x", pretty) == "atif"
    with pytest.raises(UsageError, match="format not recognised"):
        detect("x.txt", b"hello")


def test_unknown_format_suggests() -> None:
    with pytest.raises(UsageError, match="did you mean 'messages'"):
        list(write("mesages", []))


def test_bundle_without_trajectories_is_no_training_row() -> None:
    bundle = walk_bundle(user("q"), assistant("a"))
    bare = Bundle(run=bundle.run, tasks=bundle.tasks, nodes=bundle.nodes)
    (line,) = write("messages", [bare])
    assert json.loads(str(line))["messages"] == []
    assert contents(again("messages", bare)) == contents(bare)
