"""What a shell line would run, as far as can be told without running it: programs with their arguments.

    "cd x && sudo rm -r ../y | tee log" ─▶ [cd x], [sudo], [rm -r ../y], [tee log]

For rules that look at what an agent types. It knows words, quotes, operators, redirections, the programs that start
others (`sudo`, `env`, `xargs`, `sh -c`), and no more: a program's own doings, and computed words, are not seen.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_KEYWORDS = {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "for", "in", "case", "esac", "{", "}"}
_STARTERS = {"sudo", "doas", "env", "nohup", "time", "timeout", "nice", "xargs", "exec", "command", "builtin", "setsid"}
_VALUED = {"sudo": "ughpC", "doas": "u", "env": "uCS", "nice": "n", "xargs": "InPLsd", "timeout": "ks"}
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_OPERATORS = "();<>|&\n`"


def programs(line: str, depth: int = 0) -> Iterator[list[str]]:
    """The programs of a line, outermost first, each as its name and arguments."""
    words: list[str] = []
    skip = False
    for token in [*_tokens(line), ";"]:
        if set(token) <= set(_OPERATORS):
            if "<" in token or ">" in token:
                skip = True
                continue
            yield from _unwrapped(words, depth)
            words, skip = [], False
        elif skip:
            skip = False
        else:
            words.append(token)


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that does not end: the shell would ask on, the words are there nevertheless
        return re.findall(r"[();<>|&\n`]+|[^\s();<>|&`]+", line)


def _unwrapped(words: list[str], depth: int) -> Iterator[list[str]]:
    while words and (words[0] in _KEYWORDS or words[0] == "!" or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if not words:
        return
    name = words[0].rsplit("/", 1)[-1]
    yield [name, *words[1:]]
    if depth > 8:
        return
    if name in _STARTERS:
        yield from _unwrapped(_after_options(name, words[1:]), depth + 1)
    elif name == "eval":
        yield from programs(" ".join(words[1:]), depth + 1)
    elif name in _SHELLS:
        for position, word in enumerate(words[1:], 1):
            if re.fullmatch(r"-\w*c", word) and position + 1 < len(words):
                yield from programs(words[position + 1], depth + 1)
                break
    elif name == "find":
        for position, word in enumerate(words):
            if word in ("-exec", "-execdir", "-ok"):
                yield from _unwrapped(words[position + 1 :], depth + 1)


def _after_options(name: str, words: list[str]) -> list[str]:
    position = 0
    while position < len(words) and (words[position].startswith("-") or _ASSIGNMENT.match(words[position])):
        valued = re.fullmatch(rf"-[{_VALUED.get(name, '-')}]", words[position])
        position += 2 if valued else 1
    return words[position + (name == "timeout") :]
