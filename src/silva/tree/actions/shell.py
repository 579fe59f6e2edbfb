"""What a shell line would run, as far as can be told without running it: programs with their arguments.

    "cd x && sudo r\\m -r ../y | tee log" ─▶ [cd x], [sudo …], [rm -r ../y], [tee log]

The grammar is bash's (tree-sitter-bash). Quotes, escapes, variables that the line itself sets, `$IFS` and braces are
undone; programs that start others (`sudo`, `env`, `xargs`, `find -exec`, `sh -c`), what is fed to a shell, and command
substitutions are looked into. What a program does by itself, and computed words, are not seen: those stay as they were
written (`$NAME`), and a program whose very name is computed is `computed`. A line that the grammar cannot read is
besides split at blanks and operators.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from silva.tree.actions.leaves import DEPTH, leaves

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 100_000
"""Characters of a line that are read."""

STARTERS = {
    "sudo": "ughpCDRT",
    "doas": "uC",
    "env": "uC",
    "nohup": "",
    "time": "fo",
    "timeout": "ks",
    "nice": "n",
    "ionice": "cnp",
    "xargs": "InPLsdEa",
    "parallel": "jN",
    "exec": "a",
    "command": "",
    "builtin": "",
    "setsid": "",
    "stdbuf": "ioe",
    "busybox": "",
    "strace": "eopu",
    "watch": "nd",
    "flock": "wE",
    "chroot": "",
    "ssh": "bcDEeFIiJLlmOopQRSWw",
}
"""Programs that start the one named in their arguments, with their options of one letter that take a value."""

PASSED = {"timeout": 1, "flock": 1, "chroot": 1, "ssh": 1}
"""Arguments of their own before the program."""

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_IFS = re.compile(r"\$(IFS\b|\{IFS[^}\s]*\})(\$\d)?")
_BRACES = re.compile(r"(?<![^\s;&|(])\{([^\s{};'\"]*,[^\s{};'\"]*)\}(?=[\s;&|)]|$)")
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_NO_LOOK = re.compile(r"[^\n\t -~]")
_WORDS = re.compile(r"[();<>|&\n`]+|[^\s();<>|&`]+")


@dataclass(frozen=True)
class Program:
    """One program of a line. `words`: its name, without a path, and its arguments; empty where there is only a
    redirection. `writes`: the files that redirections open, by their operator. `fed`: what the programs before it in a
    pipe were, last first; `given`: the text of a here-document or here-string. `path`: the name as it was called;
    `sets`: variables set for it alone (`A=1`)."""

    words: tuple[str, ...]
    writes: tuple[tuple[str, str], ...] = ()
    fed: tuple[Program, ...] = ()
    given: str = ""
    path: str = ""
    sets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What is run; "" for a redirection alone."""
        return self.words[0] if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words behind the name."""
        return self.words[1:]

    @property
    def computed(self) -> bool:
        """Whether the name cannot be told: a variable nobody set here, a substitution, a pattern."""
        return any(mark in self.name for mark in "$`*?") or ("[" in self.name and len(self.name) > 2)

    def __str__(self) -> str:
        return " ".join((*self.words, *(f"{operator} {file}" for operator, file in self.writes)))


def programs(line: str) -> list[Program]:
    """The programs of a line, outermost first, in the line's order."""
    return list(_programs(line, 0))


def tokens(line: str) -> tuple[str, ...]:
    """The words and operators of a line as a shell reads them: comments are none, blanks and kinds of quotes do not
    matter, and what ends a statement is `;`. A line that is no grammar's is one token."""
    root = _root(line)
    if root.has_error or len(line) > LONGEST:
        return (line,)
    found: list[str] = []
    for token in leaves(root, _Reading(line, 0).value, 0):
        if token != ";" or (found and found[-1] not in (";", "&")):
            found.append(token)
    while found and found[-1] == ";":
        found.pop()
    return tuple(found)


def _root(line: str) -> Node:
    # The grammar's scanner is C, and some characters outside ASCII make it read where it must not. They are all letters
    # to a shell, so letters are what it is given; one byte a character, so that its places are those of the text.
    return _parser().parse(_NO_LOOK.sub("x", line[:LONGEST]).encode("ascii")).root_node


def _programs(line: str, depth: int) -> Iterator[Program]:
    if depth > 8:
        yield Program(("$(…)",))
        return
    line = _BRACES.sub(lambda found: found[1].replace(",", " "), _IFS.sub(" ", line.replace("\\\n", "")))
    line = line[:LONGEST]
    root = _root(line)
    seen = list(_Reading(line, depth).of(root))
    yield from seen
    if root.has_error:
        known = {program.words for program in seen}
        yield from (each for each in _split(line, depth) if each.words not in known)


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


