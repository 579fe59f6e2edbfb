"""What the tests of the frameworks' formats share: golden files, round trips, and rows with one value spoilt."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from silva.tree.formats import Bundle, merged

GOLDEN = Path(__file__).parent / "golden"
FRAMEWORKS = GOLDEN / "frameworks"

values = st.sampled_from([None, True, -1, 2**70, 0.5, "", "x", "\ud800", [], [None], [[]], {}, {"type": "x"}])


def lines(name: str) -> list[bytes]:
    return (FRAMEWORKS / name).read_bytes().splitlines(keepends=True)


def rows(name: str) -> list[Any]:
    return [json.loads(line) for line in lines(name)]


def again(module: ModuleType, given: Iterable[Bundle]) -> Bundle:
    pieces = list(module.write(given))
    source: Any = b"".join(pieces) if pieces and isinstance(pieces[0], bytes) else pieces
    (bundle,) = merged(module.read(source))
    return bundle


def golden_writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_write_frameworks", GOLDEN / "write_frameworks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def places(value: Any) -> list[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in items for path in ((key,), *((key, *below) for below in places(item)))]


@st.composite
def spoilt(draw: Any, row: Any) -> Any:
    """The row with one value replaced or gone."""
    row = copy.deepcopy(row)
    *above, last = draw(st.sampled_from(places(row)))
    holder = row
    for key in above:
        holder = holder[key]
    if draw(st.integers(0, 3)) == 0:
        del holder[last]
    else:
        holder[last] = draw(values)
    return row
