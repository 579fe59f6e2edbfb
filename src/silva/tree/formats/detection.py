"""Detection: which format a file is in. Its content is asked first, its name only where that leaves a choice.

first bytes ─▶ first value ─▶ every format's own recogniser ─▶ one: it is    none or several: the name, else say so
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias, cast

from silva.errors import UsageError
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.errors import FormatError
from silva.tree.message import Role

Recogniser: TypeAlias = Callable[[bytes, Any], bool]
"""Whether a file is of a format, by its first bytes and the value they begin with (None: no JSON, or cut off)."""


class Format(NamedTuple):
    """A file format: how it is written and read, and how a file of it is known.

    `write` None: read only. `binary`: its source is bytes as a whole (else lines of text). `names`: what files of it
    are called, as patterns, where that tells it from others. `general`: another format that knows the file goes first.
    `embeds`: the roles whose pictures it carries inside where the bundle has their bytes. `by_row`: each of its rows
    stands for itself, so that one which cannot be read takes no other with it. Readers of one file with many members
    give a FormatError in the place of a member that cannot be read.
    """

    name: str
    ending: str
    binary: bool
    write: Callable[[Iterable[Bundle]], Iterator[str | bytes]] | None
    read: Callable[..., Iterator[Bundle | FormatError]]
    recognise: Recogniser
    names: tuple[str, ...] = ()
    general: bool = False
    embeds: tuple[Role, ...] = ()
    by_row: bool = False


def detected(path: str, sample: bytes, formats: Mapping[str, Format]) -> str:
    """The name of the format of a file, by its content and then its name.

    Raises:
        UsageError: it is none of them, or could be several.
    """
    value = None if sample.startswith((b"PAR1", b"PK\x03\x04")) else first_value(sample)
    values: list[Any] = [value]
    if isinstance(value, list):
        values += cast(list[Any], value)[:1]
    found = [form for form in formats.values() if any(form.recognise(sample, each) for each in values)]
    found = [form for form in found if not form.general] or found
    name = PurePath(path).name
    if len(found) != 1:
        found = [form for form in found or formats.values() if any(fnmatch(name, p) for p in form.names)] or found
    if len(found) == 1:
        return found[0].name
    if found:
        candidates = " | ".join(form.name for form in found)
        raise UsageError(f"{name}: could be of several formats; say --format {candidates}")
    raise UsageError(f"{name}: format not recognised; say --format {' | '.join(formats)}")


def first_value(sample: bytes) -> Any:
    """The first line of a file as JSON, else its whole text, else its second line; None where none is."""
    text = sample.lstrip()
    lines = text.split(b"\n", 2)
    for part in (lines[0], text, *lines[1:2]):
        try:
            return json.loads(part)
        except (ValueError, RecursionError):
            continue
    return None


def is_messages(sample: bytes, value: Any) -> bool:
    """Whether a file holds rows of messages."""
    if isinstance(value, dict):
        return "messages" in value
    if isinstance(value, list):  # one conversation and nothing besides
        items = cast(list[Any], value)
        return bool(items) and all(isinstance(each, dict) and "role" in cast(dict[str, Any], each) for each in items)
    return value is None and b'"messages"' in sample.lstrip().split(b"\n", 1)[0]


def is_atif(sample: bytes, value: Any) -> bool:
    """Whether a file holds ATIF documents."""
    if isinstance(value, dict):
        said = cast(Any, value).get("schema_version")
        return (isinstance(said, str) and said.startswith("ATIF-")) or {"agent", "steps"} <= set(cast(Any, value))
    # A document laid out over many lines, of which only the first are here.
    return value is None and b'"schema_version"' in sample and b'"ATIF-' in sample


def is_parquet(sample: bytes, value: Any) -> bool:
    """Whether a file is Parquet."""
    return sample.startswith(b"PAR1")
