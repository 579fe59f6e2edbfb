"""`silva curate rows`: masked rows for supervised training, with the ids the model saw."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError

ROWS = "rows"


def rows(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format", "-f", help="rows (JSON lines that can be read), silva, trl-sft, or another trainer's."
        ),
    ] = ROWS,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    run: Annotated[list[str] | None, typer.Option("--run", help="Of this run; may be said again.")] = None,
    env: Annotated[str | None, typer.Option(help="Of this environment.")] = None,
    where: Annotated[str | None, typer.Option(help="For example: score >= 0.5 and turns < 10.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Take trajectories that failed, too.")] = False,
    actions: Annotated[int, typer.Option(min=0, help="How often a row of actions counts (the paper: 7).")] = 1,
    summaries: Annotated[int, typer.Option(min=0, help="How often a row of a summary counts (the paper: 10).")] = 1,
    masking: Annotated[bool, typer.Option("--masking/--no-masking", help="Leave out what supervision masks.")] = True,
    takeovers: Annotated[
        bool, typer.Option("--takeovers", help="Actions that people took in the policy's place carry loss, too.")
    ] = False,
    inexact: Annotated[
        str, typer.Option(help="skip, by name, or refuse trajectories whose tokens are not known.")
    ] = "skip",
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Only this model's turns are the policy's; may be said again.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> int:
    """Turn long runs into rows: the walk before each summary and the last one, with loss on kept actions; and each
    summary, with loss on it alone."""
    from silva.lake import Lake, default_location, parse
    from silva.train.left_out import left_out
    from silva.train.row_file import write_rows
    from silva.train.rows import Copies, read_rows
    from silva.train.writers import Options, find, ready, write

    known = format_ == ROWS
    if not known:
        find(format_)
    if output is None:
        raise UsageError(f"where to? add --output FILE{'.jsonl' if known else find(format_).endings[0]}")
    if known and output.suffix != ".jsonl":
        raise UsageError(f"{output.name}: a file of rows ends in .jsonl")
    if known and output.exists() and not force:
        raise UsageError(f"{output.name}: is there already; add --force to replace it")
    if not known:
        ready(format_, output, force=force)
    if inexact not in ("refuse", "skip"):
        raise UsageError(f"--inexact {inexact!r}: give refuse or skip")
    copies = Copies(actions=actions, summary=summaries)
    condition = parse(where) if where else None
    with Lake.open(lake or default_location(), mode="read") as opened:
        chosen: list[Any] = []
        for name in dict.fromkeys(run or [None]):
            found = opened.trajectories(run_id=name, env=env, where=condition)
            if name is not None and not found and opened.run(name) is None:
                raise UsageError(f"lake {opened.location}: has no run {name}; see `silva trees list`")
            chosen += found
        if not chosen:
            raise UsageError("no trajectory meets the conditions; nothing was written")
        policy = frozenset(model) if model else None
        made = read_rows(
            opened,
            chosen,
            masking=masking,
            takeovers=takeovers,
            inexact=inexact,  # pyright: ignore[reportArgumentType]
            failed=failed,
            models=policy,
        )
    copied = made.copied(copies)
    if not copied:
        why = f"{made.failed} failed, {len(made.inexact)} inexact, {made.without_loss} rows without loss"
        raise UsageError(f"{len(chosen)} trajectories gave no row; nothing was written ({why})")
    count = (
        write_rows(output, made, copies, force=force) if known else write(format_, output, copied, Options(force=force))
    )
    counts = {
        "format": format_,
        "rows": count,
        "actions": sum(row.kind == "actions" for row in made.rows),
        "summaries": sum(row.kind == "summary" for row in made.rows),
        "copies": {"actions": actions, "summary": summaries},
        "trajectories": made.trajectories,
        "ids": sum(map(len, copied)),
        "with_loss": sum(int(each.mask.sum()) for each in copied),
        "drawn": made.drawn,
        "masked": made.masked,
        "failed": made.failed,
        "superseded": made.superseded,
        "inexact": len(made.inexact),
        "without_loss": made.without_loss,
    }
    typer.echo(left_out(made.inexact), err=True, nl=False)
    if as_json:
        print_json(counts)
        return Exit.OK
    share = f" ({made.masked / made.drawn:.1%})" if made.drawn else ""
    typer.echo(
        f"{count} rows ({counts['actions']} of actions x {actions}, {counts['summaries']} of summaries x {summaries}) "
        f"of {made.trajectories} trajectories as {format_}: {counts['ids']} ids, {counts['with_loss']} with loss"
    )
    typer.echo(f"of {made.drawn} ids that were drawn {made.masked} are masked{share}")
    told = [f"{counts[name]} {name}" for name in ("failed", "superseded", "inexact", "without_loss") if counts[name]]
    if told:
        typer.echo(f"left out: {', '.join(told).replace('_', ' ')}", err=True)
    return Exit.OK
