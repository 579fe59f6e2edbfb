"""`silva data score|scorers`: what each row is worth, by scorers whose scores are kept."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.config import load, render
from silva.errors import Exit, SilvaError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silva.curate.value.config import ScoreConfig
    from silva.curate.value.sample import Samples
    from silva.curate.value.scoring import Scores

Source = Annotated[str | None, typer.Argument(help="A file, a run, or a query of the lake.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Dotted overrides of the config, such as options.ifd.tokens=512.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML or TOML file.")]
LakePlace = Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")]
Where = Annotated[str | None, typer.Option(help="Which trajectories of the lake: score >= 0.5 and turns < 10.")]
On = Annotated[str | None, typer.Option(help="here, daft, or daft:ray://HOST (extra daft): a Lance table in parts.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be asked; compute and write nothing.")]
ShowConfig = Annotated[bool, typer.Option("--show-config", help="Print the whole configuration and stop.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]

_OVERRIDE = re.compile(r"[a-z_]+(\.[\w-]+)*=\S.*")


def score(
    source: Source = None,
    overrides: Overrides = None,
    scorer: Annotated[list[str] | None, typer.Option(help="Scorer to ask; repeat for several; fused if none.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File: .parquet or .jsonl.")] = None,
    config: ConfigFile = None,
    lake: LakePlace = None,
    where: Where = None,
    on: On = None,
    dry_run: DryRun = False,
    show_config: ShowConfig = False,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Score rows by themselves: likelihood, difficulty, quality, outcome, risk. What was scored before is not again."""
    from silva.curate.value.cache import cache_folder
    from silva.curate.value.config import ScoreConfig
    from silva.curate.value.scoring import resolve
    from silva.curate.value.scoring import score as score_all
    from silva.curate.value.source import samples_of
    from silva.curate.value.table import check_output, write_scores

    words = told(
        source, overrides, lake=lake, where=where, scorers=scorer, on=on, output=str(output) if output else None
    )
    settings = load(ScoreConfig, config, words)
    if show_config:
        sys.stdout.write(render(settings))
        return Exit.OK
    if settings.output:
        check_output(Path(settings.output), force=force)
    if settings.on != "here":
        return past(settings, dry_run, as_json)
    asked = resolve(settings.scorers, settings.options)
    samples, notes = samples_of(settings)
    if dry_run:
        return plan(settings, samples, asked, notes, as_json)
    made = score_all(samples, asked, cache_folder(settings.cache), settings.workers, progress())
    if settings.output:
        write_scores(Path(settings.output), samples, made)
    return _end(settings, made, len(samples), notes, as_json)


def _end(settings: ScoreConfig, made: dict[str, Scores], rows: int, notes: list[str], as_json: bool) -> int:
    facts = [summary(each) for each in made.values()]
    if as_json:
        print_json({"rows": rows, "unread": notes, "scorers": facts, "output": settings.output or None})
    else:
        _show(facts, rows, notes)
        if settings.output:
            typer.echo(f"written: {settings.output}")
    if all(not fact["scored"] for fact in facts):
        raise UsageError(f"no row has a score: {next(iter(facts[-1]['unscored']), 'there is none')}")
    return Exit.OK


def past(settings: ScoreConfig, dry_run: bool, as_json: bool) -> int:
    """Score a Lance table in parts, by Daft."""
    from silva.curate.daft.frame import Frame
    from silva.curate.value.past import numbered, score_past
    from silva.curate.value.scoring import resolve
    from silva.curate.value.table import write_scores

    if dry_run:
        asked = resolve(settings.scorers, settings.options)
        columns = Frame(settings.source, settings.on).columns
        told = {"source": settings.source, "on": settings.on, "columns": columns, "scorers": [e.name for e in asked]}
        print_json(told) if as_json else typer.echo(f"{settings.source}: would be scored on {settings.on}")
        return Exit.OK
    table, made = score_past(settings)
    if settings.output:
        write_scores(Path(settings.output), numbered(table, settings), made)
    return _end(settings, made, table.num_rows, [], as_json)


