"""Derived code, run where it can do no harm: a sandbox without a network, without files, with bounds on everything.

    rows (plain objects, JSON on standard input) ─▶ run(rows) in the sandbox ─▶ JSON on standard output ─▶ checked

What comes back is believed no further than its type: for `rows` a list of ids of the given rows, for `scores` an
object of numbers by id, for `figures` an object. Anything else is a line that says what it was.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from silva.elf.artefact import Artefact, Figures, Rows, Scores
from silva.elf.flat import flat
from silva.errors import Exit, SilvaError, UsageError
from silva.sandbox import open_backend
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.protocol import Spec
from silva.sandbox.result import Result

GIVES = ("rows", "scores", "figures")
"""What code may give."""
LIMITS = Limits(memory=512 * MIB, processes=16, cpus=1.0, disk=64 * MIB, wall=60.0, output=64 * MIB, flood=64 * MIB)
_MOST = 64_000
"""Characters of a program."""
_RUNNER = """
import json, os, sys
given = json.load(sys.stdin)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
names = {"__name__": "derived"}
exec(compile(given["source"], "derived.py", "exec"), names)
run = names.get("run")
if not callable(run):
    sys.exit("the program has no function run(rows)")
json.dump(run(given["rows"]), answers)
answers.close()
"""


def run_boxed(source: str, rows: Artefact, gives: str, name: str, limits: Limits = LIMITS) -> Artefact:
    """Run code on rows.

    Args:
        source: a program that defines `run(rows)`.
        rows: what it is given, as plain objects.
        gives: one of `GIVES`.
        name: of the tool, for messages.
        limits: of the sandbox.

    Raises:
        UsageError: it broke, took too much, or gave something else than its type says.
        MissingError: there is no sandbox on this machine; code is then not run at all.
    """
    if not isinstance(rows, Rows):
        raise UsageError(f"{name}: derived code takes rows, not {rows.noun}")
    if len(source) > _MOST:
        raise UsageError(f"{name}: the program has {len(source):,} characters, at most {_MOST:,} are run")
    flats = [flat(row) for row in rows.rows]
    result = asyncio.run(_run(json.dumps({"source": source, "rows": flats}).encode(), limits))
    if result.killed is not None:
        raise SilvaError(f"{name}: was ended in its sandbox: {result.reason or result.killed}", Exit.INCOMPLETE)
    if result.code != 0:
        last = result.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise UsageError(f"{name}: broke in its sandbox: {last[0][:300]}")
    try:
        value = json.loads(result.stdout)
    except (ValueError, RecursionError):
        raise UsageError(f"{name}: gave no JSON, {len(result.stdout):,} bytes of something else") from None
    return _typed(value, rows, gives, name)


async def _run(said: bytes, limits: Limits) -> Result:
    async with await open_backend("namespaces") as backend, await backend.create(Spec(limits=limits)) as sandbox:
        return await sandbox.exec(["python3", "-I", "-c", _RUNNER], stdin=said)


def _typed(value: Any, rows: Rows, gives: str, name: str) -> Artefact:
    known = {row.id: row for row in rows.rows}
    if gives == "rows":
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(f"{name}: says it gives rows, a list of their ids, and gave {_what(value)}")
        strange = next((each for each in value if each not in known), None)
        if strange is not None or len(set(value)) < len(value):
            why = f"the id {strange[:60]!r} was not given to it" if strange is not None else "an id comes twice"
            raise UsageError(f"{name}: says it gives rows, and {why}")
        return Rows(
            rows=tuple(known[each] for each in value), notes=(f"{len(value)} of {len(rows)} rows were kept by {name}",)
        )
    if gives == "scores":
        if not isinstance(value, dict) or not all(
            key in known and (each is None or (isinstance(each, int | float) and math.isfinite(each)))
            for key, each in value.items()
        ):
            raise UsageError(f"{name}: says it gives scores, a number for each row's id, and gave {_what(value)}")
        given = {row.id: value.get(row.id) for row in rows.rows}
        return Scores(scorer=name, values=given, worth=given)
    if gives == "figures":
        if not isinstance(value, dict):
            raise UsageError(f"{name}: says it gives figures, an object, and gave {_what(value)}")
        return Figures(figures=value)
    raise UsageError(f"{name}: code may give {', '.join(GIVES)}, not {gives}")


def _what(value: Any) -> str:
    kind = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "nothing"}.get(
        type(value)
    )
    text = json.dumps(value)
    return f"{kind or 'a number'} ({text[:60]}{'…' if len(text) > 60 else ''})"
