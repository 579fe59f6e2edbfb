"""`silva curate …`: which turns are worth learning, who says so, how far they agree, the rows and pairs they make;
source that makes data; who looks at data, and how often each is wrong."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from silva.cli.as_json import print_json
from silva.cli.config import load, render
from silva.cli.curate_checkers import calibrate as calibrate_command
from silva.cli.curate_checkers import checkers as checkers_command
from silva.cli.curate_corpora import corpora as corpora_command
from silva.cli.curate_corpora import heads as heads_command
from silva.cli.curate_curation import app as curation_app
from silva.cli.curate_pairs import pairs as pairs_command
from silva.cli.curate_pairs import value_head as value_head_command
from silva.cli.curate_ratings import ratings as ratings_command
from silva.cli.curate_rows import rows as rows_command
from silva.cli.curate_signals import signals as signals_command
from silva.errors import Exit, UsageError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Judge what was grown: mask turns not worth learning."
)

AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
LakePlace = Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")]
Runs = Annotated[list[str] | None, typer.Option(help="Run to judge; repeat for several.")]


@app.command()
def mask(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as judge.window=6.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML or TOML file.")] = None,
    lake: LakePlace = None,
    run: Runs = None,
    rule: Annotated[list[str] | None, typer.Option(help="Rule to ask; repeat for several; all if none.")] = None,
    judge: Annotated[str | None, typer.Option(help="Model that judges too: local, http(s)://HOST/v1#NAME, …")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be masked; write nothing.")] = False,
    show_config: Annotated[bool, typer.Option("--show-config", help="Print the whole configuration and stop.")] = False,
    as_json: AsJson = False,
) -> int:
    """Let symbolic rules, and a model if one is given, say which turns carry no loss."""
    from silva.curate.mask.config import MaskConfig
    from silva.curate.mask.masking import mask as judge_runs

    words = list(overrides or ())
    words += [f"lake={json.dumps(lake)}"] if lake is not None else []
    words += [f"run={json.dumps(run)}"] if run else []
    words += [f"rules={json.dumps(rule)}"] if rule else []
    words += [f"judge.model={json.dumps(judge)}"] if judge is not None else []
    if not run and config is None and not any(word.startswith("run=") for word in words):
        raise UsageError("name a run to judge: --run NAME; see `silva trees list`")
    settings = load(MaskConfig, config, words)
    if show_config:
        sys.stdout.write(render(settings))
        return Exit.OK
    done = asyncio.run(judge_runs(settings, dry=dry_run))
    if as_json:
        typer.echo(done.model_dump_json())
    else:
        share = f" ({done.masked / done.turns:.1%})" if done.turns else ""
        typer.echo(f"{done.trajectories} trajectories, {done.turns} turns: {done.masked} masked{share}")
        for name, count in done.by.items():
            typer.echo(f"  {name:<20} {count}")
        if settings.judge.model:
            typer.echo(f"  judged {done.judged}, unjudged {done.unjudged}")
        typer.echo("nothing was written" if dry_run else f"{done.written} new judgements in lake {settings.lake}")
    for why in done.failures:
        sys.stderr.write(f"warning: {why}\n")
    return Exit.INCOMPLETE if done.unjudged else Exit.OK


@app.command()
def agreement(lake: LakePlace = None, run: Runs = None, as_json: AsJson = False) -> int:
    """How far rules, judges and people agree on the turns of runs."""
    from silva.curate.mask.agreement import agreement as compare
    from silva.lake import open_lake

    with open_lake(lake, mode="read") as opened:
        known = {each.id for each in opened.runs()}
        for name in run or ():
            if name not in known:
                raise UsageError(f"lake {opened.location}: has no run {name!r}; see `silva trees list`")
        pairs = compare(opened, run or sorted(known))
    if as_json:
        print_json([pair.model_dump() for pair in pairs])
        return Exit.OK
    if not pairs:
        typer.echo("nobody has judged the same turns as anybody else")
        return Exit.OK
    from rich.console import Console
    from rich.table import Table

    table = Table("", "against", "turns", "agree", "kappa", "precision", "recall")
    for pair in pairs:
        shown = ("–" if value is None else f"{value:.2f}" for value in (pair.kappa, pair.precision, pair.recall))
        table.add_row(pair.left, pair.right, str(pair.turns), f"{pair.agree:.2f}", *shown)
    Console().print(table)
    return Exit.OK


@app.command()
def rules() -> int:
    """List the symbolic rules."""
    from silva.curate.mask.rules import rules as known

    for rule in known():
        typer.echo(f"{rule.name:<20} {rule.summary}")
    return Exit.OK


app.command("rows")(rows_command)
app.command("ratings")(ratings_command)
app.command("signals")(signals_command)
app.command("pairs")(pairs_command)
app.command("value-head")(value_head_command)
app.command("checkers")(checkers_command)
app.command("calibrate")(calibrate_command)
app.command("corpora")(corpora_command)
app.command("heads")(heads_command)
app.add_typer(curation_app, name="curation")
