"""Reading JSON from strangers: what is wrong becomes `Malformed` with its place, whatever it is.

    body ─▶ fields: {name: raw JSON} ─┬▶ messages, tools ─▶ decoded(its decoder)
                                       ├▶ the small known ones together ─▶ decoded
                                       └▶ those nobody knows ─▶ ours elsewhere? refused │ passed_on ─▶ extra

NUL characters are refused in names and ids and kept in text, where tool output may hold them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, Any, TypeVar, cast

import msgspec

from silva.models.carried import DEEPEST, MOST, Reader
from silva.models.carried import fault as fault_of
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.model import Sampling
from silva.tree import Json, Tool

LONGEST_NAME = 512

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
"""A name or id: something, without control characters."""

Label = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
"""A name that may be empty."""

Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Top = Annotated[int, msgspec.Meta(ge=0, le=1000)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=100)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Common(msgspec.Struct):
    """The members of a body that all APIs call alike."""

    model: Name
    stream: bool | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    top_k: Integer | None = None
    seed: Integer | None = None
    return_token_ids: bool | None = None
    n: int | None = None

    def sampling(
        self, choice: str | None, most: int | None, extra: Json, *, stop: tuple[str, ...] = (), logprobs: bool = False
    ) -> Sampling:
        """How to sample, with so many tokens at most; `choice` is the mode or the tool to call."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            max_tokens=most,
            stop=stop,
            seed=self.seed,
            logprobs=logprobs,
            tool_choice=choice,
            extra=extra,
        )


