"""`silva data split|mix|upsample|check|score|scorers|select|clean|release|verify`: data that is trained on, judged by,
chosen, given to others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli import data_release
from silva.cli.as_json import print_json
from silva.cli.data_clean import clean as clean_command
from silva.cli.data_score import score, scorers
from silva.cli.data_select import select
from silva.errors import Exit, UsageError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Data sets: split, mix, upsample, check, score, select."
)

app.command()(data_release.release)
app.command()(data_release.verify)

Seed = Annotated[int, typer.Option(help="Seed of what is drawn.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]


@app.command()
def split(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for one file a part.")],
    lake: Annotated[str, typer.Option(envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix.")] = "lake",
    run: Annotated[list[str] | None, typer.Option(help="Run to take; repeat for several; all if none.")] = None,
    parts: Annotated[str, typer.Option(help="Parts and their shares.")] = "train=0.8,dev=0.1,test=0.1",
    key: Annotated[
        str, typer.Option(help="What must stay together: task, question, tag, data.FIELD or id:REGEX.")
    ] = "task",
    where: Annotated[str | None, typer.Option(help="Which trajectories: score >= 0.5 and turns < 10.")] = None,
    success: Annotated[bool, typer.Option("--success", help="Only those that succeeded.")] = False,
    seed: Seed = 0,
    force: Force = False,
) -> int:
    """Split the trajectories of runs into parts that share no task; exit code 1 where two tasks ask the same."""
    from silva.lake import Lake
    from silva.lake.where import parse
    from silva.train.data.dataset import write_datasets
    from silva.train.data.entries import read_entries
    from silva.train.data.leak import leaks
    from silva.train.data.split import check_shares
    from silva.train.data.split import split as divide

    shares = {name: share for name, share in (_share(part) for part in parts.split(","))}
    check_shares(shares)
    reading = Lake.open(lake, mode="read")
    condition = parse(where) if where else None
    entries = read_entries(reading, run or (), key=key, where=condition, success=success)
    made = divide(entries, shares, seed)
    found = leaks(made)
    if found:
        return _tell(found, f"nothing was written: split with --key {'task' if key == 'question' else 'question'}")
    how = f"split key={key} parts={parts} seed={seed}"
    write_datasets({output / f"{name}.jsonl": _noted(each, how) for name, each in made.items()}, replace=force)
    for name, each in made.items():
        _say(output / f"{name}.jsonl", each)
    return Exit.OK


@app.command()
def mix(
    sets: Annotated[list[str], typer.Argument(help="Data sets and their ratios: a.jsonl=3 b.jsonl=1.")],
    output: Output,
    size: Annotated[
        int | None, typer.Option(min=1, help="Trajectories in all; the most without repeating if none.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
) -> int:
    """Mix data sets of one part by ratio."""
    from silva.train.data.dataset import part_of, read_dataset, write_dataset
    from silva.train.data.mix import mix as blend

    named = [_ratio(text) for text in sets]
    if len(named) < 2:
        raise UsageError("mix: name at least two data sets, such as a.jsonl=3 b.jsonl=1")
    read = [read_dataset(path) for path, _ in named]
    part_of(read, [path for path, _ in named])
    made = blend(read, [ratio for _, ratio in named], size, seed)
    write_dataset(output, _noted(made, f"mix {' '.join(sets)} seed={seed}"), replace=force)
    _say(output, made)
    return Exit.OK


@app.command()
def upsample(
    dataset: Annotated[Path, typer.Argument(help="Data set.")],
    output: Output,
    factor: Annotated[float, typer.Option(help="How many times as often what is picked counts.")],
    rule: Annotated[str, typer.Option(help="What is picked: env = babyai and turns > 10, or task_id ~ GoTo.")],
    weigh: Annotated[bool, typer.Option("--weigh", help="Multiply weights in the loss instead of copies.")] = False,
    seed: Seed = 0,
    force: Force = False,
) -> int:
    """Let the trajectories that a rule picks count more often, or more."""
    from silva.train.data.dataset import read_dataset, write_dataset
    from silva.train.data.upsample import rule_of
    from silva.train.data.upsample import upsample as grow

    made = grow(read_dataset(dataset), factor, rule_of(rule), weigh=weigh, seed=seed)
    how = f"upsample factor={factor:g} rule={rule}" + (" weigh" if weigh else "")
    write_dataset(output, _noted(made, how), replace=force)
    _say(output, made)
    return Exit.OK


@app.command()
def check(
    sets: Annotated[list[Path], typer.Argument(help="Data sets that must share nothing.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print what is shared as JSON.")] = False,
) -> int:
    """See that data sets share no task and no first question; exit code 1 and the names where they do."""
    import msgspec

    from silva.train.data.dataset import read_dataset
    from silva.train.data.leak import leaks

    if len(sets) < 2:
        raise UsageError("check: name at least two data sets")
    named = {str(path): read_dataset(path) for path in sets}
    if len(named) < len(sets):
        raise UsageError("check: a data set is named twice; it shares everything with itself")
    found = leaks(named)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return Exit.FAULT if found else Exit.OK
    if found:
        return _tell(found, "these sets are not apart")
    sys.stdout.write(f"{len(sets)} data sets share no task and no first question\n")
    return Exit.OK


app.command("clean")(clean_command)
app.command()(score)
app.command()(scorers)
app.command()(select)


def _tell(found: list[Any], conclusion: str) -> int:
    for leak in found:
        sys.stdout.write(f"{leak}\n")
    sys.stderr.write(f"error: {len(found)} leaks: {conclusion}\n")
    return Exit.FAULT


def _share(text: str) -> tuple[str, float]:
    name, _, share = text.partition("=")
    try:
        return name.strip(), float(share)
    except ValueError:
        raise UsageError(f"parts: {text!r} is no part and its share, such as train=0.8") from None


def _ratio(text: str) -> tuple[Path, float]:
    path, sign, ratio = text.rpartition("=")
    if not sign:
        return Path(text), 1.0
    try:
        return Path(path), float(ratio)
    except ValueError:
        raise UsageError(f"mix: {text!r} is no data set and its ratio, such as a.jsonl=3") from None


def _noted(dataset: Any, how: str) -> Any:
    import msgspec

    return msgspec.structs.replace(dataset, made=f"{dataset.made}; {how}" if dataset.made else how)


def _say(path: Path, dataset: Any) -> None:
    tasks = len({entry.task for entry in dataset.entries})
    sys.stdout.write(f"{path}: {len(dataset)} trajectories of {tasks} tasks\n")
