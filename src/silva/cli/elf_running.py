"""What `silva elf run` and its kin have in common: terms, plans, running, and what is said of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from silva.cli.as_json import print_json
from silva.errors import UsageError

if TYPE_CHECKING:
    from silva.elf.derived import Derived
    from silva.elf.plan import Plan
    from silva.elf.running.job import Job, Terms
    from silva.elf.running.ledger import Event
    from silva.elf.toolbox import Toolbox


def terms_of(
    lake: str,
    allow: Sequence[str] | None,
    model: str,
    lineage: str,
    steps: int,
    seconds: float | None,
    tokens: int | None,
    usd: float | None,
    memory: str,
) -> Terms:
    """The terms that options state. Raises UsageError."""
    from silva.elf.plan import Budget
    from silva.elf.running.job import Terms
    from silva.elf.tool import Permission
    from silva.sandbox.limits import size

    for each in allow or ():
        if each not in set(Permission):
            raise UsageError(f"--allow {each}: possible are {', '.join(Permission)}")
    granted = tuple(each for each in Permission if each is Permission.READ or each in (allow or ()))
    bounds: dict[str, Any] = {"seconds": seconds, "tokens": tokens, "usd": usd}
    budget = Budget(
        steps=steps, memory=size(memory), **{name: each for name, each in bounds.items() if each is not None}
    )
    return Terms(lake=lake, model=model, granted=granted, budget=budget, lineage=lineage)


def replayed(terms: Terms, replay: str) -> Terms:
    """The terms of a job whose tools of the network take recorded replies: none of them reaches a network."""
    from silva.elf.tool import Permission

    granted = (*terms.granted, Permission.NET) if replay else terms.granted
    return msgspec.structs.replace(terms, granted=tuple(dict.fromkeys(granted)), replay=replay)


def planned(intent: str, file: Path | None, planner: str, terms: Terms, home: Path) -> tuple[Plan, Terms, Toolbox]:
    """The plan of an intent or of a file, the terms with the bounds that the intent itself states, and all tools.

    Raises:
        UsageError: nothing can be planned.
    """
    from silva.elf.assets import toolbox
    from silva.elf.intent.bounds import bounded
    from silva.elf.intent.known import known
    from silva.elf.plan import load_plan

    tools = toolbox(home)
    if file is not None:
        return load_plan(file), terms, tools
    terms = msgspec.structs.replace(terms, budget=bounded(intent, terms.budget))
    there = known(terms.lake if Path(terms.lake).exists() or "://" in terms.lake else "", Path.cwd())
    if planner == "offline":
        from silva.elf.intent.offline import OfflinePlanner

        return OfflinePlanner(tools.cards).plan(intent, there), terms, tools
    from silva.elf.endpoint import EndpointPlanner

    return EndpointPlanner(planner, tools, terms).plan(intent, there), terms, tools


def show_plan(plan: Plan, terms: Terms, tools: Toolbox, as_json: bool) -> int:
    """Draw a plan, and say what keeps it from running. Exit code 2 where something does that options cannot mend."""
    from silva.elf.checking import faults, least, needed
    from silva.elf.plan import drawn

    found = faults(plan, tools, terms.granted, terms.budget)
    needs = [str(each) for each in needed(plan, tools)]
    seconds, tokens, usd = least(plan, tools)
    if as_json:
        print_json(
            {
                **msgspec.to_builtins(plan),
                "notes": plan.notes,
                "asks": plan.asks,
                "needs": needs,
                "expected": {"seconds": seconds, "tokens": tokens, "usd": usd},
                "faults": [msgspec.to_builtins(each) for each in found],
            }
        )
    else:
        sys.stdout.write(f"{drawn(plan)}\n")
        for note in plan.notes:
            sys.stdout.write(f"note: {note}\n")
        model = f", at most {tokens:,} tokens" if tokens else ""
        sys.stdout.write(f"needs: {', '.join(needs) or 'nothing'}; expected to take {seconds:.1f} s{model}\n")
        for ask in plan.asks:
            sys.stderr.write(f"to be said: {ask}\n")
        for fault in found:
            sys.stderr.write(f"it may not run: {fault}\n")
    return 2 if plan.asks or any(each.kind != "permission" for each in found) else 0


def execute(home: Path, plan: Plan, terms: Terms, tools: Toolbox, as_json: bool) -> int:
    """Check a plan, begin its job, run it, write its report. Raises SilvaError."""
    from silva.elf.checking import checked
    from silva.elf.running.job import Job

    checked(plan, tools, terms.granted, terms.budget)
    job = Job.begin(home, plan, terms)
    return finish(home, job, tools, as_json)


def resumed(home: Path, name: str, terms: Terms, given: tuple[Any, Any, Any], as_json: bool) -> int:
    """Go on with a job; bounds that are given anew take the place of its own. Raises SilvaError."""
    from silva.elf.assets import toolbox
    from silva.elf.running.job import Job

    job = Job.find(home, name)
    new = {
        key: getattr(terms.budget, key)
        for key, each in zip(("seconds", "tokens", "usd"), given, strict=True)
        if each is not None
    }
    if new:
        job = job.under(msgspec.structs.replace(job.terms, budget=msgspec.structs.replace(job.terms.budget, **new)))
    return finish(home, job, toolbox(home), as_json)


def finish(home: Path, job: Job, tools: Toolbox, as_json: bool) -> int:
    """Run a job to its end and write its report."""
    from silva.elf.report import written
    from silva.elf.running.runner import Runner

    if not as_json:
        steps = " ─▶ ".join(f"[{step.tool}]" for step in job.plan.steps)
        sys.stdout.write(f"plan: {steps}\njob: {job.id}\n")
        sys.stdout.flush()
    runner = Runner(home, tools, (lambda event: None) if as_json else _say)
    done = runner.run(job)
    report, page = written(job, done, runner)
    if as_json:
        results = {
            name: {
                "kind": (found := runner.artefact(each)).noun,
                "count": len(found),
                "digest": each,
                "notes": found.notes,
            }
            | _files(found)
            for name, each in done.results.items()
        }
        spent = {"seconds": round(done.seconds, 3), "tokens": done.tokens, "usd": done.usd}
        print_json({"job": job.id, "results": results, "report": str(report), "page": str(page), **spent})
        return 0
    for each in done.results.values():
        found = runner.artefact(each)
        for name, value in _files(found).items():
            sys.stdout.write(f"{name}: {value}\n")
    sys.stdout.write(f"report: {report}\npage: {page}\n")
    return 0


def changed(plan: Plan, settings: Sequence[str]) -> Plan:
    """A plan with settings changed, each `STEP.NAME=VALUE`. Raises UsageError."""
    steps = {step.id: step for step in plan.steps}
    for text in settings:
        place, sign, value = text.partition("=")
        name, dot, key = place.partition(".")
        if not sign or not dot or name not in steps:
            raise UsageError(f"--set {text}: write STEP.NAME=VALUE; steps are {', '.join(steps)}")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        steps[name] = msgspec.structs.replace(steps[name], settings={**steps[name].settings, key: read})
    return msgspec.structs.replace(plan, steps=tuple(steps.values()))


def candidate_lines(found: Derived) -> Iterator[str]:
    """What a person must see before a promotion: all that would run, and what tests found."""
    from silva.elf.plan import Plan, drawn

    yield f"{found.id}: {found.name} ({found.kind}), gives {found.gives}"
    yield f"  {found.summary}"
    if found.intent:
        yield f"  derived for: {found.intent}"
    for trial in found.trials:
        yield f"  test {trial.example}: {'held' if trial.held else 'did not hold'} {trial.said}".rstrip()
    for name, value in found.measured.items():
        yield f"  {name}: {value}"
    if found.steps:
        yield drawn(Plan(steps=found.steps))
    if found.source:
        from silva.tree.actions import visible

        yield visible(found.source)


def _files(found: Any) -> dict[str, str]:
    from silva.elf.artefact import File

    return {"file": found.path} if isinstance(found, File) else {}


def _say(event: Event) -> None:
    if event.event == "ended":
        took = "kept from before" if event.kept else f"{event.seconds:.1f} s"
        why = f"; {event.why}" if event.why else ""
        sys.stdout.write(f"  {event.step}: {event.count} {event.kind} ({took}){why}\n")
    elif event.event == "failed":
        sys.stdout.write(f"  {event.step}: failed\n")
    sys.stdout.flush()
