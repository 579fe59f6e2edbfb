"""What a planner may know of the world: the runs and environments of the lake, and the files that lie here."""

from __future__ import annotations

from pathlib import Path

from silva.errors import SilvaError
from silva.lake import open_lake
from silva.tree import Record

READ = (".jsonl", ".json", ".parquet", ".csv", ".tsv", ".txt", ".eval", ".traj", ".atif", ".samples")
"""Endings of files that are data."""
_MOST = 2_000


class Known(Record, frozen=True, kw_only=True):
    """`runs`, `envs` and `models` of the lake, `plans` of the red team, `files` by their path. All empty where nothing
    could be read: names are then told by their shape."""

    runs: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def known(lake: str, folder: Path) -> Known:
    """What there is in a lake ("": none) and in a folder (two levels)."""
    files = tuple(
        str(path.relative_to(folder))
        for pattern in ("*", "*/*")
        for path in sorted(folder.glob(pattern))[:_MOST]
        if path.suffix in READ and path.is_file()
    )
    if not lake:
        return Known(files=files)
    try:
        with open_lake(lake, mode="read") as opened:
            runs = opened.runs()
            envs = opened.sql("select distinct env, model, run_id from trajectories").to_pylist()
    except SilvaError:
        return Known(files=files)
    names = sorted({run.id for run in runs} | {each["run_id"] for each in envs})
    return Known(
        runs=tuple(names),
        envs=tuple(sorted({each["env"] for each in envs} | {env for run in runs for env in run.envs})),
        models=tuple(sorted({each["model"] for each in envs if each["model"]})),
        plans=tuple(sorted({name.partition(".")[0] for name in names if "." in name})),
        files=files,
    )
