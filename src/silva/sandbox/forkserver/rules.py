"""Which programs of a judge's are the judge's own, and which run what the judged has written.

A judge starts many programs, and says by their words what they are: what names a file of the tests first is a part of
them, what names none runs the judged. In doubt it runs the judged, for that costs a verdict and never gives one away.
"""

from __future__ import annotations

import re

SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")
_PLAIN = """
[ basename cat chmod cmp cp cut date diff dirname echo expr false grep egrep fgrep head hostname id jq ln ls md5sum
mkdir mktemp mv printf pwd readlink realpath rm rmdir seq sha1sum sha256sum sha512sum sleep sort stat tail tee test
touch tr true uname uniq wc which whoami
"""
PLAIN = frozenset(_PLAIN.split())
"""Programs that do what their words say and run nothing."""
SHELLS = frozenset(("sh", "bash", "dash"))
_INTERPRETER = re.compile(r"(python[\d.]*|node|perl|ruby)")
_SOURCES = re.compile(r"(^|[;&|(\s])(\.|source)\s+(\S+)")


def stays(path: str, words: list[str], own: tuple[str, ...], places: tuple[str, ...]) -> bool:
    """Whether a program is a part of the judge.

    Args:
        path: what is executed, absolute.
        words: its arguments, its name first.
        own: the folders of the judge.
        places: the folders that the judged has written.
    """
    if not path.startswith(SYSTEM):
        return _names(path, own)
    name, arguments = path.rsplit("/", 1)[-1], words[1:]
    if name in PLAIN:
        return True
    if name in SHELLS or _INTERPRETER.fullmatch(name):
        script = _script(name, arguments)
        if script is None:  # it reads what the judge gives it
            return True
        kind, text = script
        if kind == "text":
            sourced = [found[3] for found in _SOURCES.finditer(text)] if name in SHELLS else []
            return _names(text, own) and all(_names(each, own) for each in sourced)
        if kind == "file":
            return _names(text, own)
    for word in arguments:
        if _names(word, own):
            return True
        if _names(word, places):
            return False
    return False


def _script(name: str, arguments: list[str]) -> tuple[str, str] | None:
    """What an interpreter runs: a text, a file, a module; None where it reads its program from its input."""
    skip = False
    for place, word in enumerate(arguments):
        if skip:
            skip = False
        elif (word in ("-", "-s") and name in SHELLS) or word == "-":
            return None
        elif word == "-m" and name.startswith("python"):
            return "module", ""
        elif re.fullmatch(r"-\w*c" if name in SHELLS or name.startswith("python") else r"-\w*e", word):
            return "text", arguments[place + 1] if place + 1 < len(arguments) else ""
        elif word.startswith(("-", "+")):
            skip = word in ("-W", "-X", "-o", "-O", "--rcfile", "--init-file")
        else:
            return "file", word
    return None


def _names(text: str, folders: tuple[str, ...]) -> bool:
    return any(re.search(rf"(?<![\w./-]){re.escape(folder)}(?![\w-]|\.\w)", text) for folder in folders)
