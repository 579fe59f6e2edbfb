"""`silva redteam`: attack and disturb agents in any environment, and say what came of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.redteam_detect import detect
from silva.cli.redteam_explore import explore
from silva.cli.redteam_matrix import matrix
from silva.cli.redteam_replay import replay
from silva.errors import Exit, UsageError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Attack and disturb agents in any environment; see what came of it.",
)

Location = Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or object-store URL.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Most = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="End with code 1 if a larger share of the exposed was led astray by any attack."),
]
Sarif = Annotated[Path | None, typer.Option(help="Write every attack that reached its goal here, as SARIF 2.1.0.")]
JUnit = Annotated[Path | None, typer.Option("--junit", help="Write a case for each attack here, as JUnit XML.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Surfaces, framings, goals, perturbations, attackers, defences, detectors: an attack is SURFACE/FRAMING/GOAL."""
    from silva.redteam.attack import framings, goals, perturbations, surfaces
    from silva.redteam.attackers.table import attackers
    from silva.redteam.defences.table import defences
    from silva.redteam.detecting import detectors

    tables: dict[str, dict[str, Any]] = {
        "surfaces": dict(surfaces()),
        "framings": dict(framings()),
        "goals": dict(goals()),
        "perturbations": dict(perturbations()),
        "attackers": dict(attackers()),
        "defences": dict(defences()),
        "detectors": dict(detectors()),
    }
    if as_json:
        told = {
            kind: [
                {"name": each.name, "summary": each.summary, "standards": list(getattr(each, "standards", ()))}
                for each in table.values()
            ]
            for kind, table in tables.items()
        }
        print_json(told)
        return
    for kind, table in tables.items():
        sys.stdout.write(f"{kind}\n")
        for each in table.values():
            standards = ", ".join(getattr(each, "standards", ()))
            sys.stdout.write(f"  {each.name:<17} {each.summary}{f'  [{standards}]' if standards else ''}\n")


@app.command()
def run(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the rollout's config, such as budget.turns=10.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="A rollout's YAML or TOML file.")] = None,
    plan: Annotated[
        Path | None, typer.Option(help="A YAML file: attacks on several targets (docs/guides/red-team.md).")
    ] = None,
    attack: Annotated[
        list[str] | None, typer.Option(help="SURFACE/FRAMING/GOAL, * for any; repeat for several.")
    ] = None,
    perturb: Annotated[list[str] | None, typer.Option(help="A perturbation, * for all; repeat for several.")] = None,
    attacker: Annotated[
        list[str] | None, typer.Option(help="Who searches for the words (silva redteam list); repeat for several.")
    ] = None,
    attacker_model: Annotated[
        str, typer.Option(help="Who writes for attackers: grammar, or a model as of --model.")
    ] = "grammar",
    tries: Annotated[int, typer.Option(min=1, help="Rounds of a search.")] = 10,
    width: Annotated[int, typer.Option(min=1, help="Branches at once for each task, of attackers that branch.")] = 1,
    depth: Annotated[
        int, typer.Option(min=0, help="The turn whose result carries a searched attack; 0: the first, or any decision.")
    ] = 0,
    patience: Annotated[
        int, typer.Option(min=0, help="Turns after an attack after which a searched attempt ends; 0: none.")
    ] = 0,
    defence: Annotated[
        list[str] | None, typer.Option(help="Play everything with this defence, too; repeat for several.")
    ] = None,
    share: Annotated[float, typer.Option(help="Share of the turns that a perturbation strikes.")] = 0.3,
    baseline: Annotated[bool, typer.Option(help="Play the tasks without an attack, too.")] = True,
    env: Annotated[list[str] | None, typer.Option(help="Environment; repeat for several.")] = None,
    name: Annotated[str | None, typer.Option("--run", help="Name of the plan; its runs are NAME.….")] = None,
    model: Annotated[str | None, typer.Option(help="As of silva rollout.")] = None,
    agent: Annotated[str | None, typer.Option(help="As of silva rollout.")] = None,
    tools: Annotated[
        list[str] | None, typer.Option(help="MCP servers whose tools are added, mcp/FILE.yaml; repeat for several.")
    ] = None,
    lake: Location = None,
    limit: Annotated[int | None, typer.Option(help="So many tasks of each environment.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue, nothing twice.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: try again what failed at model, budget or host.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the runs, play nothing.")] = False,
    most: Most = None,
    sarif: Sarif = None,
    junit: JUnit = None,
    as_json: AsJson = False,
) -> None:
    """Play the same tasks under each attack and without one, and print what came of it."""
    import json

    from silva.cli.config import load

    told = Outputs(most, sarif, junit, as_json)
    if retry_failed and not resume:
        raise UsageError("--retry-failed goes with --resume")
    again = Again(resume, retry_failed)
    if plan is not None:
        from silva.cli.redteam_plan import planned_in

        said = [attack, perturb, attacker, defence, config, overrides, env, model, agent, tools, name]
        if any(said):
            raise UsageError(
                "--plan says what is attacked and how: beside it --lake, --limit, --resume and outputs stand"
            )
        location, called, runs = planned_in(plan, lake, limit)
        _end(Planned(location, called, runs), told, again, dry_run=dry_run)
        return
    from silva.redteam.attack import attacks
    from silva.redteam.plan import planned, undefended, with_defence
    from silva.redteam.searching import Search, checked
    from silva.rollout.config import RolloutConfig

    given = {"env": env or None, "run": name, "model": model, "agent": agent, "tools": tools or None}
    given |= {"lake": lake, "tasks.limit": limit}
    dotted = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    settings = load(RolloutConfig, config, [*dotted, *(overrides or [])])
    if resume and "run" not in settings.model_fields_set:
        raise UsageError("--resume needs the name of the plan: --run NAME")
    how: dict[str, Any] = {"rounds": tries, "width": width, "depth": depth, "patience": patience}
    if attacker and not attack:
        raise UsageError("--attacker searches for the words of an attack: name it, --attack SURFACE/FRAMING/GOAL")
    searches = [
        Search(attack=each.name, attacker=by, writer=attacker_model, **how)
        for by in attacker or ()
        for each in attacks(attack or [])
    ]
    defended = [with_defence(settings, each) for each in defence or ()]
    for each in searches:
        for one in (settings, *defended):
            checked(one, each)
    runs = planned(
        settings,
        attack or [],
        perturb or [],
        share=share,
        baseline=baseline,
        searched=bool(attacker),
        defences=defence or (),
    )
    played = [undefended(settings), *defended]
    _end(Planned(settings.lake, settings.run, runs, played, searches), told, again, dry_run=dry_run)


