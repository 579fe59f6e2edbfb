"""What the commands that make a sandbox are told alike: its backend, limits, files, network, checkpoints.

options ─▶ spec_of ─▶ Spec        --from, --snapshots ─▶ kept_in ─▶ the folder of checkpoints
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from silva.sandbox.protocol import Spec


class Which(StrEnum):
    """The backends."""

    namespaces = "namespaces"
    container = "container"
    process = "process"


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
State = Annotated[
    Path | None, typer.Option("--state", envvar="SILVA_SANDBOXES", help="Where sandboxes are kept.", show_default=False)
]
Chosen = Annotated[Which, typer.Option("--backend", help="What isolates; process isolates nothing.")]
Memory = Annotated[str, typer.Option("--memory", help="Memory of all its processes.")]
Processes = Annotated[int, typer.Option("--processes", help="Processes and threads at once.")]
Cpus = Annotated[float, typer.Option("--cpus", help="Processors' worth of time.")]
Disk = Annotated[str, typer.Option("--disk", help="What it may write.")]
Mount = Annotated[list[str] | None, typer.Option("--mount", help="HERE:THERE, readable inside; repeat for several.")]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", help="A host it may reach: HOST, HOST:PORT, *.DOMAIN; repeat for several."),
]
Variable = Annotated[list[str] | None, typer.Option("--variable", help="NAME=VALUE; repeat for several.")]
Get = Annotated[list[str] | None, typer.Option("--get", help="THERE:HERE, a folder to copy out at the end.")]
Snapshots = Annotated[Path | None, typer.Option("--snapshots", help="Where checkpoints are kept.")]
From = Annotated[str, typer.Option("--from", help="A checkpoint to begin at.")]
Keep = Annotated[
    str | None, typer.Option("--keep", help="Keep a checkpoint at the end, with this label; prints its id.")
]


def spec_of(
    *,
    memory: str,
    processes: int,
    cpus: float,
    disk: str,
    wall: float,
    files: Path | None,
    mount: list[str] | None,
    allow: list[str] | None,
    variable: list[str] | None,
    image: str,
) -> Spec:
    """The sandbox that was asked for.

    Raises:
        UsageError: an option is not what it has to be.
    """
    from silva.sandbox.limits import Limits, size
    from silva.sandbox.protocol import Spec

    limits = Limits(memory=size(memory), processes=processes, cpus=cpus, disk=size(disk), wall=wall)
    mounts = {Path(here): there for here, there in (pair(each, "--mount", "HERE:THERE") for each in mount or ())}
    return Spec(
        limits=limits.checked(),
        files=files,
        mounts=mounts,
        variables=dict(pair(each, "--variable", "NAME=VALUE", "=") for each in variable or ()),
        network=tuple(allow or ()),
        image=image,
    )


def kept_in(snapshots: Path | None, at: str, keep: str | None, backend: Which) -> Path | None:
    """The folder of checkpoints: the one given, else the one where an environment keeps the checkpoint to begin at.

    Raises:
        UsageError: checkpoints are asked for, and no folder is known.
    """
    from silva.errors import UsageError

    if snapshots is not None or not (at or keep is not None):
        return snapshots
    from silva.envs.home import home

    if backend is Which.container:
        return home() / "snapshots"  # named so that they are kept: they lie with the engine
    if at.isalnum():
        from silva.sandbox.garbage import folders

        for folder in folders(home()):
            if (folder / f"{at}.json").is_file():
                return folder
    raise UsageError("--from and --keep need --snapshots FOLDER: else checkpoints go with the sandbox")


def pair(text: str, option: str, form: str, between: str = ":") -> tuple[str, str]:
    """The two halves of an option.

    Raises:
        UsageError: it has no two.
    """
    from silva.errors import UsageError

    first, found, second = text.partition(between)
    if not (first and found and second):
        raise UsageError(f"{option} {text!r}: write {form}")
    return first, second
