"""`silva curate ratings`: what people say of pairs of steps, how far they agree, and the pairs at their word."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError


def ratings(
    loop: Annotated[Path | None, typer.Option(help="A loop's folder: the pairs of all its rounds.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="A file of pairs, such as redteam explore writes.")] = None,
    run: Annotated[str | None, typer.Option(help="A run: the pairs of its sibling steps.")] = None,
    lake: Annotated[
        str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL; the loop's own with --loop.")
    ] = None,
    by: Annotated[
        Literal["verifier", "people", "both"],
        typer.Option(help="With --output, whose word the pairs are written at; both: people's where there is one."),
    ] = "people",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the pairs here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> int:
    """How far people agree on pairs of steps, with one another and with the verifier; the console lets them rate."""
    import msgspec

    from silva.curate.pairs import StepPair, read_pairs, write_pairs
    from silva.curate.ratings import agreement, judged, pairs_to_rate
    from silva.curate.ratings import ratings as said_of
    from silva.lake import open_lake

    if sum(each is not None for each in (loop, pairs, run)) != 1:
        raise UsageError("name the pairs: one of --loop FOLDER, --pairs FILE, --run NAME")
    known: list[StepPair] = read_pairs(pairs) if pairs is not None else []
    if loop is not None:
        from silva.loops.kernel.kinds import read_loop
        from silva.loops.line.shown import pair_files

        lake = read_loop(loop)[1].lake if lake is None else lake
        known = [pair for file in pair_files(loop) for pair in read_pairs(file)]
    with open_lake(lake, mode="read") as opened:
        if run is not None:
            known = pairs_to_rate(opened, run)
        said = said_of(opened, known)
    found = agreement(known, said)
    people = Counter(each.by for each in said)
    written = judged(known, said, by)
    if output is not None:
        write_pairs(output, written)
    if as_json:
        told = {
            "pairs": len(known),
            "people": dict(people),
            "agreement": [msgspec.structs.asdict(each) for each in found],
        }
        print_json(told | ({"written": len(written)} if output is not None else {}))
        return Exit.OK
    rated = "; ".join(f"{who} rated {count:,}" for who, count in sorted(people.items()))
    typer.echo(f"{len(known):,} pairs; {rated or 'nobody has rated one: silva console, Loops, Rate them blind'}")
    if found:
        from rich.table import Table

        from silva.cli.trees_show import console, plain

        table = Table("", "and", "pairs", "agree", "95 %", "kappa", "both decided", "agree")
        for each in found:
            bounds = "–" if each.low is None or each.high is None else f"{each.low:.2f} to {each.high:.2f}"
            figures = ("–" if value is None else f"{value:.2f}" for value in (each.kappa, each.agree_decided))
            beyond, decided = figures
            row = (str(each.pairs), f"{each.agree:.2f}", bounds, beyond, str(each.decided), decided)
            table.add_row(plain(each.left), plain(each.right), *row)
        console().print(table)
    if output is not None:
        typer.echo(
            f"{len(written):,} pairs at the word of {by if by != 'both' else 'people, else the verifier'}: {output}"
        )
    return Exit.OK