@app.command()
def report(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Of plans, or of runs that --attack made.")],
    lake: Location = None,
    html: Annotated[Path | None, typer.Option(help="Write one page here: scatter, map, every found failure.")] = None,
    conversations: Annotated[int, typer.Option(min=0, help="Attempts that the page shows turn by turn.")] = 60,
    most: Most = None,
    sarif: Sarif = None,
    junit: JUnit = None,
    as_json: AsJson = False,
) -> None:
    """Exposure, attack success, utility and safety of each attack, with intervals by task."""
    from silva.cli.redteam_show import held, tell, write_page
    from silva.lake import default_location

    told = tell(lake or default_location(), names, as_json)
    if html is not None:
        write_page(lake or default_location(), names, html, conversations)
    held(", ".join(names), told, most, sarif, junit)


app.command()(detect)
app.command()(explore)
app.command()(replay)
app.command()(matrix)


@dataclass(frozen=True)
class Planned:
    """What is to be played, by a plan's name: `runs` as they are, and `searches` under each of `settings`."""

    lake: str
    name: str
    runs: dict[str, Any]
    settings: Sequence[Any] = ()
    searches: Sequence[Any] = ()

    def listed(self) -> dict[str, Any]:
        """Its runs and what is done to the agent in each."""
        found: dict[str, Any] = {each: one.model_dump(mode="json")["stages"] for each, one in self.runs.items()}
        return found | {
            f"{each.name(self.name)}.r1 … r{each.rounds}": {"writer": each.writer} for each in self.searches
        }


@dataclass(frozen=True)
class Again:
    """Whether runs that the lake holds are gone on with, and whether what failed at no agent's doing is tried again."""

    resume: bool
    retry_failed: bool

    @property
    def retried(self) -> frozenset[str]:
        """The boundaries at which what failed is tried again."""
        return frozenset({"model", "budget", "infrastructure"} if self.retry_failed else ())


@dataclass(frozen=True)
class Outputs:
    """How what came of a plan is told, and the bar that it is held to."""

    most: float | None
    sarif: Path | None
    junit: Path | None
    as_json: bool


def _end(planned: Planned, outputs: Outputs, again: Again, *, dry_run: bool) -> None:
    """Play what was planned, tell what came of it, and hold it to its bar."""
    from silva.cli.redteam_show import held, tell

    if dry_run:
        listed = planned.listed()
        print_json(listed) if outputs.as_json else sys.stdout.write("".join(f"{each}\n" for each in listed))
        return
    left = asyncio.run(_play(planned, again))
    told = tell(planned.lake, [planned.name], outputs.as_json)
    if left:
        more = f"the same command with --run {planned.name} --resume continues"
        typer.echo(f"{left} episodes are left: {more}", err=True)
        raise typer.Exit(int(Exit.INCOMPLETE))
    held(planned.name, told, outputs.most, outputs.sarif, outputs.junit)


async def _play(planned: Planned, again: Again) -> int:
    from silva.cli.interrupting import heed_interrupts
    from silva.lake import Lake
    from silva.redteam.searching import search
    from silva.rollout.run import Hooks, run_rollout

    begun = set[str]()
    if again.resume:
        with Lake.open(planned.lake, mode="read") as opened:
            begun = {each.id for each in opened.runs()}

    async def play(config: Any, known: bool) -> int:
        typer.echo(f"{config.run} …", err=True)
        hooks = Hooks(
            on_start=lambda scheduler, ledger, total: heed_interrupts(scheduler),
            retry=again.retried if known else frozenset(),
        )
        return (await run_rollout(config, resume=known, hooks=hooks)).remaining

    for name, config in planned.runs.items():
        left = await play(config, name in begun)
        if left:
            return left
    for each in planned.searches:
        for one in planned.settings:
            typer.echo(f"{each.name(one.run)} …", err=True)
            left = await search(one, each, playing=play)
            if left:
                return left
    return 0
