"""A curation as it is written: Python source with one function `curate(raw)`. Its digest names it, operators and
all."""

from __future__ import annotations

import ast
import difflib
from functools import cache
from importlib import resources
from pathlib import Path

from silva.errors import UsageError
from silva.tree import Record, digest

MOST_SOURCE = 128 << 10
"""Bytes of source that are read."""

_HEAD = "from operators import *\n\n\ndef curate(raw):\n    walks = list(raw)\n"


def _pipeline(*lines: str) -> str:
    steps = "".join(f"    walks = {line}(walks)\n" for line in lines)
    return f"{_HEAD}{steps}    return output(sft=imitate(walks), rl=practise(walks), memory=remember(walks))\n"


NAMED = {
    "raw": _HEAD + "    return output(sft=imitate(walks), rl=practise(walks))\n",
    "successes": _HEAD + "    walks = known_successes(walks)\n"
    "    return output(sft=imitate(walks), rl=practise(walks))\n",
    "all-operators": _pipeline(
        "in_hindsight",
        "known_successes",
        "that_ended",
        "grounded",
        "without_errors",
        "without_loops",
        "no_loss_on_faults",
        "without_repeats",
        "more_of_rare",
    ),
}
"""Curations to begin with and to compare with: everything as it is; successes alone; all operators, by hand."""


class Curation(Record, frozen=True, kw_only=True):
    """A curation's text."""

    source: str

    @property
    def digest(self) -> str:
        """Of its text and of the operators beside it: equal digests give equal outputs for equal corpora."""
        return digest("curation", self.source, operators())

    def difference(self, before: Curation) -> str:
        """What has changed since another, as a unified diff; "" where nothing has."""
        lines = difflib.unified_diff(
            before.source.splitlines(keepends=True),
            self.source.splitlines(keepends=True),
            f"curation {before.digest[:12]}",
            f"curation {self.digest[:12]}",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def curation(text: str, where: str = "curation") -> Curation:
    """The curation of a text.

    Raises:
        UsageError: it is too long, is no Python, or has no function `curate` of one argument; the message says where.
    """
    if len(text.encode()) > MOST_SOURCE:
        raise UsageError(f"{where}: has more than {MOST_SOURCE >> 10} KB; a curation is a short program")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{where}{line}: is no Python ({' '.join(str(error).split())[:160]})") from error
    if not any(isinstance(each, ast.FunctionDef) and each.name == "curate" for each in tree.body):
        raise UsageError(f"{where}: has no function curate; write def curate(raw): … return output(sft=…)")
    return Curation(source=text)


def named(name: str) -> Curation:
    """A curation of `NAMED`, or of a file.

    Raises:
        UsageError: there is no such file, or it is no curation.
    """
    if name in NAMED:
        return Curation(source=NAMED[name])
    path = Path(name)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_SOURCE + 1)
        return curation(data.decode(), name)
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(NAMED)
        raise UsageError(f"curation {name}: cannot be read ({error}); give a Python file, or one of {known}") from error


@cache
def operators() -> str:
    """The text of the operators that a curation may import."""
    return resources.files("silva.curate.curation").joinpath("operators.py").read_text(encoding="utf-8")


@cache
def driver() -> str:
    """The text of what runs a curation inside the sandbox."""
    return resources.files("silva.curate.curation").joinpath("driver.py").read_text(encoding="utf-8")


@cache
def operator_calls() -> dict[str, dict[str, object]]:
    """The operators from walks to walks, each with its numbers and their defaults."""
    found: dict[str, dict[str, object]] = {}
    for each in ast.parse(operators()).body:
        if not isinstance(each, ast.FunctionDef) or not each.args.args or each.args.args[0].arg != "walks":
            continue
        values = [ast.literal_eval(value) for value in each.args.defaults]
        found[each.name] = dict(zip((arg.arg for arg in each.args.args[1:]), values, strict=True))
    return found