OURS_ELSEWHERE = frozenset(
    {
        "best_of",
        "echo",
        "function_call",
        "functions",
        "input",
        "input_embeds",
        "input_ids",
        "instructions",
        "logprobs",
        "max_completion_tokens",
        "max_new_tokens",
        "max_output_tokens",
        "max_tokens",
        "messages",
        "n",
        "prompt",
        "prompt_embeds",
        "prompt_token_ids",
        "return_token_ids",
        "sampling_params",
        "stop",
        "stop_sequences",
        "stream_options",
        "system",
        "truncate_prompt_tokens",
    }
)
"""What other APIs call the things that the gateway itself says to a backend: the conversation, how many replies, how
long they may be. A client of an API that has no such field would get past the gateway with it."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_KEPT_TOOLS = 64 << 10

T = TypeVar("T")

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PATH = re.compile(r"^(?P<what>.*) - at `(?:.*`)?\$(?P<path>[^`]*)`\Z", re.DOTALL)


def fields(body: bytes) -> dict[str, msgspec.Raw]:
    """The members of the body's object, undecoded.

    Raises:
        Malformed: it is not a JSON object.
    """
    return decoded(_split, body, "")


def decoded(decode: Callable[[Any], T], data: bytes | msgspec.Raw, field: str) -> T:
    """What `decode` makes of the data that stands at `field`.

    Raises:
        Malformed: not JSON, of the wrong shape, or nested too deep.
    """
    try:
        return decode(data)
    except msgspec.ValidationError as fault:
        found = _PATH.match(str(fault))
        what, path = (found["what"], found["path"]) if found is not None else (str(fault), "")
        raise Malformed(what.replace("`", "'"), join(field, path)) from fault
    except msgspec.DecodeError as fault:
        raise Malformed(f"this is not JSON: {fault}", field) from fault
    except UnicodeError as fault:
        raise Malformed(f"this is not UTF-8: {fault}", field) from fault
    except RecursionError as fault:
        raise Malformed("this is nested too deep", field) from fault
    except Malformed as fault:
        raise Malformed(str(fault), join(field, fault.field)) from fault


def reader(kind: Any) -> Reader[Any]:
    """A decoder of the type that keeps what a client says beyond it, and refuses by its place what cannot be kept."""
    return Reader(kind, _kept)


def _kept(extra: Json, place: str) -> Json:
    for name, value in extra.items():
        if len(_encode(plain(value, f"{place}.{name}"))) > MOST:
            raise Malformed(f"nobody here reads this field, and it is larger than {MOST >> 20} MB", f"{place}.{name}")
    return extra


def join(field: str, path: str) -> str:
    """The place `path` (`.name`, `[3]`) inside `field`."""
    return field + path if field else path.removeprefix(".")


def named(value: str, field: str) -> str:
    """The value itself, once sure that it can be a name or id: what `Name` says, at a tenth of its cost.

    Raises:
        Malformed: it is empty, too long, or holds control characters.
    """
    if value and len(value) <= LONGEST_NAME and (value.isprintable() or not _CONTROL.search(value)):
        return value
    raise Malformed(f"this must be 1 to {LONGEST_NAME} characters, none of them control characters", field)


def needed(members: dict[str, msgspec.Raw], name: str) -> msgspec.Raw:
    """Take out a member that must be there.

    Raises:
        Malformed: it is missing.
    """
    found = members.pop(name, None)
    if found is None:
        raise Malformed("this field is required", name)
    return found


def one(count: int | None) -> None:
    """Refuse a request for several replies: a turn has one, and the others would be paid for and lost.

    Raises:
        Malformed: it asks for several.
    """
    if count is not None and count != 1:
        raise Malformed("n must be 1: ask several times for several replies", "n")


def passed_on(members: dict[str, msgspec.Raw], names: Iterable[str]) -> Json:
    """The named members as plain values.

    Raises:
        Malformed: one is of `OURS_ELSEWHERE` and not null, or holds what no other reader of JSON or msgpack would take.
    """
    found: Json = {}
    for name in names:
        if name in OURS_ELSEWHERE:
            if bytes(members[name]) != b"null":
                raise Malformed("this API has no such field, and the gateway does not pass it on", name)
            continue
        found[name] = value_of(members[name], name)
    return found


def value_of(raw: msgspec.Raw, field: str) -> Any:
    """A member as a plain value.

    Raises:
        Malformed: it holds what no other reader of JSON or msgpack would take.
    """
    return plain(decoded(_any, raw, field), field)


def plain(value: Any, field: str) -> Any:
    """The value itself, once sure that it can be written again.

    Raises:
        Malformed: an integer beyond 64 bits, or nested too deep.
    """
    if fault_of(value) is not None:  # names are made once something is wrong: they cost more than all the rest
        _fault(value, field, 0)
    return value


def _fault(value: Any, field: str, level: int) -> None:
    """Find the place of what cannot be written again, if there is such."""
    if isinstance(value, dict):
        for key, item in cast("Json", value).items():
            if isinstance(item, dict | list | int):
                _fault(item, f"{field}.{key}" if level < 4 else field, level + 1)
    elif isinstance(value, list):
        for place, item in enumerate(cast("list[Any]", value)):
            if isinstance(item, dict | list | int):
                _fault(item, f"{field}[{place}]" if level < 4 else field, level + 1)
    elif isinstance(value, int) and not _LEAST <= value <= _MOST:
        raise Malformed("this integer is out of range", field)
    if level >= DEEPEST:
        raise Malformed("this is nested too deep", field)


def distinct(tools: tuple[Tool, ...], field: str) -> tuple[Tool, ...]:
    """The tools, once sure that each can be told by its name.

    Raises:
        Malformed: two have one name.
    """
    seen: set[str] = set()
    for place, tool in enumerate(tools):
        if tool.name in seen:
            raise Malformed(f"a tool named {tool.name!r} is there already", f"{field}[{place}].name")
        seen.add(tool.name)
    return tools


def remembered(read: Callable[[bytes], T]) -> Callable[[msgspec.Raw], T]:
    """`read`, which must be pure, once for each set of tools: agents send the same ones with every call."""
    kept = lru_cache(maxsize=128)(read)

    def from_raw(raw: msgspec.Raw) -> T:
        data = bytes(raw)
        return kept(data) if len(data) <= _KEPT_TOOLS else read(data)

    return from_raw
