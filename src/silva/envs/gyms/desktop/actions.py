"""The actions of the desktop gym, which are OSWorld's: structured ones, pyautogui code, WAIT, DONE and FAIL.

    tool call ─▶ checked ─▶ Action                       words (OSWorld's own form) ─▶ spoken ─▶ Actions

An agent calls tools, one for each action; or it writes, as OSWorld's agents do, a block of pyautogui code, a line of
JSON with `action_type` and `parameters`, or one of the three words. (OSWorld: Xie et al. 2024, arXiv:2404.07972.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from silva.tree import Json, Record, Tool

LONGEST_WAIT = 30.0
MOST_CODE = 64 << 10
"""Characters of one piece of code, or of what is typed."""
KEYS = frozenset(
    [
        "enter",
        "return",
        "tab",
        "space",
        "backspace",
        "delete",
        "del",
        "escape",
        "esc",
        "insert",
        "home",
        "end",
        "pageup",
        "pagedown",
        "pgup",
        "pgdn",
        "up",
        "down",
        "left",
        "right",
        "ctrl",
        "ctrlleft",
        "ctrlright",
        "alt",
        "altleft",
        "altright",
        "shift",
        "shiftleft",
        "shiftright",
        "win",
        "winleft",
        "winright",
        "option",
        "command",
        "capslock",
        "numlock",
        "scrolllock",
        "printscreen",
        "pause",
        "menu",
        "apps",
    ]
    + [f"f{number}" for number in range(1, 13)]
    + [chr(code) for code in range(33, 127)]
)
_NUMBER = {"type": "number"}
_BUTTON = {"type": "string", "enum": ["left", "right", "middle"]}
_KEY = {"type": "string", "description": "a key as pyautogui names it: enter, ctrl, f5, a"}


class Action(Record, frozen=True, kw_only=True):
    """One action, its arguments checked."""

    name: str
    arguments: Json


def _tool(name: str, description: str, needed: tuple[str, ...] = (), **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(needed), "additionalProperties": False}
    return Tool(name=name, description=description, parameters=schema)


TOOLS: tuple[Tool, ...] = (
    _tool(
        "pyautogui",
        "Run Python code on the desktop. pyautogui and time are imported; each piece is a program of its own, so no "
        "variable outlives it. What it prints is told.",
        ("code",),
        code={"type": "string"},
    ),
    _tool("move_to", "Move the pointer.", ("x", "y"), x=_NUMBER, y=_NUMBER),
    _tool(
        "click",
        "Click at a point, or where the pointer is.",
        x=_NUMBER,
        y=_NUMBER,
        button=_BUTTON,
        num_clicks={"type": "integer", "minimum": 1, "maximum": 3},
    ),
    _tool("double_click", "Click twice with the left button.", x=_NUMBER, y=_NUMBER),
    _tool("right_click", "Click with the right button.", x=_NUMBER, y=_NUMBER),
    _tool("mouse_down", "Press a button and hold it.", button=_BUTTON),
    _tool("mouse_up", "Let a button go.", button=_BUTTON),
    _tool(
        "drag_to", "Drag from where the pointer is to a point, with the left button.", ("x", "y"), x=_NUMBER, y=_NUMBER
    ),
    _tool(
        "scroll",
        "Turn the wheel: dy clicks up (negative: down), dx to the right.",
        dx={"type": "integer", "minimum": -100, "maximum": 100},
        dy={"type": "integer", "minimum": -100, "maximum": 100},
    ),
    _tool("typing", "Type text where the focus is.", ("text",), text={"type": "string"}),
    _tool("press", "Press a key and let it go.", ("key",), key=_KEY),
    _tool("key_down", "Press a key and hold it.", ("key",), key=_KEY),
    _tool("key_up", "Let a key go.", ("key",), key=_KEY),
    _tool(
        "hotkey", "Press keys together, as ctrl and s.", ("keys",), keys={"type": "array", "items": _KEY, "minItems": 1}
    ),
    _tool(
        "wait",
        "Wait, and look again.",
        seconds={"type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "description": "1 when left out"},
    ),
    _tool("done", "End the task: it is done."),
    _tool("fail", "End the task: it cannot, or should not, be done.", reason={"type": "string"}),
)
_TOOLS = {tool.name: tool for tool in TOOLS}
ENDINGS = ("done", "fail")
_KINDS = {"string": str, "integer": int, "number": (int, float), "array": list}
_FENCE = re.compile(r"```(?:python|py|json)?[ \t]*\n(.*?)```", re.DOTALL)
_WORDS = {"WAIT": "wait", "DONE": "done", "FAIL": "fail"}


class Mistake(ValueError):
    """An action that cannot be carried out; the text says why and goes to the agent."""


def checked(name: str, arguments: Mapping[str, Any], width: int, height: int) -> Action:
    """An action on a screen of that size.

    Raises:
        Mistake: there is no such action, or its arguments do not fit.
    """
    tool = _TOOLS.get(name)
    if tool is None:
        raise Mistake(f"there is no action {name!r}; there are {', '.join(_TOOLS)}")
    properties: Json = tool.parameters["properties"]
    for needed in tool.parameters["required"]:
        if needed not in arguments:
            raise Mistake(f"{name} needs {needed}")
    for key, value in arguments.items():
        if key not in properties:
            raise Mistake(f"{name} has no {key}; it takes {', '.join(properties) or 'nothing'}")
        _check(f"{name}: {key}", value, properties[key])
    if ("x" in arguments) != ("y" in arguments):
        raise Mistake(f"{name} needs both x and y, or neither")
    for key, size in (("x", width), ("y", height)):
        if key in arguments and not 0 <= arguments[key] < size:
            raise Mistake(f"{name}: {key} is {arguments[key]:g}, and the screen has {width} x {height} pixels")
    for key in (*arguments.get("keys", ()), *([arguments["key"]] if "key" in arguments else [])):
        if key.lower() not in KEYS and key not in KEYS:
            raise Mistake(
                f"{name}: there is no key {key!r}; keys are named as pyautogui names them: enter, ctrl, f5, a"
            )
    return Action(name=name, arguments={key: _plain(key, value) for key, value in arguments.items()})


def spoken(text: str, width: int, height: int) -> tuple[Action, ...]:
    """The actions that words hold, in OSWorld's form; none where they hold none.

    Raises:
        Mistake: they hold one that cannot be carried out.
    """
    blocks = [block.strip() for block in _FENCE.findall(text)]
    bare = text.strip()
    if not blocks and (bare in _WORDS or (bare.startswith("{") and '"action_type"' in bare)):
        blocks = [bare]
    return tuple(action for block in blocks if block for action in _of_block(block, width, height))


def _of_block(block: str, width: int, height: int) -> list[Action]:
    if block in _WORDS:
        return [Action(name=_WORDS[block], arguments={})]
    if block.startswith("{") and '"action_type"' in block:
        try:
            given = json.loads(block)
            name, arguments = str(given["action_type"]), given.get("parameters") or {}
        except (ValueError, KeyError, AttributeError) as error:
            raise Mistake(f"the JSON of the action cannot be read: {error}") from error
        if not isinstance(arguments, dict):
            raise Mistake(f"parameters of {name} are to be an object")
        return [checked(name.lower(), arguments, width, height)]
    lines = block.splitlines()
    last = _WORDS.get(lines[-1].strip())
    if last is not None:  # code, and the word after it
        return [checked("pyautogui", {"code": "\n".join(lines[:-1])}, width, height), Action(name=last, arguments={})]
    return [checked("pyautogui", {"code": block}, width, height)]


def _check(what: str, value: Any, schema: Json) -> None:
    kind = schema["type"]
    if not isinstance(value, _KINDS[kind]) or isinstance(value, bool):
        raise Mistake(f"{what} is to be {'an' if kind in ('integer', 'array') else 'a'} {kind}")
    if "enum" in schema and value not in schema["enum"]:
        raise Mistake(f"{what} is one of {', '.join(schema['enum'])}")
    if kind in ("integer", "number"):
        if value != value or abs(value) == float("inf"):
            raise Mistake(f"{what} is to be a number")
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            raise Mistake(f"{what} is between {schema['minimum']} and {schema['maximum']:g}")
    if kind == "string" and len(value) > MOST_CODE:
        raise Mistake(f"{what} has more than {MOST_CODE:,} characters")
    if kind == "string" and "\0" in value:
        raise Mistake(f"{what} holds a NUL character")
    if kind == "array":
        if not 0 < len(value) <= 6:
            raise Mistake(f"{what} is a list of one to six keys")
        for each in value:
            _check(what, each, schema["items"])


def _plain(key: str, value: Any) -> Any:
    if key == "keys":
        return [_plain("key", each) for each in value]
    return value.lower() if key == "key" and len(value) > 1 else value
