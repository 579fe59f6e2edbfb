"""What a reader has met before changes how it reads, never what it finds."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.models.carried import EXTRA, LEARNT, Open, Reader, written


class _Leaf(Open):
    text: str | None = None


class _Closed(msgspec.Struct):
    leaf: _Leaf | None = None


class _Root(Open):
    name: str = ""
    leaves: str | list[_Leaf] | None = None
    closed: _Closed | None = None


NAMES = st.sampled_from(["a", "b", "beyond_0", "leaf_of", "名", "name ", 'a"b', "\\", "\0", ""])
VALUES = st.none() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.none(), max_size=2)
EXTRAS = st.dictionaries(NAMES, VALUES, max_size=3)
LEAVES = st.builds(lambda text, more: {"text": text, **more}, st.text(max_size=3), EXTRAS)
ROOTS = st.builds(
    lambda leaves, closed, more: {"name": "n", "leaves": leaves, "closed": closed, **more},
    st.text(max_size=3) | st.lists(LEAVES, max_size=3) | st.none(),
    st.none() | st.builds(lambda leaf, other: {"leaf": leaf, **other}, LEAVES, EXTRAS),
    EXTRAS,
)


def said(root: _Root) -> Any:
    """All that was read, extras where they were found."""
    leaves = root.leaves if isinstance(root.leaves, list) else []
    inner = [leaf.extra for leaf in leaves]
    closed = root.closed.leaf.extra if root.closed and root.closed.leaf else None
    return written(root), root.extra, inner, closed


@given(st.lists(ROOTS, min_size=1, max_size=6))
def test_a_reader_that_has_read_others_finds_the_same(bodies: list[dict[str, Any]]) -> None:
    experienced: Reader[_Root] = Reader(_Root)
    for body in bodies:
        data = json.dumps(body).encode()
        fresh: Reader[_Root] = Reader(_Root)
        assert said(experienced(data)) == said(fresh(data)) == said(experienced(data))
        more = {name: value for name, value in body.items() if name not in ("name", "leaves", "closed")}
        assert (experienced(data).extra or {}) == more


def test_names_of_strangers_are_learnt_up_to_a_bound() -> None:
    reader: Reader[_Root] = Reader(_Root)
    for number in range(3 * LEARNT):
        assert reader(json.dumps({f"n{number}": number}).encode()).extra == {f"n{number}": number}
    assert reader(b'{"name":"x"}').extra is None and reader(b'{"n0":1,"new":2}').extra == {"n0": 1, "new": 2}
    assert sum(map(len, reader._learnt.values())) <= LEARNT


def test_nobody_else_sets_the_extra() -> None:
    reader: Reader[_Root] = Reader(_Root)
    for _ in range(2):
        with pytest.raises(msgspec.ValidationError):
            reader(json.dumps({EXTRA: {"a": 1}, "b": 1}).encode())