@dataclass
class _Reading:
    """One line being read; `variables` are those it has set so far."""

    source: str
    depth: int
    variables: dict[str, str] = field(default_factory=dict[str, str])

    def of(
        self, node: Node, fed: tuple[Program, ...] = (), deep: int = 0, redirects: Sequence[Node] = ()
    ) -> Iterator[Program]:
        if deep > DEPTH:
            yield Program(("$(…)",))
        elif node.type == "pipeline":
            for child in node.named_children:
                seen = list(self.of(child, fed, deep + 1))
                yield from seen
                fed = (*reversed(seen), *fed)
        elif node.type == "redirected_statement":
            yield from self._redirected(node, fed, deep)
        elif node.type == "test_command":
            yield Program(tuple(leaves(node, self.value, deep))[:-1])
            yield from self._within(node, deep)
        elif node.type in ("command", "declaration_command"):
            yield from self._command(node, fed, deep, redirects)
        elif node.type == "variable_assignment":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is not None and value is not None:
                self.variables[self._text(name)] = self.value(value, deep)
            yield from self._within(node, deep)
        elif node.type not in ("comment", "heredoc_body"):
            for child in node.named_children:
                yield from self.of(child, fed, deep + 1)

    def _redirected(self, node: Node, fed: tuple[Program, ...], deep: int) -> Iterator[Program]:
        redirects = [child for child in node.named_children if child.type.endswith("_redirect")]
        body = node.child_by_field_name("body")
        whole = body is not None and body.type == "command"
        if body is not None and whole:
            seen = list(self.of(body, fed, deep + 1, redirects))
        else:
            seen = list(self.of(body, fed, deep + 1)) if body is not None else []
            alone = self._made((), redirects, fed, deep)
            seen += [alone] if alone.writes else []
        yield from seen
        for each in redirects:  # `cat <<END | sh`: what follows stands within the here-document's redirection
            for child in each.named_children:
                if child.type in ("pipeline", "command", "list", "redirected_statement"):
                    yield from self.of(child, (*reversed(seen), *fed), deep + 1)

    def _command(self, node: Node, fed: tuple[Program, ...], deep: int, redirects: Sequence[Node]) -> Iterator[Program]:
        kept = [child for child in node.named_children if child.type.endswith("_redirect")]
        words: list[str] = []
        sets: list[str] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                yield from self.of(child, (), deep + 1)
                sets.append(self._text(child))
            elif child not in kept:
                words.append(self.value(child, deep))
        while words and not words[0]:
            words.pop(0)
        if words and " " in words[0] and words[0] in self.variables.values():
            words[:1] = words[0].split()  # an unquoted variable is split where it is used
        made = self._made(tuple(words), [*redirects, *kept], fed, deep)
        yield from _unwrapped(replace(made, sets=tuple(sets)), self.depth)
        yield from self._within(node, deep)

    def _made(self, words: tuple[str, ...], redirects: Sequence[Node], fed: tuple[Program, ...], deep: int) -> Program:
        writes: list[tuple[str, str]] = []
        given = ""
        for each in redirects:
            target = each.child_by_field_name("destination")
            operator = next((child.type for child in each.children if not child.is_named), "")
            if each.type == "file_redirect" and target is not None and ">" in operator:
                writes.append((operator, self.value(target, deep)))
            for child in each.named_children:
                if child.type == "heredoc_body":
                    given += self._text(child)
                elif each.type == "herestring_redirect":
                    given += self.value(child, deep)
        return Program(words, tuple(writes), fed, given)

    def _within(self, node: Node, deep: int) -> Iterator[Program]:
        """The programs of substitutions in the words of a node."""
        if deep > DEPTH:
            return
        for child in node.named_children:
            if child.type in ("command_substitution", "process_substitution"):
                yield from self.of(child, (), deep + 1)
            elif child.type not in ("variable_assignment", "heredoc_redirect"):
                yield from self._within(child, deep + 1)

    def value(self, node: Node, deep: int) -> str:
        """A word as the shell would pass it on; what is computed stays as it was written."""
        if deep > DEPTH:
            return "$(…)"
        text = self._text(node)
        match node.type:
            case "raw_string":
                return text[1:-1]
            case "ansi_c_string":
                return _ESCAPED.sub(_character, text[2:-1])
            case "word":
                return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
            case "string_content":
                return re.sub(r'\\(["$`\\])', r"\1", text)
            case "simple_expansion" | "expansion":
                name = text.strip("${}")
                return self.variables.get(name, "" if name in ("@", "*") else text)
            case "command_substitution":
                return self._echoed(node, deep) or text
            case "string":
                return self._joined(node, deep)[1:-1]
            case "concatenation" | "command_name":
                return self._joined(node, deep)
            case _:
                return text

    def _joined(self, node: Node, deep: int) -> str:
        parts: list[str] = []
        end = node.start_byte
        for child in node.children:
            parts += [self.source[end : child.start_byte], self.value(child, deep + 1)]
            end = child.end_byte
        parts.append(self.source[end : node.end_byte])
        return "".join(parts)

    def _echoed(self, node: Node, deep: int) -> str:
        """What a substitution gives that only says something."""
        inner = [child for child in node.named_children if child.type == "command"]
        if len(inner) != len(node.named_children) or len(inner) != 1:
            return ""
        words = [self.value(child, deep + 1) for child in inner[0].named_children]
        return spoken(Program(tuple(words)))

    def _text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte]


