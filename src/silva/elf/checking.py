"""Whether a plan may run: every fault of it is a line, and a plan with a fault never runs.

    plan ─▶ tools known and here · settings fit · every artefact has a step that gives its type · no circle
         ─▶ permissions granted · the least it takes is within the budget

Behind every planner stands this same check; the runner asks it again before it runs anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter

from silva.elf.plan import MOST_STEPS, Budget, Plan, Step
from silva.elf.tool import Permission
from silva.elf.toolbox import Toolbox
from silva.errors import UsageError
from silva.tree import Record

_LIMITS = ("count", "limit")
"""Settings that bound how many rows a step gives."""


class Fault(Record, frozen=True, kw_only=True):
    """Why a plan may not run. `kind`: tool, setting, type, circle, permission or budget; `step`: which, "" for all."""

    kind: str
    step: str
    why: str

    def __str__(self) -> str:
        return f"{self.step}: {self.why}" if self.step else self.why


def faults(plan: Plan, tools: Toolbox, granted: Collection[Permission], budget: Budget) -> list[Fault]:
    """All faults of a plan; none where it may run."""
    found = list(_shape(plan))
    known: dict[str, Step] = {step.id: step for step in plan.steps}
    for step in plan.steps:
        found += _step(step, known, tools)
    found += _permissions(plan, tools, granted)
    if not found:
        found += _budget(plan, tools, budget)
    return found


def checked(plan: Plan, tools: Toolbox, granted: Collection[Permission], budget: Budget) -> Plan:
    """The plan, if it may run.

    Raises:
        UsageError: it may not; the first fault, and how many more.
    """
    found = faults(plan, tools, granted, budget)
    if plan.asks:
        raise UsageError(f"the intent is not clear: {plan.asks[0]}")
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise UsageError(f"the plan may not run: {found[0]}{more}")
    return plan


def order(plan: Plan) -> list[str]:
    """The ids of the steps, each after those it takes from; equal for equal plans.

    Raises:
        UsageError: they go in a circle.
    """
    graph = {step.id: [source for each in step.inputs.values() for source in each] for step in plan.steps}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise UsageError(f"the steps go in a circle: {' ─▶ '.join(reversed(error.args[1]))}") from error


def needed(plan: Plan, tools: Toolbox) -> tuple[Permission, ...]:
    """The permissions that a plan's tools need, each once."""
    cards = [tools.cards[step.tool] for step in plan.steps if step.tool in tools.cards]
    return tuple(each for each in Permission if any(each in card.permissions for card in cards))


def least(plan: Plan, tools: Toolbox) -> tuple[float, int, float]:
    """Seconds, tokens and US dollars that a plan is expected to take, as far as its tools' cards say."""
    rows = _rows(plan)
    seconds, tokens, usd = 0.0, 0, 0.0
    for step in plan.steps:
        card = tools.cards.get(step.tool)
        if card is not None:
            seconds += card.cost.seconds + card.cost.row_seconds * rows
            tokens += card.cost.tokens + card.cost.row_tokens * rows
            usd += card.cost.usd
    return seconds, tokens, usd


def _shape(plan: Plan) -> Iterator[Fault]:
    if not plan.steps:
        yield Fault(kind="type", step="", why="the plan has no step")
    if len(plan.steps) > MOST_STEPS:
        yield Fault(kind="budget", step="", why=f"the plan has {len(plan.steps)} steps, at most {MOST_STEPS} may be")
    seen: set[str] = set()
    for step in plan.steps:
        if step.id in seen or not step.id or len(step.id) > 100:
            yield Fault(kind="type", step=step.id[:100], why="two steps have this id, or it is none")
        seen.add(step.id)
    try:
        order(plan)
    except UsageError as error:
        yield Fault(kind="circle", step="", why=str(error))


def _step(step: Step, known: dict[str, Step], tools: Toolbox) -> Iterator[Fault]:
    tool = tools.tools.get(step.tool)
    if tool is None:
        yield Fault(kind="tool", step=step.id, why=f"there is no tool {step.tool!r}{tools.near(step.tool)}")
        return
    card = tool.card
    if card.missing:
        yield Fault(kind="tool", step=step.id, why=f"capability missing: {card.name}: {card.missing}")
    if step.version and step.version != card.version:
        yield Fault(
            kind="tool",
            step=step.id,
            why=f"the plan was made for version {step.version} of {card.name}, this is {card.version}; plan anew",
        )
    try:
        tool.settings(step.settings)
    except UsageError as error:
        yield Fault(kind="setting", step=step.id, why=str(error))
    for name, sources in step.inputs.items():
        taken = card.inputs.get(name)
        if taken is None:
            yield Fault(kind="type", step=step.id, why=f"{card.name} takes no {name!r}")
            continue
        if len(sources) != 1 and not (taken.many and sources):
            yield Fault(kind="type", step=step.id, why=f"{card.name} takes one step as {name}, not {len(sources)}")
        for source in sources:
            if source not in known:
                yield Fault(kind="type", step=step.id, why=f"{name} comes from {source!r}, and there is no such step")
                continue
            giver = tools.cards.get(known[source].tool)
            if giver is not None and giver.output != taken.kind:
                why = f"{card.name} takes {taken.kind} as {name}, {source} ({giver.name}) gives {giver.output}"
                yield Fault(kind="type", step=step.id, why=why)
    for name, taken in card.inputs.items():
        if not taken.optional and name not in step.inputs:
            yield Fault(
                kind="type", step=step.id, why=f"{card.name} needs {taken.kind} as {name}, and no step gives it"
            )


def _permissions(plan: Plan, tools: Toolbox, granted: Collection[Permission]) -> Iterator[Fault]:
    for step in plan.steps:
        card = tools.cards.get(step.tool)
        for each in card.permissions if card is not None else ():
            if each not in granted:
                yield Fault(
                    kind="permission",
                    step=step.id,
                    why=f"{step.tool} needs the permission {each}; grant it with --allow {each}",
                )


def _budget(plan: Plan, tools: Toolbox, budget: Budget) -> Iterator[Fault]:
    seconds, tokens, usd = least(plan, tools)
    if len(plan.steps) > budget.steps:
        yield Fault(kind="budget", step="", why=f"the plan has {len(plan.steps)} steps, the budget is {budget.steps}")
    for name, takes, have in (
        ("seconds", seconds, budget.seconds),
        ("tokens", tokens, budget.tokens),
        ("US dollars", usd, budget.usd),
    ):
        if takes > have:
            why = f"the plan may take {takes:g} {name}, the budget is {have:g}; give more, or ask for fewer rows"
            yield Fault(kind="budget", step="", why=why)


def _rows(plan: Plan) -> int:
    """How many rows steps see, where a step bounds them; 1000 is assumed else."""
    bounds = [
        value
        for step in plan.steps
        for name, value in step.settings.items()
        if name in _LIMITS and isinstance(value, int)
    ]
    return min(bounds, default=1000)
