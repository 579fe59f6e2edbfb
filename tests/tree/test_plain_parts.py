"""What others read: a file without Silva's extension tells the same conversation, as far as its format has a place."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from grown import call_ids, code, names, raw_arguments
from hypothesis import given
from hypothesis import strategies as st
from test_formats import walk_bundle

from silva.tree import Message, TextPart, ThinkingPart, ToolCall, tool_result, user
from silva.tree.formats import FORMATS, WRITABLE, Bundle, read, write
from silva.tree.formats.inspect_archive import Archive, packed

words = st.sampled_from(["hello", "ein\nzwei", '{"a": 1}', "混合 🙂", "line\u2028separator", "<think>"])
# Arguments that are themselves what stands for broken ones read as broken ones.
arguments = st.one_of(raw_arguments.filter(lambda text: "_raw" not in text), code.map(json.dumps))


@st.composite
def talks(draw: Any) -> list[Message]:
    """A conversation as agents have it: each call is answered, in the order of the calls."""
    said: list[Message] = []
    if draw(st.booleans()):
        said.append(Message(role="system", parts=(TextPart(text=draw(words)),)))
    said.append(user(draw(words)))
    for number in range(draw(st.integers(0, 3))):
        parts: list[Any] = [ThinkingPart(text=draw(words))] if draw(st.booleans()) else []
        parts += [TextPart(text=draw(words))] if draw(st.booleans()) else []
        made = []
        for place in range(draw(st.integers(0, 2))):
            own = draw(call_ids) if draw(st.booleans()) and not made else f"c{number}_{place}"
            name = draw(st.one_of(names, st.just("code_action")))
            made.append(ToolCall(id=own, name=name, arguments=draw(arguments)))
        if not parts and not made:
            parts = [TextPart(text="so")]
        said.append(Message(role="assistant", parts=tuple(parts), tool_calls=tuple(made)))
        said += [tool_result(each.id, draw(words)) for each in made]
        if not made:
            said.append(user(draw(words)))
    return said


def without(name: str, bundle: Bundle) -> Bundle:
    """What a stranger reads: the file with every field `silva` taken out, read again."""
    pieces = list(write(name, [bundle]))
    if name == "inspect":
        archive = Archive(b"".join(piece for piece in pieces if isinstance(piece, bytes)), "x.eval")
        source: Any = packed((member, bare(archive.json(member))) for member in archive.members)
    else:
        source = [json.dumps(bare(json.loads(str(piece)))) for piece in pieces]
    (found,) = read(name, source)
    assert not any("was changed" in str(node.attributes) for node in found.nodes)
    return found


def bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if key != "silva"}
    if isinstance(value, list):
        return [bare(item) for item in value if not (isinstance(item, dict) and item.get("key") == "silva")]
    return value


def told(messages: list[Message], ids: bool) -> list[Any]:
    """Roles, words, thoughts and calls; ids by the place of their first appearance where the format has none."""
    found: list[Any] = []
    for message in messages:
        calls = tuple((each.id if ids else "", each.name, plain(each)) for each in message.tool_calls)
        answers = message.tool_call_id if ids else message.role == "tool"
        found.append((message.role, message.text, message.thinking, calls, answers))
    return found


def plain(made: ToolCall) -> Any:
    """The arguments, laid out in whatever way."""
    try:
        value = json.loads(made.arguments or "{}")
        json.dumps(value, allow_nan=False)
    except ValueError:
        return made.arguments
    return value if isinstance(value, dict) else made.arguments


NO_IDS = ("sharegpt",)
FOREIGN = [name for name in WRITABLE if name not in ("parquet",)]


@pytest.mark.parametrize("name", FOREIGN)
@given(said=talks())
def test_file_without_the_extension_tells_the_same(name: str, said: list[Message]) -> None:
    assert FORMATS[name].write is not None
    bundle = without(name, walk_bundle(*said))
    (trajectory,) = bundle.trajectories
    ids = name not in NO_IDS
    walk = [node.message for node in bundle.walk(trajectory)]
    if name == "adp":  # which tells ids that come again apart
        walk = [renamed(message) for message in walk]
    assert told(walk, ids) == told(said, ids)


def renamed(message: Message) -> Message:
    calls = tuple(msgspec.structs.replace(each, id=re.sub(r"-\d+$", "", each.id)) for each in message.tool_calls)
    own = message.tool_call_id and re.sub(r"-\d+$", "", message.tool_call_id)
    return msgspec.structs.replace(message, tool_calls=calls, tool_call_id=own)
