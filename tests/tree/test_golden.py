"""Files that an earlier Silva wrote still open, and mean the same. See golden/write.py."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from frameworks import golden_writer
from grown import contents

from silva.tree import SCHEMA, AnyRecord, Tree, decode, encode, from_json, to_json
from silva.tree.formats import WRITABLE, merged, read

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = sorted(GOLDEN.glob("v*"))
KINDS = ("run", "task", "node", "trajectory", "supervision")


def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_write", GOLDEN / "write.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def frames(path: Path) -> list[bytes]:
    data, found = path.read_bytes(), []
    while data:
        length = int.from_bytes(data[:4], "little")
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return found


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def test_the_current_schema_has_its_golden_files() -> None:
    assert GOLDEN / f"v{SCHEMA}" in VERSIONS, "SCHEMA was raised: run tests/tree/golden/write.py"


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
@pytest.mark.parametrize("kind", KINDS)
def test_stored_records_open_and_mean_the_same(version: Path, kind: str) -> None:
    from_text = [from_json(value) for value in lines(version / f"{kind}.jsonl")]
    from_bytes = [decode(frame) for frame in frames(version / f"{kind}.msgpack")]
    assert from_text == from_bytes == writer().records()[kind]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
@pytest.mark.parametrize(("name", "ending"), [("messages", "jsonl"), ("atif", "jsonl"), ("parquet", "parquet")])
def test_stored_format_files_open_and_mean_the_same(version: Path, name: str, ending: str) -> None:
    (bundle,) = merged(read(name, (version / f"format-{name}.{ending}").read_bytes()))
    assert contents(bundle) == contents(writer().bundle())
    assert len(Tree(bundle.nodes).leaves) == 4


def format_of(path: Path) -> str:
    """`silva-adp.1.2.jsonl` holds what was written when that was the version of the format."""
    return path.name.removeprefix("silva-").partition(".")[0]


@pytest.mark.parametrize("path", sorted((GOLDEN / "frameworks").glob("silva-*")), ids=lambda path: path.name)
def test_stored_files_of_other_formats_open_and_mean_the_same(path: Path) -> None:
    found = merged(read(format_of(path), path.read_bytes()))
    wanted = merged(golden_writer().bundles())
    assert [contents(bundle) for bundle in found] == [contents(bundle) for bundle in wanted]


def test_every_format_that_is_written_has_a_stored_file() -> None:
    stored = {format_of(path) for path in (GOLDEN / "frameworks").glob("silva-*")}
    assert stored | {path.stem.removeprefix("format-") for path in GOLDEN.glob("v*/format-*")} == set(WRITABLE)


@pytest.mark.parametrize("kind", KINDS)
def test_the_current_writer_still_writes_these_bytes(kind: str) -> None:
    folder = GOLDEN / f"v{SCHEMA}"
    known: list[AnyRecord] = writer().records()[kind]
    assert [encode(record) for record in known] == frames(folder / f"{kind}.msgpack")
    written = [json.loads(json.dumps(to_json(record))) for record in known]
    assert written == lines(folder / f"{kind}.jsonl")


@pytest.mark.parametrize("kind", KINDS)
def test_golden_records_set_every_field(kind: str) -> None:
    """A field added later must be added to the golden script too, or nothing would hold how it is stored."""
    known: list[Any] = writer().records()[kind]
    for field in msgspec.structs.fields(type(known[0])):
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory
        value = default() if callable(default) else default
        assert any(getattr(record, field.name) != value for record in known), f"{kind}.{field.name}"
