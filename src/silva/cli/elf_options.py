"""Options that the commands of `silva elf` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Location = Annotated[
    str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out.")
]
Home = Annotated[
    Path | None, typer.Option(envvar="SILVA_ELF", help="Folder of jobs, results and assets; elf beside the lake.")
]
Allow = Annotated[list[str] | None, typer.Option(help="Grant read (always), write, net or model; repeat for several.")]
ModelName = Annotated[str, typer.Option(help="The model that tools may ask, with --allow model.")]
Steps = Annotated[int, typer.Option(min=1, help="Tool steps at most.")]
Seconds = Annotated[float | None, typer.Option(min=0, help="Seconds at most, over all resumptions; an hour.")]
Tokens = Annotated[int | None, typer.Option(min=0, help="Tokens of models at most; 200,000.")]
Usd = Annotated[float | None, typer.Option(min=0, help="US dollars of models at most; 5.")]
Memory = Annotated[str, typer.Option(help="Memory of the process that runs tools: 512M, 4G.")]
LineageTo = Annotated[
    str,
    typer.Option(envvar="SILVA_OPENLINEAGE", help="Send OpenLineage's events there too: http://HOST/api/v1/lineage."),
]
Replay = Annotated[
    str,
    typer.Option(
        help="Folder of recorded replies: tools of the network take these and reach none; `example` comes with Silva."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def lake_of(lake: str | None) -> str:
    """The lake that is meant, whether it is there or not."""
    from silva.lake import default_location

    return lake or default_location()


def home_of(home: Path | None, lake: str) -> Path:
    """The engine's home."""
    from silva.elf.running.job import default_home

    return home or default_home(lake)
