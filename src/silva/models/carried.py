"""What is said beyond what Silva reads: found when JSON is read, merged in again when the same API is written.

    bytes ─▶ strict (every member has a field) ─────────────────────────▶ the records
         └▶ by the same fields, and as unread members ─▶ side by side ─▶ the records, each with its `extra`
    records ─▶ their JSON ─▶ merged (what is written wins) ─▶ bytes

A record of the wire that may say more derives from `Open`. A body that holds nothing unknown is read once. Where the
last one held something, the next is expected to: its members are looked through without being read (token ids and log
probabilities are most of a reply), and only the unknown ones become values. An extra is a plain JSON object, nested as
it was written; it is bounded by what is read at all (`sizes`), by `DEEPEST` levels and by `MOST` bytes for one member.
"""

from __future__ import annotations

import functools
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from silva.tree import Json

DEEPEST = 100
"""Levels that values which are passed on may nest."""

MOST = 1 << 20
"""Bytes that one object may say beyond what is read of it."""

T = TypeVar("T")

_LEAST, _LARGEST = -(2**63), 2**63 - 1

_plain = msgspec.json.Decoder().decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


EXTRA = "silva:extra"
"""What the field is called that only a reader sets: nobody may send it."""


class Open(msgspec.Struct, gc=False, kw_only=True):
    """A record of the wire that may say more than it has fields for; `extra` holds that."""

    extra: Json | None = msgspec.field(default=None, name=EXTRA)


class Reader(Generic[T]):
    """Reads JSON as a type, with what it says beyond it.

    Args:
        kind: the type; records in it that derive from `Open` keep what they have no field for, others let it go.
        bounded: called with a place and the extra found there; it may raise, and gives what is kept of it.
    """

    def __init__(self, kind: Any, bounded: Callable[[Json, str], Json | None] | None = None) -> None:
        self._strict = msgspec.json.Decoder(_twin(kind, True)).decode
        self._lenient = msgspec.json.Decoder(_twin(kind, False)).decode
        self._bounded = bounded or within
        self._more = False  # whether the last body said something beyond

    def __call__(self, data: bytes | msgspec.Raw) -> T:
        """The value.

        Raises:
            msgspec.DecodeError: not JSON, or of the wrong shape.
            RecursionError: nested too deep.
        """
        if not self._more:
            try:
                return self._strict(data)
            except msgspec.ValidationError:
                pass
        value = self._lenient(data)
        self._more = self._walk(value, data, "")
        return value

    def _walk(self, value: Any, unread: bytes | msgspec.Raw, place: str) -> bool:
        """Give every open record its extra; whether there was any."""
        found = False
        if isinstance(value, list):
            for number, (inner, beside) in enumerate(zip(cast("list[Any]", value), _items(unread), strict=False)):
                found |= self._walk(inner, beside, f"{place}[{number}]")
        elif isinstance(value, msgspec.Struct):
            members = _members(unread)
            names, inside = _shape(type(value))
            if isinstance(value, Open) and not members.keys() <= names:
                more = {name: _plain(item) for name, item in members.items() if name not in names}
                value.extra, found = self._bounded(more, place), True
            for field, name in inside:
                if (beside := members.get(name)) is not None:
                    found |= self._walk(getattr(value, field), beside, f"{place}.{name}")
        return found


def within(extra: Json, place: str) -> Json | None:
    """What can be kept of an extra: the members that can be written again. The others are named under `LEFT_OUT`."""
    found: Json = {}
    left: list[str] = []
    for name, value in extra.items():
        if fault(value) is None and len(_encode(value)) <= MOST:
            found[name] = value
        else:
            left.append(name)
    return found | {LEFT_OUT: left} if left else found


LEFT_OUT = "silva_left_out"
"""The member of an extra that names what was said beside it and is too large, too deep or no number others read."""


