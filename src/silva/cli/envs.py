"""`silva envs`: which environments there are, what they are, install them, prove that they score as they should.

list · show NAME · install NAME · tasks NAME · test NAME · new NAME · serve-mcp NAME   (errors are SilvaErrors; the
root prints them)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from silva.cli.envs_new import new
from silva.cli.envs_serve_mcp import serve_mcp
from silva.errors import Exit, MissingError, SilvaError, UsageError

if TYPE_CHECKING:
    from silva.envs.check import Check
    from silva.envs.protocol import EnvironmentEntry

app = typer.Typer(help="List, show, install and test environments; begin one of your own.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="An environment's name, or path/to/file.py:Class.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Every environment, and whether it can run here."""
    from silva.envs import Registry

    registry = Registry.load()
    rows = [(entry, state(entry)) for entry in registry]
    if as_json:
        _print_json([{**msgspec.to_builtins(entry), "state": where} for entry, where in rows])
        return
    table = Table(box=None, pad_edge=False)
    for title in ("name", "state", "licence", "summary"):
        table.add_column(title, overflow="fold")
    for entry, where in rows:
        table.add_row(entry.name, where, entry.licence, entry.summary)
    Console().print(table)
    for why in registry.broken.values():
        Console(stderr=True).print(f"broken: {why}", markup=False, soft_wrap=True)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """One environment: its entry, and where it can run what it declares."""
    from silva.envs import Registry

    entry = Registry.load().entry(name)
    where = state(entry)
    facts = {**msgspec.to_builtins(entry), "state": where}
    if where == "lacks packages":
        facts["lacks"] = lacks(entry)
    if where in ("installed", "here"):
        facts["capabilities"] = msgspec.to_builtins(asyncio.run(_capabilities(entry)))
    if as_json:
        _print_json(facts)
        return
    for key, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        typer.echo(f"{key:15} {shown}")


@app.command()
def install(
    names: Annotated[list[str], typer.Argument(help="Names of environments.")],
    again: Annotated[bool, typer.Option("--again", help="Build anew even where it stands complete.")] = False,
) -> None:
    """Build the virtual environment of each from its pinned requirements; say what the machine itself lacks."""
    from silva.envs import Registry
    from silva.envs.install import install as build
    from silva.envs.install import installed

    registry = Registry.load()
    for entry in [registry.entry(name) for name in names]:
        stood = installed(entry) and not again
        build(entry, say=lambda line, name=entry.name: typer.echo(f"{name}: {line}", err=True), again=again)
        typer.echo(f"{entry.name}: {'already installed' if stood else 'installed'}")
        lacking = lacks(entry)
        if lacking:
            typer.echo(f"{entry.name}: {lacking}", err=True)


