"""What a tool does, told by its name: environments call the same things differently.

A call is of the first kind whose pattern its name matches; a call that runs a shell command is also what the command
does (`cat` views, `sed -i` edits), as the shell's grammar reads it (`silva.tree.actions`). The patterns are
configuration: an environment with other names needs no code.
"""

from __future__ import annotations

import json
import posixpath
import re
from functools import lru_cache

from pydantic import BaseModel, ConfigDict, field_validator

from silva.curate.turn import Call
from silva.tree.actions import Program, programs, tokens

PATHS = ("path", "file", "file_path", "filename", "file_name", "target_file")
"""Arguments that name a file."""
COMMANDS = ("command", "cmd", "code", "script", "input", "text")
"""Arguments that hold a shell command, where the tool runs one."""

_VIEWS = frozenset(
    {"cat", "head", "tail", "less", "more", "nl", "grep", "egrep", "fgrep", "rg", "awk", "diff", "od", "xxd"}
)
"""Programs that print what is in the files they are given; `sed` is one where it does not edit them."""
_LOOKS = frozenset({"cat", "head", "tail", "less", "nl", "ls", "pwd", "grep", "rg", "find", "wc", "stat", "file", "du"})
_LOOKS |= {"df", "ps", "echo", "cd", "which", "env", "test", "[", "[["}
"""Programs that change nothing, whatever they are given (`find` has exceptions)."""
_ACTS = frozenset({"-delete", "-fprint", "-fprintf", "-fprint0", "-fls", "-exec", "-execdir", "-ok", "-okdir"})
"""Actions of `find` that are no looks."""
_ANSWERS = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[", "[["})
"""Programs whose exit code 1 is an answer: nothing matches, or they differ."""
_OPERATORS = frozenset({"&&", "||", ";", "|", "|&", "&"})


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
            return {word for each in _programs(command_of(call)) if _views(each) for word in _files(each)}
        return set()

    def copied(self, call: Call) -> list[tuple[str, str]]:
        """Files copied or renamed: from where, to where."""
        if self.of(call.name) != "run":
            return []
        found: list[tuple[str, str]] = []
        for each in _programs(command_of(call)):
            if each.name in ("cp", "mv") and len(files := _files(each)) > 1:
                *old, new = files
                inside = len(old) > 1  # several go into a folder
                found += [(one, f"{new.rstrip('/')}/{posixpath.basename(one)}" if inside else new) for one in old]
        return found

    def deed(self, call: Call) -> str:
        """What two calls share that do the same: of one that runs a command how the command is written, its comments,
        blanks and kinds of quotes, does not matter."""
        command = command_of(call) if self.of(call.name) in ("run", "wait") else ""
        if not command or call.arguments is None:
            return call.key
        rest = {name: value for name, value in call.arguments.items() if value != command}
        return json.dumps([call.name, _tokens(command), rest], sort_keys=True)

    def asks(self, call: Call) -> bool:
        """Whether the call runs a command that shows or compares: what it prints is content."""
        command = command_of(call)
        return self.of(call.name) == "run" and bool(command) and _looks_only(command)

    def compares(self, call: Call) -> bool:
        """Whether the call's command ends in one whose exit code 1 is an answer: nothing matches, or they differ."""
        if self.of(call.name) != "run":
            return False
        last: list[str] = []
        for token in _tokens(command_of(call)):
            last = [] if token in _OPERATORS else [*last, token]
        return bool(last) and posixpath.basename(last[0]) in _ANSWERS

    def edited(self, call: Call) -> set[str]:
        """The files that are there before the call, and that it changes in part."""
        kind = self.of(call.name)
        if kind == "edit":
            return _paths(call)
        if kind == "run":
            return {path for each in _programs(command_of(call)) for path in (*_in_place(each), *_appended(each))}
        return set()

    def added(self, call: Call) -> set[str]:
        """Of the files edited those that the call only adds lines to."""
        if self.of(call.name) != "run":
            return set()
        return {path for each in _programs(command_of(call)) for path in _appended(each)}

    def written(self, call: Call) -> set[str]:
        """The files whose whole content the call gives: who wrote one knows what is in it."""
        kind = self.of(call.name)
        if kind == "write":
            return _paths(call)
        if kind == "run":
            return {path for each in _programs(command_of(call)) for path in _replaced(each)}
        return set()

    def changes(self, call: Call) -> bool:
        """Whether the call may change what an evaluation sees. A tool nobody knows may."""
        kind = self.of(call.name)
        if kind == "run":
            command = command_of(call)
            return not command or not _looks_only(command)
        return kind in ("edit", "write", "wait", "")


@lru_cache(4096)
def _programs(command: str) -> tuple[Program, ...]:
    return tuple(programs(command))


@lru_cache(4096)
def _tokens(command: str) -> tuple[str, ...]:
    return tokens(command)


def _files(program: Program) -> list[str]:
    """The words of a program that are no options."""
    return [word for word in program.arguments if not word.startswith("-")]


def _opens(program: Program, *operators: str) -> list[str]:
    """The files that redirections of those operators open."""
    return [file for operator, file in program.writes if operator in operators and not file.startswith("/dev/")]


def _edits(program: Program) -> bool:
    return program.name == "sed" and any(
        word.startswith("--in-place") or re.fullmatch(r"-[a-zA-Z]*i\S*", word) for word in program.arguments
    )


def _views(program: Program) -> bool:
    return program.name in _VIEWS or (program.name == "sed" and not _edits(program))


def _in_place(program: Program) -> list[str]:
    """The files that a program changes in part."""
    if program.name == "patch":
        return _files(program)[:1]
    if not _edits(program):
        return []
    named, files, words = False, list[str](), iter(program.arguments)
    for word in words:
        if word in ("-e", "-f", "--expression", "--file"):
            named = True
            next(words, "")
        elif not word.startswith("-"):
            files.append(word)
        named = named or word.startswith(("--expression=", "--file="))
    return files if named else files[1:]  # the first is the script


def _appended(program: Program) -> list[str]:
    """The files that a program only adds to."""
    onto = _files(program) if program.name == "tee" and {"-a", "--append"} & set(program.arguments) else []
    return [*_opens(program, ">>", "&>>"), *onto]


def _replaced(program: Program) -> list[str]:
    """The files whose whole content a program gives."""
    onto = _files(program) if program.name == "tee" and not _appended(program) else []
    return [*_opens(program, ">", ">|", "&>"), *onto]


@lru_cache(64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _paths(call: Call) -> set[str]:
    return {str(value) for name, value in (call.arguments or {}).items() if name in PATHS and isinstance(value, str)}


def command_of(call: Call) -> str:
    """The command a call runs; "" where it has none."""
    arguments = call.arguments or {}
    return next((str(arguments[name]) for name in COMMANDS if isinstance(arguments.get(name), str)), "")


def _looks_only(command: str) -> bool:
    seen = _programs(command)
    return bool(seen) and all(
        each.name in _LOOKS
        and not _opens(each, ">", ">|", "&>", ">>", "&>>")
        and not (each.name == "find" and _ACTS & set(each.arguments))
        for each in seen
    )
