"""What is counted of a body's structure is what is there, wherever it is cut."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.gateway import structure

WORDS = st.text(st.sampled_from('"\\[{,x\n'), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=30,
)


def counted(value: Any) -> int:
    """Commas and opening brackets, from the value itself."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(0, len(value) - 1) + sum(counted(each) for each in inner)


@given(value=JSON, piece=st.integers(1, 9), tight=st.booleans())
@settings(max_examples=500, deadline=None)
def test_strings_hide_what_stands_in_them_wherever_the_bytes_are_cut(value: Any, piece: int, tight: bool) -> None:
    data = json.dumps(value, separators=(",", ":") if tight else None).encode()
    with patch.object(structure, "PIECE", piece):
        assert structure.values(data, 1000) == counted(value)


@given(data=st.binary(max_size=40))
def test_what_is_no_json_is_counted_too(data: bytes) -> None:
    assert 0 <= structure.values(data, 1000) <= len(data)


def test_a_long_text_has_few_and_short_lists_are_many() -> None:
    assert structure.values(json.dumps({"text": '[",\\' * 500_000}).encode(), 10) == 1
    lists = json.dumps([[1]] * 1_000_000).encode()
    assert structure.values(lists, 2_000_000) == 2_000_000
    assert 10 < structure.values(lists, 10) < 1_000_000, "it is enough to know that there are too many"
