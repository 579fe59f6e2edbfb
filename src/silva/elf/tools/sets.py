"""Data sets of trajectories: split by task, mixed, weighed, checked for what they share (`silva.train.data`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from silva.elf.artefact import Figures, Parts, Table, Trajectories
from silva.elf.tool import Permission, tool
from silva.errors import UsageError
from silva.train.data.dataset import DataSet, dataset_file, part_of, read_dataset
from silva.train.data.leak import leaks
from silva.train.data.mix import mix as mix_sets
from silva.train.data.split import split as split_by_task
from silva.train.data.upsample import rule_of, upsample

_Paths = Annotated[tuple[str, ...], Meta(min_length=2, description="files that silva data wrote")]


@tool(asks=("split", "train test", "train dev test", "divide", "hold out", "partition", "held out part"))
def split_set(
    trajectories: Trajectories,
    shares: Annotated[dict[str, float], Meta(description="parts and their shares, which add up to 1")] = {  # noqa: B006 - read only
        "train": 0.8,
        "dev": 0.1,
        "test": 0.1,
    },
    seed: int = 0,
) -> Parts:
    """Split trajectories into parts that share no task; refused where two tasks ask the same."""
    parts = split_by_task(trajectories.dataset.entries, shares, seed)
    found = leaks(parts)
    if found:
        raise UsageError(f"split-set: {found[0]} (and {len(found) - 1} more); choose them with key=question")
    made = f"split {shares} seed={seed}"
    return Parts(parts={name: msgspec.structs.replace(each, made=made) for name, each in parts.items()})


@tool(Permission.READ, asks=("mix", "mix set", "blend", "combine set", "mix dataset", "merge dataset"))
def mix_files(
    paths: _Paths,
    ratios: Annotated[tuple[float, ...], Meta(description="of each; equal when empty")] = (),
    count: Annotated[int, Meta(ge=0, description="trajectories in all; the most without repeating when 0")] = 0,
    seed: int = 0,
) -> Trajectories:
    """Mix data sets of one part by ratio."""
    sets = _read(paths)
    part_of(sets, [Path(path) for path in paths])
    if ratios and len(ratios) != len(sets):
        raise UsageError(f"mix-files: {len(sets)} data sets, and {len(ratios)} ratios")
    return Trajectories(dataset=mix_sets(sets, ratios or (1.0,) * len(sets), count or None, seed))


@tool(asks=("upsample", "oversample", "count more often", "weight", "downsample"))
def upsample_set(
    trajectories: Trajectories,
    factor: Annotated[float, Meta(gt=0, description="how many times as often what is picked counts")] = 2.0,
    rule: Annotated[str, Meta(description="env = babyai and turns > 10, or task_id ~ GoTo")] = "success = true",
    seed: int = 0,
) -> Trajectories:
    """Let the trajectories that a rule picks count more often."""
    return Trajectories(dataset=upsample(trajectories.dataset, factor, rule_of(rule), seed=seed))


@tool(
    Permission.READ,
    asks=("check leak", "leak set", "leak", "leakage", "share task", "apart", "leak between", "check overlap"),
)
def check_leaks(paths: _Paths) -> Table:
    """Whether data sets share a task or a first question, and which."""
    sets = dict(zip(paths, _read(paths), strict=True))
    if len(sets) < len(paths):
        raise UsageError("check-leaks: a data set is named twice; it shares everything with itself")
    found = [msgspec.to_builtins(each) for each in leaks(sets)]
    return Table(
        rows=tuple(found), notes=() if found else (f"{len(sets)} data sets share no task and no first question",)
    )


@tool(asks=("describe set", "dataset statistics", "what in set"))
def describe_set(trajectories: Trajectories) -> Figures:
    """What a data set of trajectories holds: how many of which environment, and how they went."""
    entries = trajectories.dataset.entries
    envs = sorted({entry.env for entry in entries})
    rows = [
        {
            "env": env,
            "trajectories": sum(e.copies for e in entries if e.env == env),
            "tasks": len({e.task_id for e in entries if e.env == env}),
            "succeeded": sum(e.success is True for e in entries if e.env == env),
        }
        for env in envs
    ]
    return Figures(figures={"trajectories": len(trajectories), "by environment": rows})


def _read(paths: tuple[str, ...]) -> list[DataSet]:
    return [read_dataset(dataset_file(Path(path))) for path in paths]
