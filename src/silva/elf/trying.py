"""Trying a tool: on examples of its own, on generated ones, and how fast it is; each in a child process under bounds.

card ─▶ examples (given with the tool) + generated rows (none, one, many, in all scripts, doubled) ─▶ Trial each
     ─▶ the same call twice gives the same (of a pure tool) ─▶ rows a second, memory at most
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from silva.curate.rows import read
from silva.elf.artefact import Artefact, Rows, Scores, Table
from silva.elf.assets import toolbox
from silva.elf.derived import Assets, Trial
from silva.elf.running.child import Child, Overrun
from silva.elf.running.store import Store
from silva.elf.running.worker import Reply, Request
from silva.elf.tool import Determinism, Tool
from silva.errors import SilvaError, UsageError
from silva.tree import Json, Record

SECONDS = 120.0
MEMORY = 2 << 30
_TEXT = """
The lamp is on the table in the kitchen . Please open the second door and bring me the key Where does the train
to the harbour leave tomorrow morning ? I do not know what you mean
"""
_WORDS = _TEXT.split()
_SCRIPTS = (
    "Grüße aus Köln.",
    "你好，世界。",
    "שלום עולם",
    "👩‍🚀 emoji\u202e and marks",
    "tab\tand\nline",
    "' \" ; -- <b>",
)


class Tried(Record, frozen=True, kw_only=True):
    """What tests of a tool found, and its benchmark."""

    tool: str
    trials: tuple[Trial, ...]
    measured: Json


class Example(NamedTuple):
    """One example: what the tool is given, and how many entries it must give (None: any number)."""

    name: str
    inputs: dict[str, Artefact]
    settings: Json
    count: int | None = None


def tried(name: str, home: Path, count: int = 1000) -> Tried:
    """Try a tool, an asset or a candidate.

    Args:
        name: of the tool, or the id of a candidate.
        home: of the engine.
        count: rows of the benchmark.

    Raises:
        UsageError: there is no such tool, or it cannot be tried without a lake or a host.
    """
    found = Assets(home).candidate(name).name if name.startswith("cand_tool_") else name
    tool = toolbox(home, candidates=True).tool(found)
    if tool.card.missing:
        raise UsageError(f"capability missing: {found}: {tool.card.missing}")
    if tool.card.permissions and not tool.examples:
        needs = ", ".join(tool.card.permissions)
        raise UsageError(f"{found} needs {needs}: it is tried by running it (silva elf run), not on made-up rows")
    return try_tool(tool, home, [*given(tool), *generated(tool)], count)


def try_tool(tool: Tool, home: Path, examples: list[Example], count: int, seconds: float = 10 * SECONDS) -> Tried:
    """Try a tool on examples, then measure it on rows that are made up.

    Raises:
        Overrun: the seconds that all of it may take are spent.
    """
    until = time.monotonic() + seconds
    trials: list[Trial] = []
    measured: Json = {}
    with tempfile.TemporaryDirectory(prefix="silva-elf-") as folder:
        child = Child(Path(folder) / "log")
        try:
            for example in examples:
                trials.append(_trial(tool, home, Path(folder), child, example, until))
            speed = next((each for each in examples if "rows" in each.inputs and each.count is None), None)
            if speed is not None:
                inputs = {**speed.inputs, "rows": made_up(count)}
                reply = _ask(tool, home, Path(folder), child, inputs, speed.settings, until)
                if not reply.error and reply.seconds > 0:
                    measured = {"rows a second": round(count / reply.seconds), "memory, MiB": child.peak >> 20}
                    measured |= {"seconds": round(reply.seconds, 4), "rows": count}
        finally:
            child.end()
    return Tried(tool=tool.card.name, trials=tuple(trials), measured=measured)


def given(tool: Tool) -> Iterator[Example]:
    """The examples that came with a tool."""
    for number, example in enumerate(tool.examples, 1):
        inputs: dict[str, Artefact] = {
            name: rows_of(value) if tool.card.inputs[name].kind == "rows" else Table(rows=tuple(value))
            for name, value in example.get("inputs", {}).items()
        }
        yield Example(f"given {number}", inputs, example.get("settings", {}), example.get("count"))


def generated(tool: Tool) -> Iterator[Example]:
    """Examples made up for what a tool takes; none where it takes what cannot be made up."""
    settings = tool.examples[0].get("settings", {}) if tool.examples else {}
    if any(name not in settings for name in tool.card.required):
        return
    kinds = {name: each.kind for name, each in tool.card.inputs.items()}
    if not kinds or not set(kinds.values()) <= {"rows", "scores", "table"}:
        return
    cases = {
        "one row": made_up(1),
        "many rows": made_up(50),
        "the same row twice": rows_of([{"text": "Twice."}, {"text": "Twice."}]),
        "many scripts": rows_of([{"text": text} for text in _SCRIPTS]),
        "questions and answers": rows_of([{"prompt": f"{n} + {n}?", "response": str(2 * n)} for n in range(20)]),
    }
    if tool.card.origin == "sandbox":  # each call makes a sandbox: the hardest cases alone
        cases = {name: cases[name] for name in ("the same row twice", "many scripts")}
    for name, rows in cases.items():
        yield Example(name, {key: _made(kind, rows) for key, kind in kinds.items()}, settings)


def rows_of(objects: list[Json]) -> Rows:
    """Rows of plain objects, as a file of them would give."""
    with tempfile.TemporaryDirectory(prefix="silva-elf-") as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in objects), encoding="utf-8")
        return Rows(rows=tuple(read(str(path))))


def made_up(count: int, seed: int = 0) -> Rows:
    """So many rows of ordinary words; equal for equal seeds."""
    drawn = random.Random(seed)
    return rows_of([{"text": " ".join(drawn.choices(_WORDS, k=drawn.randint(3, 60)))} for _ in range(count)])


def _made(kind: str, rows: Rows) -> Artefact:
    if kind == "scores":
        given: dict[str, float | None] = {row.id: float(n) for n, row in enumerate(rows.rows)}
        return Scores(scorer="made up", values=given, worth=given)
    return Table(rows=tuple({"id": row.id, "text": row.text} for row in rows.rows)) if kind == "table" else rows


def _trial(tool: Tool, home: Path, folder: Path, child: Child, example: Example, until: float) -> Trial:
    try:
        first = _ask(tool, home, folder, child, example.inputs, example.settings, until)
        again = first
        if not first.error and tool.card.determinism is Determinism.PURE:
            again = _ask(tool, home, folder, child, example.inputs, example.settings, until)
    except SilvaError as error:
        if time.monotonic() >= until:
            raise
        return Trial(example=example.name, held=False, said=str(error))
    said = first.error
    if not said and first.kind != tool.card.output:
        said = f"gave {first.kind}, its card says {tool.card.output}"
    if not said and example.count is not None and first.count != example.count:
        said = f"gave {first.count} entries, {example.count} were expected"
    if not said and again.result != first.result:
        said = "the same call gave something else the second time, and its card says it is pure"
    return Trial(example=example.name, held=not said, said=said or f"{first.count} {first.kind}", seconds=first.seconds)


def _ask(
    tool: Tool, home: Path, folder: Path, child: Child, inputs: dict[str, Artefact], settings: Json, until: float
) -> Reply:
    store = Store(home)
    request = Request(
        tool=tool.card.name,
        inputs={name: (store.put(each),) for name, each in inputs.items()},
        settings=settings,
        home=str(home.resolve()),
        folder=str(folder),
        paid=str(folder),
        lake="",
        model="",
        tokens=0,
        usd=0.0,
        granted=tool.card.permissions,
    )
    left = until - time.monotonic()
    if left <= 0:
        raise Overrun("the budget of time is spent while a tool was tried")
    return child.ask(request, min(SECONDS, left), MEMORY, _nothing)


def _nothing(*_: Any) -> None:
    """Nobody counts the time of a trial."""