def scorers(as_json: AsJson = False) -> int:
    """List the scorers, and which of them can score here as they stand."""
    from silva.curate.value.scorer import SetScorer, make
    from silva.curate.value.scorer import scorers as known

    rows: list[dict[str, Any]] = []
    for name, made in known().items():
        parts = made.parts if issubclass(made, SetScorer) else ()
        lacks = [why for each in (name, *parts) if (why := _lack(lambda each=each: make(each).check()))]
        rows.append(
            {"name": name, "needs": made.need.value, "summary": made.summary, "lacks": lacks[0] if lacks else ""}
        )
    if as_json:
        print_json(rows)
        return Exit.OK
    for row in rows:
        typer.echo(f"{row['name']:<18} {'' if not row['lacks'] else '(needs more) '}{row['summary']}")
    return Exit.OK


def told(source: str | None, overrides: list[str] | None, **options: Any) -> list[str]:
    """The words of a command as overrides of its configuration. A first word that is an override names no source."""
    words = list(overrides or ())
    if source is not None and _OVERRIDE.fullmatch(source) and not Path(source).exists():
        words.insert(0, source)
    elif source is not None:
        words.append(f"source={json.dumps(source)}")
    words += [f"{name}={json.dumps(value)}" for name, value in options.items() if value is not None]
    return words


def plan(settings: ScoreConfig, samples: Samples, asked: Sequence[Any], notes: list[str], as_json: bool) -> int:
    """Say what would be asked of whom."""
    from silva.curate.value.cache import cache_folder
    from silva.curate.value.scorer import Scorer
    from silva.curate.value.scoring import due

    rows: list[dict[str, Any]] = []
    for each in asked:
        if isinstance(each, Scorer) and each.kept:
            todo = due(samples, each, cache_folder(settings.cache))
            counts = {"known": len(todo.known), "lacking": len(todo.lacking), "to_ask": len(todo.asked)}
        else:
            counts = {"known": 0, "lacking": 0, "to_ask": len(samples)}
        rows.append({"scorer": each.name, "identity": each.identity(), **counts})
    if as_json:
        print_json({"rows": len(samples), "unread": notes, "scorers": rows})
        return Exit.OK
    typer.echo(f"{len(samples)} rows of {settings.source}")
    for row in rows:
        typer.echo(
            f"  {row['scorer']:<18} {row['to_ask']} to ask, {row['known']} known, {row['lacking']} lack what it needs"
        )
    warn(notes)
    typer.echo("nothing was computed")
    return Exit.OK


def summary(scores: Scores) -> dict[str, Any]:
    """What a scorer said, in numbers."""
    import numpy as np

    values = scores.values[~np.isnan(scores.values)]
    spread = (
        {
            name: float(value)
            for name, value in zip(("least", "middle", "most"), np.quantile(values, (0, 0.5, 1)), strict=True)
        }
        if len(values)
        else {}
    )
    return {
        "name": scores.name,
        "identity": scores.identity,
        "scored": len(values),
        **spread,
        "unscored": dict(scores.unscored.most_common()),
        "remarks": dict(scores.remarks.most_common()),
        "known": scores.known,
        "asked": scores.asked,
        "seconds": round(scores.seconds, 3),
    }


def progress() -> Any:
    """Tells on standard error how it goes, where a person looks."""
    if not sys.stderr.isatty():
        return None
    last = [0.0]

    def tell(name: str, done: int, total: int) -> None:
        if done == total or time.monotonic() - last[0] > 0.5:
            last[0] = time.monotonic()
            sys.stderr.write(f"\r{name}: {done} of {total}" + ("\n" if done == total else ""))

    return tell


def warn(notes: list[str]) -> None:
    """Say which rows could not be read."""
    for note in notes[:5]:
        sys.stderr.write(f"warning: {note}\n")
    if len(notes) > 5:
        sys.stderr.write(f"warning: {len(notes) - 5} more rows could not be read\n")


def _show(facts: list[dict[str, Any]], rows: int, notes: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("scorer", "scored", "least", "middle", "most", "kept", "asked", "seconds")
    for fact in facts:
        spread = (f"{fact[name]:.3g}" if name in fact else "–" for name in ("least", "middle", "most"))
        counts = str(fact["known"]), str(fact["asked"]), f"{fact['seconds']:.1f}"
        table.add_row(fact["name"], f"{fact['scored']} of {rows}", *spread, *counts)
    Console().print(table)
    for fact in facts:
        for word in ("unscored", "remarks"):
            for why, count in list(fact[word].items())[:4]:
                typer.echo(f"{fact['name']}: {count} {'not scored: ' if word == 'unscored' else ''}{why}")
    warn(notes)


def _lack(check: Any) -> str:
    try:
        check()
    except SilvaError as error:
        return str(error)
    return ""
