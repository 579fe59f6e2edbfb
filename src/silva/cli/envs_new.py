"""`silva envs new NAME`: a package with one working environment, to make one's own of."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and -; the package's name, too.")],
    into: Annotated[Path, typer.Option("--into", help="The folder the package's folder is made in.")] = Path(),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files, write nothing.")] = False,
) -> None:
    """Write a small package to begin with: an environment with tasks, an expert, a null policy and tests that pass."""
    from silva.envs.skeleton import files, free, write

    if dry_run:
        made = files(name)
        aim = free(name, into)
        for place in made:
            typer.echo(aim / place)
        return
    aim = write(name, into)
    typer.echo(f"made {aim}; next:")
    typer.echo(f"  pip install -e {shlex.quote(str(aim))}")
    typer.echo(f"  silva envs test {name}")
    typer.echo(f"  silva rollout --env {name} --policy expert")
