"""`silva audit RUN|FILE|QUERY`: what is wrong with data, who says so, and how often they are wrong themselves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.config import load, render
from silva.errors import Exit, UsageError

app = typer.Typer(add_completion=False)


@app.command()
def audit(
    source: Annotated[str, typer.Argument(metavar="RUN|FILE|QUERY", help="A run, a file, or a query over the lake.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as settings.parallel=8.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML or TOML file.")] = None,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    where: Annotated[str | None, typer.Option(help="Which trajectories of the lake: score >= 0.5.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The most rows.")] = None,
    checker: Annotated[
        list[str] | None,
        typer.Option(help="A checker, a family or a risk; -NAME leaves it out; may be said again; all if none."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model that judges, too: http(s)://HOST/v1#NAME, …")] = None,
    alarms: Annotated[
        str | None, typer.Option(help="Share of clean rows that all checkers together may flag, or own.")
    ] = None,
    cards: Annotated[Path | None, typer.Option(help="Folder of cards instead of the package's.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that share the rules' work.")] = None,
    on: Annotated[
        str | None, typer.Option(help="here, daft, or daft:ray://HOST (extra daft): a Lance table in parts.")
    ] = None,
    findings: Annotated[Path | None, typer.Option(help="Append findings and verdicts here, as JSON lines.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report here, as one page.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the report here, as Markdown.")] = None,
    sarif: Annotated[Path | None, typer.Option(help="Write every finding here, as SARIF 2.1.0.")] = None,
    most: Annotated[
        list[str] | None,
        typer.Option(help="End with code 1 above it: RISK=SHARE of the rows checked, or flagged=SHARE."),
    ] = None,
    least_score: Annotated[float | None, typer.Option(help="End with code 1 below this safety score.")] = None,
    write: Annotated[bool, typer.Option("--write/--no-write", help="Append findings to the lake.")] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say who would look and how strictly; read one row.")
    ] = False,
    show_config: Annotated[bool, typer.Option("--show-config", help="Print the whole configuration and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> int:
    """Audit data for thirteen risks, and walks of agents for evidence; every verdict has a measured error."""
    from silva.curate.audit.config import AuditConfig

    words = [f"source={json.dumps(source)}", *(overrides or ())]
    given: dict[str, Any] = {
        "lake": lake,
        "where": where,
        "limit": limit,
        "checkers": checker or None,
        "settings.model": model,
        "alarms": shared_alarms(alarms),
        "cards": None if cards is None else str(cards),
        "workers": workers,
        "on": on,
        "write": None if write else False,
    }
    words += [f"{name}={json.dumps(value)}" for name, value in given.items() if value is not None]
    words += ["alarms=null"] if alarms == "own" else []
    settings = load(AuditConfig, config, words)
    bars = [_bar(each) for each in most or ()]
    if show_config:
        sys.stdout.write(render(settings))
        return Exit.OK
    from silva.curate.audit.running import Begun

    begun = Begun(settings)
    if dry_run:
        begun.look()
        return _plan(begun, as_json)
    done, new = begun.run()
    beside = findings or next((each.with_suffix(".findings.jsonl") for each in (html, markdown) if each), None)
    told = _write(done, beside, html, markdown, sarif)
    if as_json:
        from silva.curate.audit.report import figures

        print_json({**figures(done), "new_in_lake": new})
    else:
        _print(done)
        told += [f"{new} new records in lake {begun.lake}"] if new else []
    for line in told:
        typer.echo(line, err=True)
    return _held(done, bars, least_score)


def _plan(begun: Any, as_json: bool) -> int:
    from silva.curate.audit.thresholds import fitting

    limits = begun.thresholds
    if as_json:
        import msgspec

        print_json({"thresholds": msgspec.to_builtins(limits), "missing": begun.missing})
        return Exit.OK
    for each in begun.checkers:
        why = begun.missing.get(each.name)
        card = "no card" if fitting(each, begun.cards) is None else f"detects from {limits.at[each.name]:.3g}"
        typer.echo(f"{each.name:<24} {each.risk:<22} {each.family.value:<8} {f'not asked: {why}' if why else card}")
    if limits.alarms is not None:
        from silva.report.wording import bounds, percent

        typer.echo(
            f"of clean rows {percent(limits.alarms.value)} {bounds(limits.alarms)} would be flagged by all together"
        )
    typer.echo("nothing was audited and nothing was written")
    return Exit.OK


def _print(done: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    from silva.curate.audit.report import axes, summary_lines
    from silva.curate.audit.risks import RISKS
    from silva.report.wording import bounds, percent

    table = Table(box=None, pad_edge=False)
    for place, head in enumerate(("risk", "checked", "detected", "recall", "false alarms", "corrected share")):
        table.add_column(head, justify="left" if not place else "right", overflow="fold")
    for each in done.prevalences:
        known = each.corrected
        share = each.why if known is None else f"{percent(known.value)} {bounds(known)}"
        table.add_row(
            RISKS[each.risk].title,
            f"{each.checked}/{each.rows}",
            str(each.detected),
            percent(each.recall),
            percent(each.false_alarms),
            share,
        )
    console = Console()
    console.print(table)
    if done.score.unchecked:
        console.print(f"not checked: {', '.join(done.score.unchecked)}", highlight=False)
    for (origin, failure, harm), count in axes(done.diagnoses):
        console.print(f"walks: {count}: {origin} → {failure} → {harm}", highlight=False)
    for line in summary_lines(done):
        console.print(line, highlight=False, markup=False)


def _write(done: Any, beside: Path | None, html: Path | None, markdown: Path | None, sarif: Path | None) -> list[str]:
    from silva.curate.audit import report
    from silva.curate.audit.keeping import keep_in_file
    from silva.report.write import save

    told: list[str] = []
    for path, make in ((html, report.html), (markdown, report.markdown)):
        if path is not None:
            save(make(done), path)
            told.append(f"report: {path}")
    if sarif is not None:
        save(json.dumps(report.sarif(done), indent=2), sarif)
        told.append(f"SARIF: {sarif}")
    if beside is not None:
        told.append(f"findings: {beside} ({keep_in_file(beside, done)} new lines)")
    return told


def shared_alarms(text: str | None) -> float | None:
    """`--alarms` as the share that all checkers together may flag; None for `own`, or where nothing is said.

    Raises:
        UsageError: it is neither.
    """
    if text in (None, "own"):
        return None
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"--alarms {text!r}: give a share such as 0.05, or own")
    return share


def _bar(text: str) -> tuple[str, float]:
    from silva.curate.audit.risks import known_risk

    name, _, share = text.partition("=")
    try:
        value = float(share)
    except ValueError:
        raise UsageError(f"--most {text!r}: write it as RISK=SHARE, such as secret=0 or flagged=0.05") from None
    return (name if name == "flagged" else known_risk(name).name), value


def _held(done: Any, bars: list[tuple[str, float]], least: float | None) -> int:
    """Hold an audit to its bars; what was not checked meets none."""
    failed: list[str] = []
    by_risk = {each.risk: each for each in done.prevalences}
    for name, most in bars:
        found = by_risk.get(name)
        share = done.flagged / done.rows if name == "flagged" else None if found is None else found.raw
        if share is None:
            failed.append(f"{name} was not checked, so it cannot be said to be at most {most:.1%}")
        elif share > most:
            failed.append(f"{name}: {share:.1%} detected, at most {most:.1%} may be")
    if least is not None:
        score = done.score.corrected
        if score is None:
            failed.append("the safety score is not known, for no checker that was asked has a card")
        elif score.value < least:
            failed.append(f"safety score {score.value:.3f}, at least {least:.3f} is wanted")
    for line in failed:
        typer.echo(f"error: {line}", err=True)
    return Exit.FAULT if failed else Exit.OK
