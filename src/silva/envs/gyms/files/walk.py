"""What was done in one episode: each call with its name, whether it worked, and the results that later calls refer to.

    {"name": "query_table", "arguments": {…, "save_as": "total"}}   ─▶ names["total"]
    {"name": "calculate", "arguments": {"expression": "$total[0][0] * 1.19"}}

Every call's result has a name: the one it asks for by `save_as`, else r1, r2, … by its place in the episode. An
argument that is a text beginning with `$` is an expression over those names; one that begins with `$$` is a text with
one `$`.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from typing import Any

from silva.envs.gyms.files.expression import FUNCTIONS, Expressions
from silva.envs.gyms.files.tools.catalogue import INSTRUMENTS
from silva.envs.gyms.files.tools.instrument import Bench
from silva.errors import UsageError
from silva.tree import Json

MOST_SHOWN = 6000
MOST_CALLS = 40
"""Most calls of one turn."""
_MOST_KEPT = 2_000_000
_TOOLS = frozenset(INSTRUMENTS) | {"answer"}
"""The names that results may not have."""


@dataclass(frozen=True)
class Done:
    """A call that was made: `tool`, whether it `worked`, in which `turn`, its `value` and the `name` it has; its
    `arguments`, references put in where that could be done."""

    tool: str
    worked: bool
    turn: int
    name: str = ""
    value: Any = None
    arguments: Json = field(default_factory=dict)


@dataclass
class Walk:
    """One episode's calls. `offered`: the tools there are; `answer`: what was answered, None as long as nothing was."""

    bench: Bench
    offered: frozenset[str] = _TOOLS
    done: list[Done] = field(default_factory=list)
    steps: int = 0
    ran: int = 0
    codes: int = 0
    codes_ran: int = 0
    answer: str | None = None
    calls: int = 0

    async def call(self, tool: str, arguments: Json, places: tuple[Any, ...] = ()) -> Any:
        """Make one call; its value.

        Raises:
            UsageError: it could not be made; that is noted too.
        """
        self.calls += 1
        given = dict(arguments)
        try:
            if self.calls > MOST_CALLS:
                raise UsageError(f"more than {MOST_CALLS} calls in one turn")
            name = self._name(given.pop("save_as", ""))
            given = {key: await self.meant(value) for key, value in given.items()}
            if tool == "answer":
                value = await self._answered(given, places)
            elif tool not in INSTRUMENTS or tool not in self.offered:
                raise UsageError(f"there is no tool {tool!r}; there are {', '.join(sorted(self.offered))}")
            else:
                instrument = INSTRUMENTS[tool]
                value = instrument.run(self.bench, **instrument.checked(given, places))
                if inspect.isawaitable(value):
                    value = await value
            kept = _plain(value)
        except UsageError:
            self.done.append(Done(tool, False, self.steps, arguments=given))
            raise
        self.bench.names[name] = kept
        self.done.append(Done(tool, True, self.steps, name, kept, given))
        return kept

    async def code(self, source: str) -> str:
        """Carry out a code action; what it printed, or the value of its last line, as text.

        Raises:
            UsageError: it does not run to its end; what it did before is done.
        """
        self.codes += 1
        worker = Expressions(self.bench.names, self.call, self.offered)
        try:
            last = await worker.run(source)
        except UsageError as error:
            before = "".join(f"{line}\n" for line in worker.printed)
            raise UsageError(f"{before}{error}") from error
        self.codes_ran += 1
        return "\n".join(worker.printed) or shown(last)

    def _name(self, asked: Any) -> str:
        if not asked:
            return f"r{len(self.done) + 1}"
        name = str(asked)
        if not name.isidentifier() or name in FUNCTIONS or name in _TOOLS:
            raise UsageError(f"save_as {name[:40]!r}: a plain word that is no tool's name")
        return name

    async def _answered(self, arguments: Json, places: tuple[Any, ...]) -> Any:
        value = arguments.get("text", await self.meant(places[0]) if places else None)
        if value is None:
            raise UsageError("answer needs the argument 'text'")
        self.answer = shown(value)
        return self.answer

    async def meant(self, value: Any) -> Any:
        """An argument with its references put in.

        Raises:
            UsageError: one refers to nothing, or cannot be worked out.
        """
        if isinstance(value, list):
            return [await self.meant(each) for each in value]
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        if value.startswith("$$"):
            return value[1:]
        return await Expressions(self.bench.names).value(value[1:])


def shown(value: Any) -> str:
    """A value as an agent sees it: text as it is, all else as JSON, the middle left out where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"


def _plain(value: Any) -> Any:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the result cannot be kept: {error}") from error
    if len(text) > _MOST_KEPT:
        raise UsageError(f"the result has {len(text):,} characters; at most {_MOST_KEPT:,} are kept: ask for less")
    return json.loads(text)
