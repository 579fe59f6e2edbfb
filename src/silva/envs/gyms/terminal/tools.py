"""The tools of the terminal gym: their names, what they say of themselves, their arguments."""

from __future__ import annotations

from typing import Any

from silva.tree import Tool

LONGEST_WAIT = 45.0
"""Seconds that one call waits at most: a turn must end before the host's patience does."""

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_SECONDS = {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT}
_SESSION = {"type": "string", "description": "the session's name; main when left out"}
_PATH = {"type": "string", "description": "relative to the folder the task starts in, or absolute"}


def _tool(name: str, description: str, needed: tuple[str, ...] = (), **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(needed), "additionalProperties": False}
    return Tool(name=name, description=description, parameters=schema)


TOOLS: tuple[Tool, ...] = (
    _tool(
        "session_create",
        "Open a shell session of that name: bash on a terminal, which keeps its folder and variables between calls.",
        ("session",),
        session=_SESSION,
        folder=_PATH,
    ),
    _tool(
        "session_run",
        "Run a command in a session and wait for its end. One that takes longer than `wait` seconds (10 when left out)"
        " runs on while you do other things. The session main need not be created.",
        ("command",),
        command=_TEXT,
        session=_SESSION,
        wait=_SECONDS,
    ),
    _tool(
        "session_start",
        "Start a command in a session and do not wait; look later with session_output.",
        ("command",),
        command=_TEXT,
        session=_SESSION,
    ),
    _tool(
        "session_input",
        "Type to the program that runs in a session: `text` (with Enter, unless enter is false), or one `key`: ctrl-c,"
        " ctrl-d, ctrl-z, enter, tab, escape.",
        (),
        session=_SESSION,
        text=_TEXT,
        enter={"type": "boolean"},
        key=_TEXT,
    ),
    _tool(
        "session_output",
        "What a session has printed since you last looked, or since a position; waits up to `wait` seconds for the"
        " command to end.",
        (),
        session=_SESSION,
        since=_WHOLE,
        wait=_SECONDS,
    ),
    _tool("session_idle", "Whether a session's command still runs, and how long it has been quiet.", session=_SESSION),
    _tool("session_kill", "End a session with everything it started.", session=_SESSION),
    _tool(
        "file_view",
        "A file's lines with numbers (first to last), or what a folder holds.",
        ("path",),
        path=_PATH,
        first=_WHOLE,
        last=_WHOLE,
    ),
    _tool("file_write", "Write a whole file; folders above it are made.", ("path", "text"), path=_PATH, text=_TEXT),
    _tool(
        "file_edit",
        "Put `new` in the place of `old`, which must stand in the file exactly once (or everywhere: true).",
        ("path", "old", "new"),
        path=_PATH,
        old=_TEXT,
        new=_TEXT,
        everywhere={"type": "boolean"},
    ),
    _tool(
        "file_search",
        "Lines that match an extended regular expression, below a folder or in a file; `names`: only files named so"
        " (*.py).",
        ("pattern",),
        pattern=_TEXT,
        path=_PATH,
        names=_TEXT,
    ),
    _tool("document_read", "The text of a PDF, DOCX or PPTX, or what an image says of itself.", ("path",), path=_PATH),
    _tool("sleep", "Wait, while sessions run on.", ("seconds",), seconds=_SECONDS),
    _tool("evaluate", "Have the task's tests run on a copy of the workspace, and be told the score. Counted."),
    _tool("finish", "End the task; the tests decide.", (), message=_TEXT),
)


def checked(name: str, arguments: dict[str, Any]) -> str:
    """What is wrong with a call, in words; "" when nothing is."""
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        return f"there is no tool {name}; there are {', '.join(tool.name for tool in TOOLS)}"
    properties = tool.parameters["properties"]
    for needed in tool.parameters["required"]:
        if needed not in arguments:
            return f"{name} needs {needed}"
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    for key, value in arguments.items():
        if key not in properties:
            return f"{name} has no {key}; it takes {', '.join(properties) or 'nothing'}"
        kind = properties[key]["type"]
        if not isinstance(value, kinds[kind]) or (kind != "boolean" and isinstance(value, bool)):
            return f"{name}: {key} is to be {'an' if kind == 'integer' else 'a'} {kind}"
        if kind == "number" and not 0 <= value <= properties[key].get("maximum", value):
            return f"{name}: {key} is between 0 and {properties[key]['maximum']:g}"
    return ""
