"""`silva science protein|molecule|enzyme|eeg|climate`: data of five fields in one form, errors told by item."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Data of five sciences, in one form.")

Items = Annotated[list[str], typer.Argument(help="Items; @FILE reads one a line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print result, metadata, artifacts and errors as JSON.")]


@app.command()
def protein(items: Items, as_json: AsJson = False) -> int:
    """Physico-chemistry of protein sequences: SEQUENCE or NAME=SEQUENCE."""
    from silva.curate.science import proteins

    return _tell(proteins(_items(items)), as_json)


@app.command()
def molecule(
    items: Items,
    tautomers: Annotated[bool, typer.Option("--tautomers/--no-tautomers", help="Take the canonical tautomer.")] = True,
    as_json: AsJson = False,
) -> int:
    """Standard form, keys and properties of molecules, given as SMILES."""
    from silva.curate.science import molecules

    return _tell(molecules(_items(items), tautomers=tautomers), as_json)


@app.command()
def enzyme(
    items: Items,
    record: Annotated[str | None, typer.Option(help="Folder: ask the services, and keep what they reply.")] = None,
    replay: Annotated[
        str | None, typer.Option(help="Folder of replies: no network; `example` is the one that comes with Silva.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, max=500, help="Proteins of each enzyme.")] = 5,
    as_json: AsJson = False,
) -> int:
    """What UniProt, KEGG and PubChem know of enzymes, given as EC numbers."""
    from silva.curate.science import Transport, enzymes

    if record and replay:
        raise UsageError("science enzyme: give --record or --replay, not both")
    transport = Transport("record" if record else "replay" if replay else "live", record or replay)
    return _tell(enzymes(_items(items), transport, most=most), as_json)


@app.command()
def eeg(
    items: Items,
    notch: Annotated[float | None, typer.Option(min=1, help="Mains frequency to filter out, in Hz.")] = None,
    as_json: AsJson = False,
) -> int:
    """Channels, events, bad channels and band shares of EEG recordings."""
    from silva.curate.science import recordings

    return _tell(recordings(_items(items), notch=notch), as_json)


@app.command()
def climate(
    items: Items,
    variable: Annotated[str, typer.Option(help="The variable that is aligned.")],
    output: Annotated[str | None, typer.Option("--output", "-o", help="NetCDF file for the aligned fields.")] = None,
    method: Annotated[str, typer.Option(help="linear or nearest.")] = "linear",
    as_json: AsJson = False,
) -> int:
    """Put a variable of several NetCDF files on the grid, the times and in the units of the first."""
    from silva.curate.science import align

    if method not in ("linear", "nearest"):
        raise UsageError(f"science climate: --method {method}: give linear or nearest")
    return _tell(align(_items(items), variable, output, method=method), as_json)


def _items(items: list[str]) -> list[str]:
    found: list[str] = []
    for item in items:
        if not item.startswith("@"):
            found.append(item)
            continue
        try:
            found += Path(item[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as fault:
            raise UsageError(f"{item[1:]}: it cannot be read ({fault})") from fault
    return found


def _tell(result: Any, as_json: bool) -> int:
    """Print a result; exit code 1 where no item gave anything, 6 where some did not."""
    import json

    import msgspec

    if as_json:
        print_json(msgspec.to_builtins(result))
    else:
        for item, told in result.result.items():
            sys.stdout.write(f"{item}\n{json.dumps(told, indent=2, ensure_ascii=False)}\n")
        for path in result.artifacts:
            sys.stdout.write(f"wrote {path}\n")
        for error in result.errors:
            where = f" ({error.where})" if error.where else ""
            sys.stderr.write(f"{error.item}{where}: {error.why}\n")
        sys.stderr.write(f"{result.status}: {len(result.result)} found, {len(result.errors)} errors\n")
    return {"success": Exit.OK, "partial_success": Exit.INCOMPLETE}.get(result.status, Exit.FAULT)
