"""Evolution without a model: mutations of a curation's Python source, under an allow-list of operators.

    source ─▶ its steps `walks = OPERATOR(walks, …)` ─▶ one edit: insert · remove · another number · an output more or
    less
           ─▶ source again, the rest as it was written

With failed points, the operators that their hints mean come first, each alone, those before the others that most failed
walks ask for; without, all are drawn alike: that is the control `blind`. Both edit by the same list in the same places.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any, ClassVar

from pydantic import Field

from silva.curate.curation.source import Curation, operator_calls
from silva.errors import UsageError
from silva.loops.roles.evolver import Evolving, Phase, Revision, Wanted, unlike
from silva.rollout.acted import Acted
from silva.rollout.section import Section
from silva.tree import Record

ORDER = (
    "in_hindsight",
    "known_successes",
    "without_failures",
    "that_ended",
    "grounded",
    "without_errors",
    "without_loops",
    "cut_after_last_new",
    "no_loss_on_faults",
    "first_turns",
    "at_most_turns",
    "without_repeats",
    "best_of_task",
    "at_most_walks",
    "more_of_rare",
    "more_of_long",
)
"""The allow-list, in the order in which steps are put: what may change a label, filters, refinements, choices, more."""

REDUCING = (
    "without_repeats",
    "best_of_task",
    "at_most_walks",
    "at_most_turns",
    "first_turns",
    "without_loops",
    "cut_after_last_new",
    "that_ended",
)
"""Those that keep no more than they are given; revisions for efficiency take no others."""
_NUMBERS = (0.5, 0.75, 1.5, 2.0)


class MutationOptions(Section):
    """`blind`: failed points are not looked at. `allowed`: the operators that may be put in; all where none is named.
    `edits`: the most edits of one revision."""

    blind: bool = False
    allowed: tuple[str, ...] = ()
    edits: int = Field(default=3, ge=1, le=10)


class Step(Record, frozen=True, kw_only=True):
    """One line `walks = OPERATOR(walks, …)`: its line from 0, the operator, its numbers."""

    line: int
    name: str
    numbers: dict[str, Any]
    indent: str = "    "

    @property
    def text(self) -> str:
        """The line."""
        more = "".join(f", {name}={value!r}" for name, value in self.numbers.items())
        return f"{self.indent}walks = {self.name}(walks{more})"


class Mutations(Evolving):
    """Mutates source."""

    name: ClassVar[str] = "mutations"
    summary: ClassVar[str] = "mutations of source under an allow-list of operators; no model"
    Options: ClassVar[type[Section]] = MutationOptions

    async def revise(self, parent: Curation, wanted: Wanted) -> list[Revision]:
        """See `Evolver`.

        Raises:
            UsageError: an operator of the allow-list is not known.
        """
        options: MutationOptions = self.options
        unknown = set(options.allowed) - set(ORDER)
        if unknown:
            raise UsageError(f"evolver mutations: allowed: {sorted(unknown)[0]!r} is none of {', '.join(ORDER)}")
        return list(islice(unlike(self._revised(parent, wanted), parent, wanted), wanted.count))

    def _revised(self, parent: Curation, wanted: Wanted) -> Iterator[Revision]:
        """Revisions as they are drawn."""
        draw = Random(f"{wanted.seed} {wanted.phase} {parent.digest}")
        acted = (Acted(role=self.role, by="blind" if self.options.blind else self.name),)
        for edits in _plans(parent, wanted, self.options, draw):
            source, notes = parent.source, list[str]()
            for edit in edits:
                source, note = _apply(source, edit, draw)
                notes += [note] if note else []
            if notes:
                yield Revision(curation=Curation(source=source), note="; ".join(notes), acted=acted)


class Edit(Record, frozen=True, kw_only=True):
    """What to do: `put` an operator, `take` one away, another `number`, `memory` or `practise` more or less."""

    what: str
    name: str = ""


def steps(source: str) -> list[Step]:
    """The steps of a curation, in order; none where it is not written in steps."""
    found: list[Step] = []
    known = operator_calls()
    for each in ast.walk(ast.parse(source)):
        if not isinstance(each, ast.Assign) or not isinstance(each.value, ast.Call):
            continue
        called, target = each.value.func, each.targets[0]
        if not isinstance(called, ast.Name) or called.id not in known or each.lineno != each.end_lineno:
            continue
        if isinstance(target, ast.Name) and target.id == "walks":
            numbers = {word.arg: ast.literal_eval(word.value) for word in each.value.keywords if word.arg}
            found.append(Step(line=each.lineno - 1, name=called.id, numbers=numbers, indent=" " * each.col_offset))
    return sorted(found, key=lambda step: step.line)


def _plans(parent: Curation, wanted: Wanted, options: MutationOptions, draw: Random) -> Iterator[list[Edit]]:
    """Lists of edits, one for each revision to try; those that diagnosis asks for first."""
    there = {step.name for step in steps(parent.source)}
    allowed = [name for name in options.allowed or ORDER if wanted.phase == "effect" or name in REDUCING]
    points = () if options.blind else wanted.points
    weights = _weights(points)
    if points and wanted.phase == "effect":
        hinted = [[_edit(name) for name in point.operators if name not in there] for point in points]
        # Each alone first, what most failed walks ask for before the rest: only so is seen what one of them does.
        asked = sorted({edit for several in hinted for edit in several}, key=lambda edit: _asked(edit, weights))
        yield from ([edit] for edit in asked)
        for count in range(2, min(options.edits, len(asked)) + 1):
            yield asked[:count]
        for several in hinted:
            yield several[: options.edits]
    for _ in range(40 * wanted.count):
        number = draw.randint(1, options.edits)
        yield [_drawn(there, allowed, weights, wanted.phase, draw) for _ in range(number)]


def _asked(edit: Edit, weights: dict[str, float]) -> tuple[float, str]:
    """Where an edit stands among those that hints mean."""
    name = edit.name or "remember"
    return -weights.get(name, 0.0), name


def _edit(name: str) -> Edit:
    return Edit(what="memory") if name == "remember" else Edit(what="put", name=name)


def _weights(points: Sequence[Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for point in points:
        for place, name in enumerate(point.operators):
            found[name] = found.get(name, 0.0) + len(point.tasks) / (1 + place)
    most = max(found.values(), default=0.0)
    return {name: 4 * value / most for name, value in found.items()} if most else {}


def _drawn(there: set[str], allowed: Sequence[str], weights: dict[str, float], phase: Phase, draw: Random) -> Edit:
    chance = draw.random()
    if chance < 0.15 and there:
        return Edit(what="take", name=draw.choice(sorted(there)))
    if chance < 0.35 and there:
        return Edit(what="number", name=draw.choice(sorted(there)))
    if chance < 0.45:
        return Edit(what=draw.choice(("memory", "practise")) if phase == "effect" else "practise")
    names = [name for name in allowed if name not in there] or list(allowed)
    return Edit(what="put", name=draw.choices(names, [1.0 + weights.get(name, 0.0) for name in names])[0])


def _apply(source: str, edit: Edit, draw: Random) -> tuple[str, str]:
    """The source after an edit, and what it did; "" where it did nothing."""
    lines, found = source.split("\n"), steps(source)
    mine = next((step for step in found if step.name == edit.name), None)
    match edit.what:
        case "put" if mine is None:
            return _put(lines, found, edit.name)
        case "take" if mine is not None:
            del lines[mine.line]
            return "\n".join(lines), f"without {mine.name}"
        case "number" | "put" if mine is not None:
            numbers = {**operator_calls()[mine.name], **mine.numbers}
            if not numbers:
                return source, ""
            name = draw.choice(sorted(numbers))
            value = max(1, round(numbers[name] * draw.choice(_NUMBERS)))
            if value == numbers[name]:
                return source, ""
            lines[mine.line] = Step(
                line=mine.line, name=mine.name, numbers={**mine.numbers, name: value}, indent=mine.indent
            ).text
            return "\n".join(lines), f"{mine.name} {name}={value}"
        case "memory" | "practise":
            return _output(lines, edit.what)
        case _:
            return source, ""


def _put(lines: list[str], found: list[Step], name: str) -> tuple[str, str]:
    """A step more, in the place that the order gives it."""
    rank = ORDER.index(name)
    before = [step for step in found if step.name in ORDER and ORDER.index(step.name) < rank]
    at = before[-1].line if before else _begin(lines)
    if at is None:
        return "\n".join(lines), ""
    indent = found[0].indent if found else "    "
    lines.insert(at + 1, Step(line=at + 1, name=name, numbers={}, indent=indent).text)
    return "\n".join(lines), f"with {name}"


def _begin(lines: list[str]) -> int | None:
    """The line after which steps begin: `walks = list(raw)`."""
    return next((at for at, line in enumerate(lines) if line.strip() == "walks = list(raw)"), None)


def _output(lines: list[str], what: str) -> tuple[str, str]:
    """An output more or less, in the line that returns them."""
    word = "memory=remember(walks)" if what == "memory" else "rl=practise(walks)"
    for at, line in enumerate(lines):
        if line.strip().startswith("return output("):
            if word in line:
                lines[at] = line.replace(f", {word}", "").replace(f"({word}, ", "(")
                return "\n".join(lines), f"without {word.split('=')[0]}"
            lines[at] = f"{line.rstrip()[:-1]}, {word})"
            return "\n".join(lines), f"with {word.split('=')[0]}"
    return "\n".join(lines), ""
