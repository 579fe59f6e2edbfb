"""`silva rollout`: run agents in environments, keep every turn."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import to_builtins
from rich.console import Console

from silva.cli.as_json import print_json
from silva.cli.config import load, render
from silva.cli.interrupting import heed_interrupts
from silva.errors import UsageError

app = typer.Typer()


@app.command()
def rollout(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as budget.turns=10.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML or TOML file.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="Environment; repeat for several (silva envs list).")] = None,
    run: Annotated[str | None, typer.Option(help="Name of the run in the lake; by the clock if none.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="local, local:FOLDER, vllm:FOLDER, scripted:FILE, http(s)://HOST/v1#NAME, openai:NAME."),
    ] = None,
    policy: Annotated[str | None, typer.Option(help="model, expert, null or solution (of a task that grew).")] = None,
    agent: Annotated[
        str | None, typer.Option(help="tools, react, or 'program: COMMAND' ({prompt} in it, else on stdin).")
    ] = None,
    renderer: Annotated[
        str | None,
        typer.Option(help="Exact ids for expert or null turns: local, scripted or a model's folder (form: --agent)."),
    ] = None,
    on: Annotated[str | None, typer.Option(help="Where episodes are played: local, or ray (see ray.address).")] = None,
    lake: Annotated[str | None, typer.Option(help="Folder or object-store URL.", envvar="SILVA_LAKE")] = None,
    pool: Annotated[int | None, typer.Option(help="Episodes in flight.")] = None,
    group: Annotated[int | None, typer.Option(help="Rollouts of each task.")] = None,
    limit: Annotated[int | None, typer.Option(help="So many tasks of each environment.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the environment's tasks.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Task id; repeat for several.")] = None,
    tasks: Annotated[Path | None, typer.Option(help="Task file, JSONL or YAML.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(help="ROLE=MODEL, or =expert, =null: who plays another agent of the episode; repeat for several."),
    ] = None,
    tools: Annotated[
        list[str] | None, typer.Option(help="MCP servers whose tools are added, mcp/FILE.yaml; repeat for several.")
    ] = None,
    attack: Annotated[list[str] | None, typer.Option(help="SURFACE/FRAMING/GOAL (silva redteam list), one.")] = None,
    skills: Annotated[
        Path | None, typer.Option(help="Bank of skills; those that fit the task are given (silva skills).")
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(help="Draw so many actions at every turn, try each in a copy, take the best.")
    ] = None,
    verifier: Annotated[
        str | None, typer.Option(help="Who picks among candidates: completions, endpoint, rules, value, random.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue this run, nothing twice.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: try again what failed at model, budget or host.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here at the end.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run a policy on an environment's tasks and keep every turn in the lake."""
    from silva.rollout.config import RolloutConfig

    if attack and len(attack) > 1:
        raise UsageError(
            "--attack: a rollout is under one attack; silva redteam run plays the tasks under each of several"
        )
    given: dict[str, Any] = {
        "env": list(env) if env else None,
        "run": run,
        "tools": list(tools) if tools else None,
        "model": model,
        "policy": policy,
        "agent": agent,
        "renderer": renderer,
        "on": on,
        "lake": lake,
        "pool": pool,
        "group": group,
        "tasks.limit": limit,
        "tasks.split": split,
        "tasks.ids": list(task) if task else None,
        "tasks.file": str(tasks) if tasks else None,
        "seed": seed,
        "stages.attack.attack": attack[0] if attack else None,
        "stages.skills.bank": str(skills) if skills else None,
        "stages.candidates.n": candidates,
        "stages.candidates.verifier": verifier,
        **{f"roles.{name}.model": model for name, model in map(_cast, role or ())},
    }
    dotted = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    settings = load(RolloutConfig, config, [*dotted, *(overrides or [])])
    if retry_failed and not resume:
        raise UsageError("--retry-failed goes with --resume")
    if resume and "run" not in settings.model_fields_set:
        raise UsageError("--resume needs the name of the run: --run NAME (silva trees list shows them)")
    console = Console(stderr=True)
    if dry_run:
        _dry_run(settings, as_json)
        return
    _tell_untried(settings.stages.get("skills", {}))
    result = asyncio.run(_run(settings, resume, retry_failed, console))
    raise typer.Exit(_conclude(settings, result, report, as_json))


