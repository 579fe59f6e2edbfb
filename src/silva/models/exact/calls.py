"""Tool calls as models write them: the text of a call to a ToolCall, arguments kept as they were sampled.

What cannot be read gives None, and stays text. Only where a family writes no JSON (Qwen3-coder's XML, Gemma's Python)
are arguments put into JSON here.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from silva.tree import Tool

Written = tuple[str, str, str]
"""Name, raw arguments, and the id the model gave or ""."""

ReadCalls = Callable[[str, Sequence[Tool]], list[Written] | None]

_NOTHING = msgspec.Raw(b"")


class _Call(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = _NOTHING
    parameters: msgspec.Raw = _NOTHING
    id: str = ""


def read_tagged(block: str, tools: Sequence[Tool]) -> list[Written] | None:
    """What stands between `<tool_call>` and `</tool_call>`: JSON (Hermes, Qwen), XML (Qwen3-coder) or pairs (GLM)."""
    stripped = block.strip()
    if stripped.startswith("<function="):
        found = _FUNCTION.fullmatch(stripped)
        return None if found is None else _read_pairs(found[1], found[2], _PARAMETER, tools)
    if not stripped.startswith("{"):
        found = _GLM.fullmatch(stripped)
        return None if found is None else _read_pairs(found[1], found[2], _PAIR, tools)
    call = _read_object(stripped)
    return None if call is None else [call]


def read_llama(block: str, tools: Sequence[Tool]) -> list[Written] | None:
    """Llama 3's `{"name": …, "parameters": {…}}`, several parted by `;`."""
    decoder = json.JSONDecoder()
    rest, calls = block.strip(), list[Written]()
    while rest:
        try:
            _, end = decoder.raw_decode(rest)
        except (json.JSONDecodeError, RecursionError):
            return None
        call = _read_object(rest[:end])
        if call is None:
            return None
        calls.append(call)
        rest = rest[end:].lstrip().removeprefix(";").lstrip()
    return calls or None


def read_mistral(block: str, tools: Sequence[Tool]) -> list[Written] | None:
    """What follows `[TOOL_CALLS]`: a JSON list of calls, or `name[ARGS]{…}` as newer models write it."""
    stripped = block.strip()
    if not stripped.startswith("["):
        found = re.fullmatch(r"([\w.-]+)(?:\[CALL_ID\](\w+))?(?:\[ARGS\])?\s*(\{.*\})", stripped, re.DOTALL)
        arguments = None if found is None else _object_text(found[3])
        return None if found is None or arguments is None else [(found[1], arguments, found[2] or "")]
    try:
        listed = msgspec.json.decode(stripped.encode(), type=list[_Call])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    calls = [_written(call) for call in listed]
    return [call for call in calls if call is not None] if calls and None not in calls else None


_DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>(?P<old>[^\n]+)\n```json\n(?P<fenced>.*?)\n```|"
    r"(?P<new>[^<\n]+)<｜tool▁sep｜>(?P<bare>.*?))\s*<｜tool▁call▁end｜>\s*",
    re.DOTALL,
)


def read_deepseek(block: str, tools: Sequence[Tool]) -> list[Written] | None:
    """What stands between DeepSeek's begin and end of calls; V3 and R1 fence the JSON, V3.1 does not."""
    calls: list[Written] = []
    place, stripped = 0, block.strip()
    while place < len(stripped):
        found = _DEEPSEEK.match(stripped, place)
        if found is None:
            return None
        arguments = _object_text(found["fenced"] if found["old"] else found["bare"])
        if arguments is None:
            return None
        calls.append(((found["old"] or found["new"]).strip(), arguments, ""))
        place = found.end()
    return calls or None


def read_gemma(block: str, tools: Sequence[Tool]) -> list[Written] | None:
    """Gemma's fence of Python: one call a line with named, literal arguments, bare or inside `print(…)`."""
    try:
        body = ast.parse(block.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    calls = [_read_python(line) for line in body]
    return [call for call in calls if call is not None] if calls and None not in calls else None


def _read_object(text: str) -> Written | None:
    try:
        return _written(msgspec.json.decode(text.encode(), type=_Call))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _written(call: _Call) -> Written | None:
    text = (bytes(call.arguments) or bytes(call.parameters) or b"{}").decode()
    return (call.name, text, call.id) if call.name and _object_text(text) is not None else None


def _object_text(text: str) -> str | None:
    """The text, if it is a JSON object."""
    try:
        msgspec.json.decode(text.encode(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return text


_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>)?\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_GLM = re.compile(r"([^\s<]+)\s*((?:<arg_key>.*)?)", re.DOTALL)
_PAIR = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)


def _read_pairs(name: str, body: str, pair: re.Pattern[str], tools: Sequence[Tool]) -> list[Written] | None:
    name, place = name.strip(), 0
    schema: Any = next((tool.parameters for tool in tools if tool.name == name), {})
    properties: Any = schema.get("properties") if isinstance(schema, dict) else None
    arguments: dict[str, Any] = {}
    while body[place:].strip():
        found = pair.match(body, place)
        if found is None:
            return None
        key = found[1].strip()
        arguments[key] = _typed(found[2], properties.get(key) if isinstance(properties, dict) else None)
        place = found.end()
    return [(name, json.dumps(arguments, ensure_ascii=False), "")]


def _typed(text: str, schema: Any) -> Any:
    """A value as the tool's schema wants it: what is no string is read as JSON, and left as text where it is none."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind is None or kind == "string":
        return text
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text


def _read_python(line: ast.stmt) -> Written | None:
    call = line.value if isinstance(line, ast.Expr) else None
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "print"
        and len(call.args) == 1
    ):
        call = call.args[0]
    if not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
        return None
    try:
        arguments = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        return ast.unparse(call.func), json.dumps(arguments, ensure_ascii=False), ""
    except (ValueError, TypeError, RecursionError):
        return None
