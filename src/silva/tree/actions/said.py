"""What an action says, decoded: the texts that patterns are looked for in, and the command lines among them."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

from silva.tree.actions.shell import Program, programs
from silva.tree.message import Message, ToolCall

DEPTH = 6
"""How deep arguments are read: JSON within strings of JSON counts."""

_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_STRING = re.compile(r'"((?:[^"\\]|\\.)+)')
_RUNS = re.compile(
    r"run|exec|bash|shell|terminal|command|console|session|ssh|subprocess|cmd|\bsh\b|cli\b", re.IGNORECASE
)
_PROSE = re.compile(
    r"content|body|message|description|query|question|thought|reason|title|summary|prompt|answer|note|comment|"
    r"(new|old)_?(str|string|text)|(file_?|^)text$|replacement|subject",
    re.IGNORECASE,
)


def texts(action: Message) -> tuple[str, ...]:
    """Everything an action says, each as a text: its words; each call as it was written, and with its arguments
    decoded; each string in its arguments by itself; and all of it with compatible characters folded and those of no
    width left out."""
    said = [action.text]
    for call in action.tool_calls:
        said += [f"{call.name} {call.arguments}", f"{call.name} {decoded(call)}"]
        said += [value for _, value in _strings(call)]
    folded = [_folded(each) for each in said]
    return tuple(dict.fromkeys(filter(None, (*said, *folded))))


def runs_of(action: Message) -> list[Program]:
    """The programs of all command lines of an action."""
    return [program for line in lines(action) for program in programs(line)]


def found(pattern: re.Pattern[str], action: Message) -> bool:
    """Whether a pattern is found in anything an action says, or in a program that it runs."""
    if any(map(pattern.search, texts(action))):
        return True
    return any(pattern.search(str(program)) for program in runs_of(action))


def lines(action: Message) -> Iterator[str]:
    """The strings of an action's calls that a shell may be given. Words for people, and what is written into files, are
    none, unless the tool is one that runs commands."""
    for call in action.tool_calls:
        runs = _RUNS.search(call.name) is not None
        for name, value in _strings(call):
            if runs or not _PROSE.search(name):
                yield value


def decoded(call: ToolCall) -> str:
    """A call's arguments without JSON escapes, as the environment reads them; what is no JSON as it stands."""
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), call.arguments)
    return json.dumps(value, ensure_ascii=False)


def _strings(call: ToolCall) -> Iterator[tuple[str, str]]:
    """The strings in a call's arguments with the name each goes by; a list of words counts as a line, too."""
    try:
        # Of two members of one name some readers take the first and some the last: both are looked at.
        value = json.loads(call.arguments, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        yield "", decoded(call)  # what is no JSON may be read leniently: whole, and each string in it
        yield from (("", text) for text in _STRING.findall(decoded(call)))
        return
    yield from _of("", value, 0)


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, doubled names and all."""


def _of(name: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    if depth > DEPTH:
        return
    if isinstance(value, _Pairs):
        for key, member in value:
            yield from _of(key, member, depth + 1)
    elif isinstance(value, list):
        members = cast("list[object]", value)
        words = [each for each in members if isinstance(each, str)]
        if len(words) == len(members) > 1:
            yield name, shlex.join(words)
        for member in members:
            yield from _of(name, member, depth + 1)
    elif isinstance(value, str):
        yield name, value
        if value.lstrip()[:1] in ("{", "[", '"'):
            try:
                inner = json.loads(value, object_pairs_hook=_Pairs)
            except (ValueError, RecursionError):
                return
            yield from _of(name, inner, depth + 1)


def _folded(text: str) -> str:
    if text.isascii():
        return text
    return "".join(one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) != "Cf")