@app.command()
def tasks(
    name: Name,
    split: Annotated[str, typer.Option(help="Which split.")] = "test",
    limit: Annotated[int | None, typer.Option(help="At most so many.", min=1)] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Only this task; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """An environment's tasks."""
    from silva.envs import HostPool, Registry

    async def listed() -> list[object]:
        async with HostPool(Registry.load().entry(name)) as pool:
            return list(await pool.tasks(split, limit, ids))

    found = asyncio.run(listed())
    if as_json:
        _print_json(found)
        return
    for task in found:
        typer.echo(f"{task.id}  {' '.join(task.instruction.split())[:100]}")  # type: ignore[attr-defined]


@app.command("test")
def test_(
    name: Annotated[str | None, typer.Argument(help="An environment's name, or path/to/file.py:Class.")] = None,
    n: Annotated[int | None, typer.Option("--n", help="Tasks to sample (default: the entry's own).", min=1)] = None,
    split: Annotated[str | None, typer.Option(help="Which split (default: the entry's first).")] = None,
    hosts: Annotated[int, typer.Option(help="Host processes.", min=1)] = 1,
    every: Annotated[bool, typer.Option("--all", help="Every environment that can run here.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the expert, which must score full marks, and the null policy, which must score its known floor."""
    from silva.envs import Registry
    from silva.envs.check import check, table

    if (name is None) == (not every):
        raise UsageError("silva envs test: give one environment, or --all")
    registry = Registry.load()
    entries = [registry.entry(name)] if name is not None else list(registry)
    checks: list[Check] = []
    broken = False
    for entry in entries:
        where = state(entry) if every else ""
        if where == "not installed":
            typer.echo(f"{entry.name}: skipped, not installed; run: silva envs install {entry.name}", err=True)
            continue
        if where == "lacks packages":
            typer.echo(f"{entry.name}: skipped, {lacks(entry)}", err=True)
            continue
        try:
            made = asyncio.run(check(entry, n, split, hosts))
        except SilvaError as error:
            if not every:
                raise
            typer.echo(str(error), err=True)
            broken = True
            continue
        checks.append(made)
        if not (markdown or as_json):
            _tell(made)
        if made.differs:
            typer.echo(f"{entry.name}: {made.differs}", err=True)
        for policy in made.policies:
            for line in (*policy.failures[:5], *policy.short[:5]):
                typer.echo(f"{entry.name} {policy.policy}: {line}", err=True)
    if as_json:
        _print_json([{**msgspec.to_builtins(made), "holds": made.holds} for made in checks])
    elif markdown:
        typer.echo(table(checks))
    if broken or not all(made.holds for made in checks):
        raise typer.Exit(Exit.FAULT)


app.command()(new)
app.command("serve-mcp")(serve_mcp)

harbor_app = typer.Typer(help="Task folders in Harbor's format.", no_args_is_help=True)
app.add_typer(harbor_app, name="harbor")


@harbor_app.command("check")
def harbor_check(
    folder: Annotated[str, typer.Argument(help="A task folder, or a folder of them.")],
    as_json: AsJson = False,
) -> None:
    """Which tasks can be played here without docker, and why the others cannot. Nothing is built or installed."""
    from silva.envs.gyms.terminal.share import share

    found = share(folder)
    if as_json:
        _print_json(msgspec.to_builtins(found))
        return
    for task in found.tasks:
        typer.echo(f"{task.name}  {'playable' if task.playable else task.reason}")
    typer.echo(f"{found.playable} of {found.of} can be played here")


def state(entry: EnvironmentEntry) -> str:
    """Where the entry can run: `installed` (an environment of its own), `here` (this interpreter), `not installed`;
    `lacks packages`: installed, but the machine lacks some of its own."""
    from silva.envs.install import installed, satisfied_here

    if entry.machine and installed(entry) and lacks(entry):
        return "lacks packages"
    if (entry.requirements or entry.no_deps) and installed(entry):
        return "installed"
    return "here" if satisfied_here(entry) else "not installed"


def lacks(entry: EnvironmentEntry) -> str:
    """What the machine lacks for it that pip cannot bring, in one line; "" where nothing."""
    if not entry.machine:
        return ""
    from importlib import import_module

    module, _, name = entry.machine.partition(":")
    try:
        getattr(import_module(module), name)()
    except MissingError as missing:
        return str(missing)
    return ""


def _tell(made: Check) -> None:
    for policy in made.policies:
        verdict = "ok" if policy.holds else "FAILS"
        wanted = f"at least {policy.wanted:g}" if policy.policy == "expert" else f"{policy.wanted:g}"
        if policy.policy == "null" and policy.tolerance > 1e-6:
            wanted += f" ± {policy.tolerance:g}"
        typer.echo(
            f"{made.name} {made.split}: {policy.policy} {policy.score:.3f} on {made.sample} of {made.tasks} tasks "
            f"(must be {wanted}), {policy.turns} turns: {verdict}"
        )
    if not made.policies:
        typer.echo(f"{made.name} {made.split}: has neither expert nor known floor; {made.tasks} tasks listed")


async def _capabilities(entry: EnvironmentEntry) -> object:
    from silva.envs import HostPool

    async with HostPool(entry) as pool:
        return pool.capabilities


def _print_json(value: object) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
