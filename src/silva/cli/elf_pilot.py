"""`silva elf pilot`: attempts until a check holds, within hard budgets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from silva.cli import elf_options as option
from silva.cli.as_json import print_json

if TYPE_CHECKING:
    from silva.elf.running.ledger import Event


def pilot(
    intent: Annotated[str, typer.Argument(help="What is wanted, in plain words; nothing with --resume.")] = "",
    check: Annotated[
        str,
        typer.Option(help="What must hold: rows >= 20 and max(words) <= 80; SELECT … FROM result; judge: QUESTION."),
    ] = "",
    on: Annotated[
        str, typer.Option("--on", help="The data: a run, a file or a query, where the intent names none.")
    ] = "",
    resume: Annotated[str, typer.Option(help="A pilot to go on with.")] = "",
    planner: Annotated[str, typer.Option(help="offline, or a model.")] = "offline",
    toolsmith: Annotated[
        str, typer.Option(help="A model that may write code for the sandbox; compositions of tools when left out.")
    ] = "",
    budget_steps: Annotated[int, typer.Option(min=1, help="Attempts at most.")] = 5,
    lake: option.Location = None,
    home: option.Home = None,
    allow: option.Allow = None,
    model: option.ModelName = "",
    seconds: option.Seconds = None,
    tokens: option.Tokens = None,
    usd: option.Usd = None,
    memory: option.Memory = "4G",
    lineage: option.LineageTo = "",
    as_json: option.AsJson = False,
) -> int:
    """Attempt until a stated check holds: the plan of the intent first, then with tools that are derived, tested and
    measured on the way. Exit code 1 where the budget is spent first. A derived tool waits for `silva elf promote`."""
    import msgspec

    from silva.cli.elf_running import terms_of
    from silva.elf.pilot.first import first_plan
    from silva.elf.pilot.pilot import Flight, Pilot, begin
    from silva.errors import UsageError

    place = option.lake_of(lake)
    where = option.home_of(home, place)
    if bool(resume) == bool(intent):
        raise UsageError("give an intent, or --resume PILOT")
    if not resume:
        if not check:
            raise UsageError("what must hold? add --check, such as --check 'rows >= 20 and max(words) <= 80'")
        terms = terms_of(place, allow, model, lineage, budget_steps, seconds, tokens, usd, memory)
        plan = first_plan(intent, on, planner, terms, where)
        resume = begin(where, Pilot(intent=intent, check=check, plan=plan, terms=terms, toolsmith=toolsmith))
    if not as_json:
        sys.stdout.write(f"pilot: {resume}\n")
        sys.stdout.flush()
    done = Flight(where, resume, (lambda event: None) if as_json else _say).fly()
    if as_json:
        print_json(msgspec.to_builtins(done))
    elif done.converged:
        sys.stdout.write(f"converged in {done.attempts} attempts, {done.seconds:.1f} s; job {done.job}\n")
        if done.candidate:
            sys.stdout.write(
                f"candidate awaiting approval: {done.candidate} (silva elf promote {done.candidate} --show)\n"
            )
    else:
        sys.stdout.write(f"not converged: {done.why}\n")
    return 0 if done.converged else 1


def _say(event: Event) -> None:
    if event.event == "attempt":
        sys.stdout.write(f"attempt {event.step}: {event.why}\n")
    elif event.event == "checked":
        verdict = "the check holds" if event.kind == "holds" else "criteria not met"
        said = f"{verdict} (score {event.usd:.1f})" if event.kind in ("holds", "lacks") else "not checked"
        sys.stdout.write(f"  {said}: {event.why}\n")
    elif event.event == "derived":
        verdict = "passed its tests" if event.kind == "held" else "failed a test"
        sys.stdout.write(f"derived {event.step}: {verdict}: {event.why}\n")
    sys.stdout.flush()