def _tell_untried(options: dict[str, Any]) -> None:
    """Say that a bank gives nothing, where none of its skills was kept by a trial."""
    folder = Path(str(options.get("bank", "")))
    if not options or options.get("only") or not folder.is_dir():
        return
    from silva.rollout.skills import Bank

    bank = Bank(folder)
    if bank.kept():
        return
    words = (
        f"warning: skills {folder}: none of {sum(1 for _ in bank)} is kept, so none is given; try them: silva skills"
    )
    typer.echo(f"{words} trial {folder} trial.yaml", err=True)


def _searched(settings: Any, result: Any) -> Any:
    """How the searches among candidates went together, told a line each; None where there were none."""
    if not settings.searches:
        return None
    from silva.rollout.branching.told import costs, lines, totals

    found = totals(each for each in result.trajectories if not each.superseded)
    for line in (*costs(found), *lines(found)):
        typer.echo(line, err=True)
    return found


def _cast(text: str) -> tuple[str, str]:
    name, given, model = text.partition("=")
    if not (name.isidentifier() and given and model):
        raise UsageError(f"--role {text}: write ROLE=MODEL, ROLE=expert or ROLE=null (silva envs show ENV names roles)")
    return name, model


def _dry_run(settings: Any, as_json: bool) -> None:
    from silva.envs import Registry
    from silva.rollout.roles import known_roles
    from silva.rollout.run import host_pool, plan
    from silva.rollout.slots import slots
    from silva.rollout.tasks import choose_tasks

    async def chosen() -> tuple[list[Any], str]:
        if settings.on == "ray":
            from silva.rollout.on_ray.crew import open_crew

            async with open_crew(settings, most=1) as crew:
                return await choose_tasks(settings.tasks, crew.pools), str(crew)
        registry = Registry.load()
        pools = {name: host_pool(name, registry.entry(name), settings) for name in settings.env}
        try:
            for pool in pools.values():
                await pool.__aenter__()
            known_roles(settings, {name: pool.capabilities.roles for name, pool in pools.items()})
            return await choose_tasks(settings.tasks, pools), "this machine"
        finally:
            for pool in pools.values():
                await pool.__aexit__(None, None, None)

    tasks, where = asyncio.run(chosen())
    planned = plan(settings, tasks, slots(settings.run, tasks, settings.group, settings.seed), where)
    if as_json:
        print_json({"plan": planned, "config": settings.model_dump(mode="json")})
        return
    sys.stdout.write(render(settings) + "\n")
    for key, value in planned.items():
        sys.stdout.write(f"# {key}: {value}\n")


async def _run(settings: Any, resume: bool, retry_failed: bool, console: Console) -> Any:
    from silva.guide.mailroom import Mailroom
    from silva.rollout.progress import LiveProgress
    from silva.rollout.run import Hooks, run_rollout

    progress = LiveProgress(console)

    def begin(scheduler: Any, ledger: Any, total: int) -> None:
        progress.start(scheduler, ledger, total, settings.run)
        heed_interrupts(scheduler)

    retry = frozenset({"model", "budget", "infrastructure"}) if retry_failed else frozenset[str]()
    mailroom = Mailroom.of(settings.lake, settings.run, resume=resume) if settings.heeds else None
    try:
        hooks = Hooks(on_start=begin, on_end=progress.ended, retry=retry, guidance=mailroom)
        result = await run_rollout(settings, resume=resume, hooks=hooks)
        if mailroom is not None and not result.remaining:
            mailroom.mailbox.close()
        return result
    finally:
        progress.stop()


def _conclude(settings: Any, result: Any, report: Path | None, as_json: bool) -> int:
    from silva.report import print_summary, summarise, write_report

    summary = summarise(result.trajectories, baselines=result.floors)
    searched = _searched(settings, result)
    if as_json:
        body = {
            "run": result.run.id,
            "status": result.run.status,
            "remaining": result.remaining,
            "stopped": result.stopped,
            "summary": summary.to_json(),
            **({"candidates": to_builtins(searched)} if searched is not None else {}),
        }
        print_json(body)
    else:
        print_summary(summary, Console())
        if result.remaining:
            typer.echo(
                f"{result.remaining} episodes are left ({result.stopped or 'stopped'}): "
                f"silva rollout … --run {result.run.id} --resume continues",
                err=True,
            )
    if report is not None:
        write_report(settings.lake, settings.run, report, baselines=result.floors)
        typer.echo(f"report: {report}", err=True)
    return int(result.exit_code)
