"""What a tool does, told by its name: environments call the same things differently.

A call is of the first kind whose pattern its name matches; a call that runs a shell command is also what the command
does (`cat` views, `sed -i` edits). The patterns are configuration: an environment with other names needs no code.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import lru_cache

from pydantic import BaseModel, ConfigDict, field_validator

from silva.curate.turn import Call

PATHS = ("path", "file", "file_path", "filename", "file_name", "target_file")
"""Arguments that name a file."""
COMMANDS = ("command", "cmd", "code", "script", "input", "text")
"""Arguments that hold a shell command, where the tool runs one."""

_EDITS = re.compile(
    r"""(?:\bsed\s+(?:-\w+\s+)*-i\S*\s+(?:-e\s+)?(?:'[^']*'|"[^"]*"|\S+)\s+(?P<sed>[\w./~-]+))"""
    r"""|(?:>>\s*(?P<more>[\w./~-]+))|(?:\bpatch\s+(?:-\w+\s+)*(?P<patch>[\w./~-]+))"""
)
_WRITES = re.compile(r"(?<![>\d&])>\s*(?P<path>[\w./~-]+)|\btee\s+(?P<tee>[\w./~-]+)")
_VIEWS = re.compile(r"\b(?:cat|head|tail|less|more|nl|sed\s+-n|grep|rg|awk|diff|od|xxd)\b(?P<rest>[^|;&>]*)")
_WORD = re.compile(r"[\w./~-]+")
_PATTERN = re.compile(r"(?<=\s)[\w./~-]*[*?][\w./~*?-]*(?=\s|$)")
_COPIES = re.compile(r"\b(?:cp|mv)\s+(?:-\w+\s+)*(?P<old>[\w./~-]+)\s+(?P<new>[\w./~-]+)\s*(?=$|[;&|\n])")


def expression(value: str) -> str:
    """A regular expression of a configuration, as it was given.

    Raises:
        ValueError: it is none.
    """
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{value!r} is no regular expression: {error}") from error
    return value


