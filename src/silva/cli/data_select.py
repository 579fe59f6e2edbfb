"""`silva data select`: the rows worth keeping, and of each why it is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli import data_score
from silva.cli.as_json import print_json
from silva.cli.config import load, render
from silva.errors import Exit, UsageError

if TYPE_CHECKING:
    from silva.curate.value.config import SelectConfig
    from silva.curate.value.sample import Samples


def select(
    source: data_score.Source = None,
    overrides: data_score.Overrides = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File: .jsonl or .parquet; of a lake a data set."),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Scorer that ranks; fused if none.")] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="How many rows to keep.")] = None,
    share: Annotated[float | None, typer.Option(help="Or which part of those that can be chosen.")] = None,
    method: Annotated[str | None, typer.Option(help="cluster, coverage, top or random.")] = None,
    duplicates: Annotated[str | None, typer.Option(help="What is a copy: none, exact, minhash or semantic.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of clusters and of what is drawn.")] = None,
    fates: Annotated[Path | None, typer.Option(help="File that says what became of every row.")] = None,
    config: data_score.ConfigFile = None,
    lake: data_score.LakePlace = None,
    where: data_score.Where = None,
    on: data_score.On = None,
    dry_run: data_score.DryRun = False,
    show_config: data_score.ShowConfig = False,
    force: data_score.Force = False,
    as_json: data_score.AsJson = False,
) -> int:
    """Choose rows: copies out, clusters by what they are about, quotas by their sizes, the best of each cluster."""
    from silva.curate.value.cache import cache_folder
    from silva.curate.value.config import SelectConfig
    from silva.curate.value.scoring import resolve, score
    from silva.curate.value.selection.output import facts, write_fates
    from silva.curate.value.selection.selecting import select as choose
    from silva.curate.value.source import samples_of
    from silva.curate.value.table import check_output

    words = data_score.told(
        source, overrides, by=by, keep=keep, share=share, method=method, duplicates=duplicates, seed=seed, lake=lake,
        where=where, on=on, output=str(output) if output else None,
    )  # fmt: skip
    settings = load(SelectConfig, config, words)
    if "scorers" not in settings.model_fields_set:
        settings = settings.model_copy(update={"scorers": (settings.by,)})
    if settings.by not in settings.scorers:
        raise UsageError(f"by={settings.by}: is none of the scorers that are asked ({', '.join(settings.scorers)})")
    if show_config:
        sys.stdout.write(render(settings))
        return Exit.OK
    if not settings.output and not dry_run:
        raise UsageError("where to? add --output FILE.jsonl")
    if settings.on != "here":
        return _past(settings, dry_run, as_json)
    for path in (Path(settings.output) if settings.output else None, fates):
        if path is not None:
            check_output(path, force=force)
    asked = [] if settings.method == "random" else resolve(settings.scorers, settings.options)
    samples, notes = samples_of(settings)
    if dry_run:
        return data_score.plan(settings, samples, asked, notes, as_json)
    scores = score(samples, asked, cache_folder(settings.cache), settings.workers, data_score.progress())
    worth = scores[settings.by].worth if scores else _equal(len(samples))
    selection = choose(samples, worth, settings)
    left = _write(settings, samples, selection, scores)
    if fates is not None:
        write_fates(fates, samples, selection)
    told: dict[str, Any] = facts(samples, selection, settings, scores) | {"unread": notes, "output": settings.output}
    if as_json:
        print_json(told)
        return Exit.OK
    typer.echo(
        f"{told['kept']} of {told['rows']} rows kept, by {settings.by if scores else 'chance'} ({settings.method})"
    )
    for fate, count in told["fates"].items():
        typer.echo(f"  {fate:<18} {count}")
    for each in scores.values():
        for why, count in each.unscored.most_common(3):
            typer.echo(f"  {each.name}: {count} not scored: {why}")
    if selection.size:
        typer.echo(f"  {len(selection.size)} clusters of {min(selection.size)} to {max(selection.size)} rows")
    data_score.warn([*notes, *left])
    typer.echo(f"written: {settings.output}")
    return Exit.OK


def _past(settings: SelectConfig, dry_run: bool, as_json: bool) -> int:
    """Select of a Lance table in parts, by Daft, into another."""
    from silva.curate.value.past import numbered, select_past
    from silva.curate.value.selection.output import facts, write_facts

    target = Path(settings.output)
    if target.suffix != ".lance" or target.exists():
        raise UsageError(f"on={settings.on}: name a folder NAME.lance with --output that is not there yet")
    if dry_run:
        return data_score.past(settings, True, as_json)
    table, selection, scores = select_past(settings, str(target))
    told = facts(numbered(table, settings), selection, settings, scores)
    write_facts(target, told)
    if as_json:
        print_json(told)
    else:
        typer.echo(f"{told['kept']} of {told['rows']} rows kept, on {settings.on}")
        typer.echo(f"written: {settings.output}")
    return Exit.OK


def _equal(count: int) -> Any:
    import numpy as np

    return np.zeros(count)


def _write(settings: SelectConfig, samples: Samples, selection: Any, scores: Any) -> list[str]:
    """Write rows of a file as rows, trajectories of a lake as a data set that `silva train` reads."""
    from silva.curate.value.selection.output import facts, provenance, write_facts, write_objects, write_selection

    path = Path(settings.output)
    if Path(settings.source).exists() or not samples.rows:
        write_selection(path, samples, selection, settings, scores)
        return []
    from silva.lake import Lake
    from silva.train.data.dataset import DataSet, write_dataset
    from silva.train.data.entries import read_entries

    if path.suffix != ".jsonl":
        raise UsageError(f"{path.name}: trajectories of a lake become a data set; name a .jsonl file")
    rows = [samples.rows[int(place)] for place in selection.kept]
    kept = {row.id for row in rows}
    with Lake.open(settings.lake, mode="read") as lake:
        runs = sorted({row.trajectory.run_id for row in rows if row.trajectory is not None})
        entries = [each for each in read_entries(lake, runs, key="task") if each.trajectory_id in kept]
    how = f"select by={settings.by} method={settings.method} seed={settings.seed}"
    write_dataset(path, DataSet(part="train", entries=tuple(entries), made=how), replace=True)
    why = [
        {"id": samples.rows[int(place)].id, **provenance(selection, settings, scores, int(place))}
        for place in selection.kept
    ]
    write_objects(path.with_suffix(".selected.jsonl"), why)
    write_facts(path, facts(samples, selection, settings, scores))
    lost = len(kept) - len(entries)
    return [f"{lost} kept trajectories failed or have no score, so the data set does not hold them"] if lost else []
