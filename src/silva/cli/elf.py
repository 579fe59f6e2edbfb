"""`silva elf`: an intent in plain words to a checked plan, its run, its report; pilots, candidates and assets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli import elf_options as option
from silva.cli.as_json import print_json
from silva.cli.elf_pilot import pilot
from silva.cli.elf_tool import app as tool_app

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Say what to do with data; see the plan, run it, read the report."
)
app.add_typer(tool_app, name="tool")
app.command()(pilot)


@app.command()
def run(
    intent: Annotated[
        str, typer.Argument(help="What to do, in plain words; or nothing, with --plan or --resume.")
    ] = "",
    plan: Annotated[Path | None, typer.Option(help="A plan's file instead of an intent.")] = None,
    resume: Annotated[str, typer.Option(help="A job to go on with.")] = "",
    planner: Annotated[
        str, typer.Option(help="offline, or a model: http://HOST/v1#NAME, local, scripted:FILE.")
    ] = "offline",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Draw the plan, say what it needs; run nothing.")] = False,
    save_plan: Annotated[Path | None, typer.Option(help="Write the plan here.")] = None,
    lake: option.Location = None,
    home: option.Home = None,
    allow: option.Allow = None,
    model: option.ModelName = "",
    steps: option.Steps = 64,
    seconds: option.Seconds = None,
    tokens: option.Tokens = None,
    usd: option.Usd = None,
    memory: option.Memory = "4G",
    lineage: option.LineageTo = "",
    replay: option.Replay = "",
    as_json: option.AsJson = False,
) -> int:
    """Plan an intent, check the plan, run it, write its report. A job that was killed goes on with --resume."""
    from silva.cli.elf_running import execute, planned, replayed, resumed, show_plan, terms_of
    from silva.errors import UsageError

    if sum(map(bool, (intent, plan, resume))) != 1:
        raise UsageError("give one of an intent, --plan FILE and --resume JOB")
    place = option.lake_of(lake)
    terms = replayed(terms_of(place, allow, model, lineage, steps, seconds, tokens, usd, memory), replay)
    where = option.home_of(home, place)
    if resume:
        return resumed(where, resume, terms, given=(seconds, tokens, usd), as_json=as_json)
    made, terms, tools = planned(intent, plan, planner, terms, where)
    if save_plan is not None:
        from silva.elf.plan import encoded_plan
        from silva.report.write import save

        save(encoded_plan(made).decode(), save_plan)
    if dry_run:
        return show_plan(made, terms, tools, as_json)
    return execute(where, made, terms, tools, as_json)


@app.command()
def submit(
    asset: Annotated[str, typer.Argument(help="A promoted pipeline, or NAME@VERSION.")],
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: STEP.NAME=VALUE (JSON).")
    ] = None,
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
    """Run a promoted pipeline again, without planning anew."""
    from silva.cli.elf_running import changed, execute, terms_of
    from silva.elf.assets import toolbox
    from silva.elf.derived import Assets
    from silva.elf.plan import Plan
    from silva.errors import UsageError

    place = option.lake_of(lake)
    where = option.home_of(home, place)
    found = Assets(where).asset(asset)
    if found.kind != "pipeline":
        raise UsageError(f"{asset} is a tool, not a pipeline: intents and plans use it by its name {found.name}")
    made = Plan(intent=found.intent, steps=found.steps, planner=f"asset {found.name}@{found.version}")
    terms = terms_of(place, allow, model, lineage, 64, seconds, tokens, usd, memory)
    return execute(where, changed(made, setting or ()), terms, toolbox(where), as_json)


@app.command()
def promote(
    name: Annotated[str, typer.Argument(help="A candidate (cand_tool_…), or a job whose plan is to be kept.")],
    as_: Annotated[str, typer.Option("--as", help="The asset's name; its own when left out.")] = "",
    show: Annotated[bool, typer.Option("--show", help="Print what would be promoted, whole; promote nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; for a person's own scripts.")] = False,
    lake: option.Location = None,
    home: option.Home = None,
    as_json: option.AsJson = False,
) -> int:
    """Let a candidate tool, or a job's plan, become an asset: its next version, under your name."""
    import msgspec

    from silva.cli.elf_running import candidate_lines
    from silva.elf.derived import Assets
    from silva.elf.running.job import Job
    from silva.errors import UsageError

    where = option.home_of(home, option.lake_of(lake))
    kept = Assets(where)
    job = name.startswith("job_")
    found = kept.pipeline(name, Job.find(where, name).plan) if job else kept.candidate(name)
    if show:
        print_json(msgspec.to_builtins(found)) if as_json else sys.stdout.write(
            "\n".join(candidate_lines(found)) + "\n"
        )
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"promote: a person must look at {name}: see it with --show, then say --yes")
        sys.stdout.write("\n".join(candidate_lines(found)) + "\n")
        if not typer.confirm(f"promote {name}?"):
            raise UsageError(f"{name} was not promoted")
    made = kept.promote(found, name=as_)
    if as_json:
        print_json(msgspec.to_builtins(made))
    else:
        sys.stdout.write(f"asset {made.name}@{made.version}, promoted by {made.by}\n")
        if made.kind == "pipeline":
            sys.stdout.write(f"again, without planning: silva elf submit {made.name}\n")
    return 0


@app.command()
def tools(
    words: Annotated[str, typer.Argument(help="What it is to do; all when left out.")] = "",
    schema: Annotated[bool, typer.Option("--schema", help="OpenAI's function schemas, as JSON.")] = False,
    lake: option.Location = None,
    home: option.Home = None,
    as_json: option.AsJson = False,
) -> int:
    """List the tools: what each takes and gives, and what it needs; or those that are near some words."""
    import msgspec

    from silva.elf.assets import toolbox
    from silva.elf.intent.asked import Vocabulary

    cards = toolbox(option.home_of(home, option.lake_of(lake))).cards
    chosen = list(cards.values())
    if words:
        chosen = [cards[name] for _, name in Vocabulary(cards).near(words, 10)]
    if schema or as_json:
        print_json([each.schema if schema else msgspec.to_builtins(each) for each in chosen])
        return 0
    from rich.console import Console
    from rich.table import Table

    grid = Table("tool", "what", "takes", "gives", "needs", box=None, pad_edge=False)
    for each in chosen:
        takes = ", ".join(sorted({one.kind for one in each.inputs.values()}))
        needs = ", ".join(each.permissions) + (" (missing)" if each.missing else "")
        grid.add_row(each.name, each.summary, takes, each.output, needs)
    Console(width=None if sys.stdout.isatty() else 160).print(grid)
    sys.stdout.write(f"{len(chosen)} tools\n")
    return 0


@app.command()
def jobs(lake: option.Location = None, home: option.Home = None, as_json: option.AsJson = False) -> int:
    """List jobs, the latest first, and candidates that wait for a person."""
    from silva.elf.derived import Assets
    from silva.elf.seen import seen_jobs

    where = option.home_of(home, option.lake_of(lake))
    found: list[dict[str, Any]] = seen_jobs(where)
    waiting = Assets(where).candidates()
    if as_json:
        print_json({"jobs": found, "candidates": [{"id": each.id, "name": each.name} for each in waiting]})
        return 0
    for each in found:
        sys.stdout.write(
            f"{each['id']}  {each['state']:<9} {each['done']}/{each['steps']} steps  {each['intent'][:80]}\n"
        )
    for each in waiting:
        sys.stdout.write(f"{each.id}  candidate  {each.name}: {each.summary}\n")
    if not found and not waiting:
        sys.stdout.write("no jobs\n")
    return 0
