"""`silva data clean`: rows dropped, redacted or masked by what an audit finds in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit


def clean(
    source: Annotated[str, typer.Argument(metavar="RUN|FILE|QUERY", help="A run, a file, or a query over the lake.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write (.jsonl); two more stand beside it.")],
    findings: Annotated[
        list[Path] | None, typer.Option(help="Findings that silva audit wrote; else the source is audited now.")
    ] = None,
    on: Annotated[
        list[str] | None, typer.Option(help="What is done: RISK=drop, redact, mask or keep; may be said again.")
    ] = None,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    where: Annotated[str | None, typer.Option(help="Which trajectories of the lake: score >= 0.5.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The most rows.")] = None,
    checker: Annotated[
        list[str] | None, typer.Option(help="A checker, a family or a risk; -NAME leaves it out; all if none.")
    ] = None,
    model: Annotated[str, typer.Option(help="Model that judges, too: http(s)://HOST/v1#NAME, …")] = "",
    alarms: Annotated[
        str, typer.Option(help="Share of clean rows that all checkers together may flag, or own.")
    ] = "0.05",
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> int:
    """Drop, redact or mask rows by findings; what touched which row stands beside, and so do the rows left out."""
    from silva.cli.audit import shared_alarms
    from silva.curate.audit.cleaning import action_of
    from silva.curate.audit.cleaning import clean as tidy

    actions = dict(action_of(each) for each in on or ())
    if findings:
        from silva.curate.audit.keeping import read_findings

        found = read_findings(findings)
    else:
        from silva.curate.audit.checker import Settings
        from silva.curate.audit.config import AuditConfig
        from silva.curate.audit.running import Begun

        settings = AuditConfig(
            source=source,
            lake=lake or "",
            where=where or "",
            limit=limit,
            checkers=tuple(checker or ()),
            alarms=shared_alarms(alarms),
            settings=Settings(model=model),
            write=False,
        )
        found = Begun(settings).run()[0].findings
    done = tidy(source, found, output, actions=actions, lake=lake, where=where, limit=limit, force=force, dry=dry_run)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(done))
        return Exit.OK
    typer.echo(
        f"{done.rows} rows: {done.kept} kept ({done.redacted} redacted, {done.masked} masked), {done.dropped} dropped"
    )
    for why, times in done.reasons.items():
        typer.echo(f"  {times} dropped: {why}")
    if done.unread:
        typer.echo(f"{done.unread} lines could not be read", err=True)
    typer.echo("nothing was written" if dry_run else f"{output}; beside it what was dropped, and the lineage")
    return Exit.OK
