"""`silva skills distil|trial|list|show|retire`: what runs taught, as short texts for later ones."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.config import load, render
from silva.errors import Exit

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Skills: distil them from contrasting siblings, try them, list them.",
)

BankFolder = Annotated[Path, typer.Argument(help="Folder of skills.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


@app.command()
def distil(
    source: Annotated[str, typer.Argument(help="Run, condition, query, or a file of trajectories.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Bank: folder of skills; made where there is none.")],
    lake: Annotated[str, typer.Option(envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix.")] = "lake",
    model: Annotated[
        str | None, typer.Option(help="Who writes them: local, http://HOST:PORT/v1#NAME, …; rules where none is named.")
    ] = None,
    margin: Annotated[float, typer.Option(min=0, help="Least difference in score between siblings.")] = 0.0,
    support: Annotated[int, typer.Option(min=1, help="Least number of tasks that agree (rules).")] = 1,
    warnings: Annotated[int, typer.Option(min=0, help="Most worse steps that a skill warns of (rules).")] = 2,
    most: Annotated[int, typer.Option(min=1, help="Most skills, and most contrasts a model is asked about.")] = 50,
    as_json: AsJson = False,
) -> int:
    """Make skills of siblings that ended differently: same task, other score or other safety. They are candidates."""
    import msgspec

    from silva.curate.rows import read
    from silva.curate.skills import distil as make

    reading = read(source, lake=lake)
    made = asyncio.run(make(reading, output, model=model, margin=margin, support=support, warnings=warnings, most=most))
    if as_json:
        print_json({**msgspec.to_builtins(made), "unread": reading.notes})
        return Exit.OK
    for line in (*reading.notes, *made.skipped):
        sys.stderr.write(f"{line}\n")
    for skill in made.skills:
        sys.stdout.write(f"{output / skill.name}: version {skill.version}, {skill.evidence} tasks agree\n")
    cost = f", {made.usage.prompt_tokens + made.usage.completion_tokens} tokens" if model else ""
    sys.stdout.write(f"{made.contrasts} contrasts: {len(made.skills)} new skills, {made.known} known{cost}\n")
    if not made.contrasts:
        sys.stdout.write("no two attempts at one task ended differently; run with --group 4, or more\n")
    return Exit.OK


@app.command()
def trial(
    bank: BankFolder,
    config: Annotated[Path, typer.Argument(help="YAML or TOML file: rollout: {env: …, model: …, tasks: …}.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides, such as rollout.run=trial.")] = None,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Instead of the file's rollout.lake.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="This skill; may be said again.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be played, play nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Play the same tasks with each candidate and without it; keep those that gain, reject the rest with the reason."""
    import msgspec

    from silva.curate.skills import TrialConfig, try_skills
    from silva.curate.skills.trying import plan

    where = [f"rollout.lake={json.dumps(lake)}"] if lake else []
    settings = load(TrialConfig, config, [*where, *(overrides or [])])
    if dry_run:
        runs = plan(bank, settings, only or ())
        if as_json:
            print_json({"runs": runs, "config": settings.model_dump(mode="json")})
        else:
            sys.stdout.write(render(settings) + "".join(f"would play {run}\n" for run in runs))
        return Exit.OK
    done = asyncio.run(try_skills(bank, settings, only or ()))
    if as_json:
        print_json([msgspec.to_builtins(skill) for skill in done])
        return Exit.OK
    for skill in done:
        sys.stdout.write(f"{skill.name}: {skill.status}{_tried(skill)}\n")
    return Exit.OK


@app.command("list")
def list_(bank: BankFolder, as_json: AsJson = False) -> int:
    """List the skills of a bank."""
    import msgspec

    from silva.rollout.skills import Bank

    skills = list(Bank.there(bank))
    if as_json:
        print_json([{**msgspec.to_builtins(skill), "digest": skill.digest} for skill in skills])
        return Exit.OK
    for skill in skills:
        sys.stdout.write(f"{skill.name} v{skill.version} {skill.status}{_tried(skill)}\n  {skill.description}\n")
    if not skills:
        sys.stdout.write("no skills\n")
    return Exit.OK


@app.command()
def show(
    bank: BankFolder,
    name: Annotated[str, typer.Argument(help="Skill.")],
    versions: Annotated[bool, typer.Option("--versions", help="Every version, oldest first.")] = False,
) -> int:
    """Print a skill."""
    from silva.rollout.skills import Bank
    from silva.rollout.skills.skill import write_skill

    opened = Bank.there(bank)
    for skill in opened.versions(name) if versions else [opened.get(name)]:
        sys.stdout.write(write_skill(skill))
    return Exit.OK


@app.command()
def retire(
    bank: BankFolder,
    name: Annotated[str, typer.Argument(help="Skill.")],
    why: Annotated[str, typer.Option(help="The reason, which stays with it.")],
) -> int:
    """Take a skill out of use; it stays readable."""
    from silva.rollout.skills import Bank

    skill = Bank.there(bank).mark(name, "retired", why=why)
    sys.stdout.write(f"{skill.name} v{skill.version}: retired\n")
    return Exit.OK


def _tried(skill: Any) -> str:
    trial, why = skill.trial, f" ({skill.why})" if skill.why else ""
    if trial is None:
        return why
    bounds = f" [{trial.low:+.3f}, {trial.high:+.3f}]" if trial.low is not None and trial.high is not None else ""
    safety = f", safety {trial.safety:+.3f}" if trial.safety is not None else ""
    return f", gain {trial.gain:+.3f}{bounds}{safety} over {trial.tasks} tasks{why}"
