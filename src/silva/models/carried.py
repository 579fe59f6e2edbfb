"""What is said beyond what Silva reads: found when JSON is read, merged in again when the same API is written.

    bytes ─▶ by the known fields and what was met beyond them before ─▶ the records, each with its `extra`
         └▶ something new: by the fields, and as unread members, side by side ─▶ the same, and it is known from now on
    records ─▶ their JSON ─▶ merged (what is written wins) ─▶ bytes

A record of the wire that may say more derives from `Open`. A server says the same members beyond in every reply and
every event of a stream, so a reader learns their names, up to `LEARNT`, and then reads once. An extra is a plain JSON
object, nested as it was written; it is bounded by what is read at all (`sizes`), by `DEEPEST` levels and by `MOST`
bytes for one member.
"""

from __future__ import annotations

import functools
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec

from silva.tree import Json

DEEPEST = 100
"""Levels that values which are passed on may nest."""

MOST = 1 << 20
"""Bytes that one object may say beyond what is read of it."""

LEARNT = 64
"""Names that one reader learns at most: strangers may say any."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
"""A name that can be learnt: no field of a record may be called by a quote or a control character."""

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
        bounded: called with a place and the extra found there; it may raise a ValueError, and gives what is kept of it.
    """

    def __init__(self, kind: Any, bounded: Callable[[Json, str], Json | None] | None = None) -> None:
        self._kind = kind
        self._bounded = bounded or within
        self._lenient = msgspec.json.Decoder(_Twins().of(kind)).decode
        self._learnt: dict[type, tuple[str, ...]] = {}
        self._known = self._decoder()
        self._new = False  # whether the last body said what could not be learnt

    def __call__(self, data: bytes | msgspec.Raw) -> T:
        """The value.

        Raises:
            msgspec.DecodeError: not JSON, or of the wrong shape.
            RecursionError: nested too deep.
        """
        if not self._new:
            try:
                return self._known(data)
            except msgspec.ValidationError:  # or a ValueError of `bounded`: met again below, with its place
                pass
        value = self._lenient(data)
        before = dict(self._learnt)
        found = self._walk(value, data, "")
        learnt = self._learnt != before
        if learnt:
            self._known = self._decoder()
        self._new = found and not learnt
        return value

    def _decoder(self) -> Callable[[bytes | msgspec.Raw], T]:
        """Reads the type and the members that were met beyond it before, and nothing else."""
        return msgspec.json.Decoder(_Twins(self._learnt, self._bounded).of(self._kind)).decode

    def _walk(self, value: Any, unread: bytes | msgspec.Raw, place: str) -> bool:
        """Give every open record its extra, and learn its names; whether there was any."""
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
                self._learn(type(value).__bases__[0], more)
            for field, name in inside:
                if (beside := members.get(name)) is not None:
                    found |= self._walk(getattr(value, field), beside, f"{place}.{name}")
        return found

    def _learn(self, kind: type, names: Iterable[str]) -> None:
        known = self._learnt.get(kind, ())
        new = tuple(name for name in names if name not in known and _NAME.fullmatch(name) and name != EXTRA)
        if sum(map(len, self._learnt.values())) + len(new) <= LEARNT:
            self._learnt[kind] = known + new


_PLAIN = frozenset({type(None), bool, float})


def within(extra: Json, place: str) -> Json | None:
    """What can be kept of an extra: the members that can be written again. The others are named under `LEFT_OUT`."""
    for value in extra.values():
        if type(value) not in _PLAIN and not (type(value) is str and len(value) < MOST >> 3):  # 6 bytes a character
            break
    else:
        return extra
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
    return names, tuple((field.name, field.encode_name) for field in fields if _any(_opens, field.type))


def _any(holds: Callable[[type], bool], kind: Any) -> bool:
    """Whether a type, or one inside it, is a record for which this holds."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and holds(kind):
        return True
    return any(_any(holds, inner) for inner in typing.get_args(kind))


def _opens(kind: type) -> bool:
    """Whether a record is open or holds one that is."""
    return issubclass(kind, Open) or any(_any(_opens, field.type) for field in msgspec.structs.fields(kind))


class _Twins:
    """Types with other records in the place of theirs: `extra` is nobody's to set but a reader's. Where it is told what
    was `learnt`, open records refuse what is neither a field nor learnt; what was learnt is their extra, `bounded`."""

    def __init__(
        self,
        learnt: Mapping[type, tuple[str, ...]] | None = None,
        bounded: Callable[[Json, str], Json | None] | None = None,
    ) -> None:
        self._learnt = learnt
        self._bounded = bounded or within
        self._made: dict[type, type[msgspec.Struct]] = {}

    def of(self, kind: Any) -> Any:
        """The twin of a type."""
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in self._made:
                self._made[kind] = self._record(kind)
            return self._made[kind]
        arguments = typing.get_args(kind)
        if not arguments or not any(_any(lambda _: True, argument) for argument in arguments):
            return kind
        origin: Any = typing.get_origin(kind)
        inner = tuple(self.of(argument) for argument in arguments)
        if origin in (types.UnionType, typing.Union):
            return functools.reduce(operator.or_, inner)
        return origin[inner]

    def _record(self, kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for field in msgspec.structs.fields(kind):
            inner: Any = None if field.name == "extra" and issubclass(kind, Open) else self.of(field.type)
            if field.default_factory is not msgspec.NODEFAULT:
                settings = msgspec.field(default_factory=field.default_factory, name=field.encode_name)
            elif field.default is not msgspec.NODEFAULT:
                settings = msgspec.field(default=field.default, name=field.encode_name)
            else:
                settings = msgspec.field(name=field.encode_name)
            fields.append((field.name, inner, settings))
        names = (self._learnt or {}).get(kind, ())
        beyond = [f"beyond_{at}" for at in range(len(names))]
        fields += [
            (field, Any, msgspec.field(default=msgspec.UNSET, name=name))
            for field, name in zip(beyond, names, strict=True)
        ]
        return msgspec.defstruct(
            kind.__name__,
            fields,
            bases=(kind,),
            namespace={"__post_init__": _taking(beyond, names, self._bounded)} if names else None,
            kw_only=True,
            gc=False,
            forbid_unknown_fields=self._learnt is not None and issubclass(kind, Open),
        )


def _taking(
    fields: Sequence[str], names: Sequence[str], bounded: Callable[[Json, str], Json | None]
) -> Callable[[Any], None]:
    """What a decoder calls with each record it has read: what was said in these fields becomes the extra."""
    said = operator.attrgetter("extra", *fields)
    nothing = (None, *(msgspec.UNSET for _ in fields))

    def taking(record: Any) -> None:
        values = said(record)
        if values == nothing:
            return
        more: Json = {}
        for field, name, value in zip(fields, names, values[1:], strict=True):
            if value is not msgspec.UNSET:
                more[name] = value
                setattr(record, field, msgspec.UNSET)
        if more:
            record.extra = bounded(more, "")

    return taking