def spoken(program: Program) -> str:
    """What a program prints that only says its arguments (or what it was given); "" where that cannot be told."""
    if program.name == "cat" and not program.arguments:
        return program.given
    if program.name not in ("echo", "printf") or any("$" in word for word in program.arguments):
        return ""
    said = [word for word in program.arguments if not re.fullmatch(r"-[neE]+", word)]
    text = " ".join(said)
    escapes = program.name == "printf" or "-e" in program.arguments
    return _ESCAPED.sub(_character, text) if escapes else text


def _character(escape: re.Match[str]) -> str:
    hexadecimal, octal, short, long, other = escape.groups()
    for digits, base in ((hexadecimal, 16), (octal, 8), (short, 16), (long, 16)):
        if digits:
            number = int(digits, base)
            return chr(number) if number <= 0x10FFFF else "\ufffd"
    return _NAMED.get(other, other)


def _unwrapped(program: Program, depth: int) -> Iterator[Program]:
    words, sets = program.words, program.sets
    while words and (_ASSIGNMENT.match(words[0]) or words[0] == "!"):
        sets = (*sets, words[0]) if words[0] != "!" else sets
        words = words[1:]
    if not words:
        if program.writes:
            yield Program((), program.writes, program.fed, program.given)
        return
    name = words[0].rsplit("/", 1)[-1] or words[0]
    program = Program((name, *words[1:]), program.writes, program.fed, program.given, words[0], sets)
    yield program
    if depth > 8:
        return
    rest = words[1:]
    if name == "command" and rest[:1] in (("-v",), ("-V",)):
        return
    if name in STARTERS:
        started = _after_options(name, rest)
        if name == "env" and "-S" in rest[:-1]:
            yield from _programs(rest[rest.index("-S") + 1], depth + 1)
        elif name in ("ssh", "watch", "parallel", "flock") and len(started) == 1:
            yield from _programs(started[0], depth + 1)
        elif started:
            yield from _unwrapped(Program(started, (), program.fed, program.given), depth + 1)
    elif name in ("eval", "trap"):
        yield from _programs(" ".join(rest if name == "eval" else rest[:1]), depth + 1)
    elif name in SHELLS or name in ("su", "script"):
        yield from _scripted(program, depth)
    elif name in ("find", "fd", "fdfind"):
        for position, word in enumerate(rest, 1):
            if word in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec"):
                yield from _unwrapped(Program(words[position + 1 :]), depth + 1)
    elif name in ("docker", "podman", "kubectl") and rest[:1] == ("exec",):
        inner = rest[rest.index("--") + 1 :] if "--" in rest else _after_options(name, rest[1:])[1:]
        yield from _unwrapped(Program(tuple(inner)), depth + 1)


def _scripted(program: Program, depth: int) -> Iterator[Program]:
    """What a shell is told to run: in its arguments, on its input."""
    words = program.words
    for position, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-\w*c|--command", word) and position + 1 < len(words):
            yield from _programs(words[position + 1], depth + 1)
            return
    told = program.given or (spoken(program.fed[0]) if program.fed else "")
    if told and program.name in SHELLS:
        yield from _programs(told, depth + 1)


def _after_options(name: str, words: tuple[str, ...]) -> tuple[str, ...]:
    position, valued = 0, STARTERS.get(name, "")
    while position < len(words) and (words[position].startswith("-") or _ASSIGNMENT.match(words[position])):
        takes = valued and re.fullmatch(rf"-\w*[{valued}]", words[position])
        position += 2 if takes else 1
        if words[position - 1] == "--":
            break
    return words[position + PASSED.get(name, 0) :]


def _split(line: str, depth: int) -> Iterator[Program]:
    """The words of a line that is no grammar's, split at operators."""
    words: list[str] = []
    for token in [*_WORDS.findall(line), ";"]:
        if not set(token) <= set("();<>|&\n`"):
            words.append(token)
            continue
        if words:
            try:
                words = shlex.split(" ".join(words))
            except ValueError:  # a quote that does not end
                words = [word.strip("'\"") for word in words]
            yield from _unwrapped(Program(tuple(words)), depth)
        words = []