class Kinds(BaseModel):
    """Patterns of tools' names; each is a regular expression that the whole name must match, letters of either case.

    `view` shows a file, `edit` changes one that is there, `write` makes or replaces one, `run` executes a command,
    `evaluate` asks for a score, `finish` ends the task, `wait` lets time pass (waiting twice is no repetition).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    view: str = (
        r"(view|read|open|cat|show|inspect|get)[_-]?(file|document)\w*|(file|document)[_-]?(view|read|search)"
        r"|cat|grep|search_in_file"
    )
    edit: str = (
        r"(edit|modify|change|patch|replace|append|insert)[_-]?(in[_-]?)?(file|text|lines?|string)\w*"
        r"|file[_-]?edit|str_replace\w*|apply_patch"
    )
    write: str = r"(write|create|save)[_-]?(to[_-]?)?(file|script|text)\w*|file[_-]?(write|create)|touch|echo"
    run: str = r"(run|execute|exec|bash|shell|terminal|command|session)\w*|\w*_(command|run|shell|exec|bash)"
    evaluate: str = r"eval(uate)?\w*|submit_for_score|score"
    finish: str = r"finish\w*|submit|done|complete_task|end_task|stop"
    wait: str = r"sleep|wait\w*|\w*_?(poll|output|idle|wait)|pause"

    @field_validator("*")
    @classmethod
    def _compiles(cls, value: str) -> str:
        return expression(value)

    def of(self, name: str) -> str:
        """The kind of the tool of that name; "" for none of them."""
        for kind in ("evaluate", "finish", "wait", "view", "edit", "write", "run"):
            if _compiled(getattr(self, kind)).fullmatch(name):
                return kind
        return ""

    def viewed(self, call: Call) -> set[str]:
        """The files whose content the call shows; a shell's pattern (`*.conf`) where it shows all that match."""
        kind = self.of(call.name)
        if kind == "view":
            return _paths(call)
        if kind in ("run", "wait"):
            shown = [found["rest"] for found in _VIEWS.finditer(command_of(call))]
            return {word for rest in shown for word in (*_WORD.findall(rest), *_PATTERN.findall(rest))}
        return set()

    def copied(self, call: Call) -> list[tuple[str, str]]:
        """Files copied or renamed: from where, to where."""
        if self.of(call.name) != "run":
            return []
        return [(found["old"], found["new"]) for found in _COPIES.finditer(command_of(call))]

    def deed(self, call: Call) -> str:
        """What two calls share that do the same: of one that runs a command how the command is written, its comments,
        blanks and kinds of quotes, does not matter."""
        command = command_of(call) if self.of(call.name) in ("run", "wait") else ""
        if not command or call.arguments is None:
            return call.key
        rest = {name: value for name, value in call.arguments.items() if value != command}
        return json.dumps([call.name, _words(command), rest], sort_keys=True)

    def asks(self, call: Call) -> bool:
        """Whether the call runs a command that shows or compares: what it prints is content."""
        command = command_of(call)
        return self.of(call.name) == "run" and bool(command) and _looks_only(command)

    def compares(self, call: Call) -> bool:
        """Whether the call's command ends in one whose exit code 1 is an answer: nothing matches, or they differ."""
        last = re.split(r"&&|\|\||[;|\n]", command_of(call))[-1]
        return self.of(call.name) == "run" and _ANSWERS.match(last) is not None

    def edited(self, call: Call) -> set[str]:
        """The files that are there before the call, and that it changes in part."""
        kind = self.of(call.name)
        if kind == "edit":
            return _paths(call)
        if kind == "run":
            return {path for found in _EDITS.finditer(command_of(call)) for path in found.groups() if path}
        return set()

    def added(self, call: Call) -> set[str]:
        """Of the files edited those that the call only adds lines to."""
        if self.of(call.name) != "run":
            return set()
        return {path for found in _EDITS.finditer(command_of(call)) if (path := found["more"])}

    def written(self, call: Call) -> set[str]:
        """The files whose whole content the call gives: who wrote one knows what is in it."""
        kind = self.of(call.name)
        if kind == "write":
            return _paths(call)
        if kind == "run":
            return {path for found in _WRITES.finditer(command_of(call)) for path in found.groups() if path}
        return set()

    def changes(self, call: Call) -> bool:
        """Whether the call may change what an evaluation sees. A tool nobody knows may."""
        kind = self.of(call.name)
        if kind == "run":
            command = command_of(call)
            return not command or not _looks_only(command)
        return kind in ("edit", "write", "wait", "")


def _words(command: str) -> list[str]:
    """A command as the words a shell reads: comments are none, lines end like `;`."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    try:
        words = ["; " if set(word) <= {"\n", ";"} else word for word in lexer]
    except ValueError:  # a quote that does not end
        return [command]
    while words and words[-1] == "; ":
        words.pop()
    return words


@lru_cache(64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _paths(call: Call) -> set[str]:
    return {str(value) for name, value in (call.arguments or {}).items() if name in PATHS and isinstance(value, str)}


def command_of(call: Call) -> str:
    """The command a call runs; "" where it has none."""
    arguments = call.arguments or {}
    return next((str(arguments[name]) for name in COMMANDS if isinstance(arguments.get(name), str)), "")


_LOOKS = re.compile(
    r"\s*((cat|head|tail|less|ls|pwd|grep|rg|find|wc|stat|file|du|df|ps|echo|cd|which|env|nl)(\s.*)?)?", re.DOTALL
)


_ANSWERS = re.compile(r"\s*(grep|egrep|fgrep|rg|diff|cmp|test|\[)\s")


def _looks_only(command: str) -> bool:
    if ">" in command:
        return False
    parts = re.split(r"&&|\|\||[;|\n]", command)
    return all(_LOOKS.fullmatch(part) for part in parts)