def written(value: Any) -> Any:
    """A value that was read, as plain JSON: records with what was said beside them, without members that were not."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        said = [(name, getattr(value, field)) for field, name in names if field != "extra"]
        found = {name: written(item) for name, item in said if item is not None and item is not msgspec.UNSET}
        return merged(found, getattr(value, "extra", None))
    if isinstance(value, msgspec.Raw):
        return _plain(value)
    return [written(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def fault(value: Any) -> str | None:
    """What keeps a value from being written again, or None."""
    layer: list[Any] = [value]
    for _ in range(DEEPEST):
        if any(isinstance(item, int) and not _LEAST <= item <= _LARGEST for item in layer):
            return "this integer is out of range"
        layer = [
            inner
            for item in layer
            if isinstance(item, dict | list)
            for inner in (cast("Json", item).values() if isinstance(item, dict) else cast("list[Any]", item))
        ]
        if not layer:
            return None
    return "this is nested too deep"


def nested(**parts: Json | None) -> Json | None:
    """The extra of an object from those of the objects inside it; None where they say nothing more."""
    found: Json = {name: extra for name, extra in parts.items() if extra}
    return found or None


def joined(first: Json | None, second: Json | None) -> Json | None:
    """Two extras of one object as one."""
    if first and second:
        return merged(dict(second), first)
    return first or second


def merged(written: Json, extra: Mapping[str, Any] | None) -> Json:
    """`written`, with the members of `extra` that it lacks; objects that both have are merged in turn."""
    if extra:
        for name, value in extra.items():
            if name == LEFT_OUT:
                continue
            known = written.get(name)
            if name not in written:
                written[name] = value
            elif isinstance(known, dict) and isinstance(value, dict):
                written[name] = merged(dict(cast("Json", known)), cast("Json", value))
    return written


def grown(known: Json | None, more: Json) -> Json:
    """What a stream said beyond its words, with what its next piece says: words of one name are joined, lists too, and
    of other values the latest counts."""
    found = dict(known or {})
    for name, value in more.items():
        before = found.get(name)
        if isinstance(before, str) and isinstance(value, str):
            found[name] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            found[name] = [*cast("list[Any]", before), *cast("list[Any]", value)]
        elif isinstance(before, dict) and isinstance(value, dict):
            found[name] = grown(cast("Json", before), cast("Json", value))
        else:
            found[name] = value
    return found


@functools.cache
def _shape(kind: type[msgspec.Struct]) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """The names of a record's members on the wire, and of those that may hold open records field and name."""
    fields = msgspec.structs.fields(kind)
    names = frozenset(field.encode_name for field in fields if field.name != "extra")
    return names, tuple((field.name, field.encode_name) for field in fields if _opens(field.type))


def _records(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return True
    return any(_records(inner) for inner in typing.get_args(kind))


def _opens(kind: Any) -> bool:
    """Whether a value of this type may hold an open record."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return issubclass(kind, Open) or any(_opens(field.type) for field in msgspec.structs.fields(kind))
    return any(_opens(inner) for inner in typing.get_args(kind))


@functools.cache
def _twin(kind: Any, strict: bool) -> Any:
    """The type with its open records in the place of which stand some that refuse unknown members (`strict`); nobody
    but a reader sets `extra`."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields: list[Any] = []
        for field in msgspec.structs.fields(kind):
            inner: Any = None if field.name == "extra" and issubclass(kind, Open) else _twin(field.type, strict)
            if field.default_factory is not msgspec.NODEFAULT:
                settings = msgspec.field(default_factory=field.default_factory, name=field.encode_name)
            elif field.default is not msgspec.NODEFAULT:
                settings = msgspec.field(default=field.default, name=field.encode_name)
            else:
                settings = msgspec.field(name=field.encode_name)
            fields.append((field.name, inner, settings))
        return msgspec.defstruct(
            kind.__name__,
            fields,
            bases=(kind,),
            kw_only=True,
            gc=False,
            forbid_unknown_fields=strict and issubclass(kind, Open),
        )
    arguments = typing.get_args(kind)
    if not arguments or not any(map(_records, arguments)):
        return kind
    origin: Any = typing.get_origin(kind)
    inner = tuple(_twin(argument, strict) for argument in arguments)
    if origin in (types.UnionType, typing.Union):
        return functools.reduce(operator.or_, inner)
    return origin[inner]
