"""The first plan of a pilot: that of its intent; where the intent leaves something open, the rows it speaks of.

A check is asked of rows, so a summary of them at a plan's end is left out: it would be counted as one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from silva.elf.assets import toolbox
from silva.elf.checking import checked
from silva.elf.endpoint import EndpointPlanner
from silva.elf.intent.known import known
from silva.elf.intent.offline import OfflinePlanner
from silva.elf.plan import Plan, Step
from silva.elf.running.job import Terms
from silva.errors import UsageError


def first_plan(intent: str, on: str, planner: str, terms: Terms, home: Path) -> Plan:
    """The plan that a pilot begins with.

    Args:
        intent: what is wanted; it may be vaguer than `silva elf run` takes it.
        on: the data, where the intent names none.
        planner: `offline`, or a model.
        terms: by which the plan is checked.
        home: of the engine.

    Raises:
        UsageError: neither the intent nor `on` names data, or the plan may not run.
    """
    tools = toolbox(home)
    there = known(terms.lake if Path(terms.lake).exists() or "://" in terms.lake else "", Path.cwd())
    plan: Plan | None = None
    why = ""
    try:
        found = (OfflinePlanner(tools.cards) if planner == "offline" else EndpointPlanner(planner, tools, terms)).plan(
            intent, there
        )
        gives = {tools.cards[step.tool].output for step in found.steps}
        if "rows" in gives and not found.asks and not any(tools.cards[step.tool].missing for step in found.steps):
            plan = _of_rows(found, {name: card.output for name, card in tools.cards.items()})
        else:
            why = found.asks[0] if found.asks else "its plan gives no rows"
            on = on or next((step.settings.get("source", "") for step in found.steps if step.tool == "read-rows"), "")
    except UsageError as error:
        why = str(error)
    if plan is None:
        if not on:
            raise UsageError(f"pilot: the intent names no data ({why}); name it with --on FILE or RUN")
        step = Step(id="read-rows", tool="read-rows", settings={"source": on})
        plan = Plan(intent=intent, steps=(step,), planner=planner, notes=(f"begins with the rows alone: {why}",))
    return checked(plan, tools, terms.granted, terms.budget.__class__())


def _of_rows(plan: Plan, gives: Mapping[str, str]) -> Plan:
    """A plan without the summaries of rows at its end."""
    last = plan.steps[-1]
    fed = {gives[plan.step(source).tool] for sources in last.inputs.values() for source in sources}
    if gives[last.tool] != "figures" or fed != {"rows"}:
        return plan
    note = f"a check is asked of rows: {last.tool} is left out"
    return _of_rows(replace(plan, steps=plan.steps[:-1], notes=(*plan.notes, note)), gives)
