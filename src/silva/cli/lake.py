"""`silva lake`: query a lake, check it, see what it holds, name its versions."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from silva.cli import lake_sealed, lake_tiers
from silva.cli.as_json import print_json
from silva.cli.lake_ingest import ingest

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Query a lake, check it, see what it holds.")

Location = Annotated[
    str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Of = Annotated[str | None, typer.Option("--version", help="A tagged version to read; the lake as it is when left out.")]


@app.command()
def query(
    place: Annotated[str | None, typer.Argument(metavar="[LAKE]", help="The lake; instead of --lake.")] = None,
    lake: Location = None,
    where: Annotated[str | None, typer.Option(help="For example: score >= 0.5 and env = 'bfcl'.")] = None,
    table: Annotated[
        str, typer.Option(help="nodes, trajectories, tasks, runs, supervisions, blobs or arrivals.")
    ] = "trajectories",
    columns: Annotated[str | None, typer.Option(help="Columns, separated by commas.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows at most.")] = 20,
    sql: Annotated[str | None, typer.Option(help="One SELECT over the tables (DuckDB's dialect).")] = None,
    text: Annotated[str | None, typer.Option(help="Words to find in the nodes' text.")] = None,
    version: Of = None,
    as_json: AsJson = False,
) -> None:
    """Rows by filter, by SQL or by words."""
    from silva.errors import UsageError

    given = [name for name, value in {"--sql": sql, "--text": text, "--where": where}.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"give one of --where, --sql and --text, not {' and '.join(given)}")
    with _open(place or lake, version) as opened:
        if text is not None:
            rows = [
                {
                    "score": round(score, 3),
                    "id": node.id,
                    "tree": node.tree_id,
                    "role": node.message.role,
                    "text": node.message.text,
                }
                for score, node in opened.search(text, limit=limit)
            ]
        elif sql is not None:
            rows = _rows(opened.sql(sql))
        else:
            rows = _rows(opened.sql(_select(table, columns, where, limit)))
    _print(rows, as_json)


@app.command()
def stats(
    place: Annotated[str | None, typer.Argument(metavar="[LAKE]", help="The lake; instead of --lake.")] = None,
    lake: Location = None,
    as_json: AsJson = False,
) -> None:
    """What the lake holds and how much room it takes."""
    import msgspec

    with _open(place or lake) as opened:
        found = opened.stats()
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    grid = Table("table", "rows", "in the journal", title=f"lake {found.location}, schema {found.schema}")
    for name, rows in found.rows.items():
        grid.add_row(name, f"{rows:,}", f"{found.pending.get(name, 0):,}")
    console.print(grid)
    sizes = {"tables": found.table_bytes, "blobs": found.blob_bytes, "journal": found.journal_bytes}
    console.print("size: " + ", ".join(f"{name} {_size(size)}" for name, size in sizes.items() if size is not None))
    console.print(f"nodes outside the indices: {found.unindexed:,}")
    console.print(f"versions: {', '.join(found.versions) or 'none'}")


@app.command()
def doctor(
    place: Annotated[str | None, typer.Argument(metavar="[LAKE]", help="The lake; instead of --lake.")] = None,
    lake: Location = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    as_json: AsJson = False,
) -> int:
    """Check everything; exit 0 when the lake is healthy, 5 while something is not. What is no loss (a write that ended
    before anybody was told that it is kept) is named as a note."""
    import msgspec

    from silva.errors import Exit

    with _open(place or lake) as opened:
        findings = opened.doctor(repair=repair)
    if as_json:
        print_json(msgspec.to_builtins(findings))
    else:
        for finding in findings:
            kind = "mended" if finding.repaired else "note" if finding.harmless else finding.kind
            sys.stdout.write(f"{kind}: {finding.where}: {finding.message}\n")
        if all(finding.harmless for finding in findings):
            sys.stdout.write("healthy\n")
    return Exit.OK if all(finding.repaired or finding.harmless for finding in findings) else Exit.STORE


@app.command()
def tag(
    name: Annotated[str, typer.Argument(help="Name of the version.")],
    lake: Location = None,
    note: Annotated[str, typer.Option(help="What it is for.")] = "",
) -> None:
    """Name the lake as it is now, so that it can be read so for good."""
    with _open(lake, mode="write") as opened:
        made = opened.tag(name, note)
    typer.echo(f"version {made.name}: {sum(made.rows.values()):,} rows")


@app.command()
def versions(lake: Location = None, as_json: AsJson = False) -> None:
    """List the tagged versions."""
    import msgspec

    with _open(lake) as opened:
        found = opened.versions()
    rows = [
        {"name": v.name, "at": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(v.at)), "note": v.note, **v.rows}
        for v in found
    ]
    _print([msgspec.to_builtins(v) for v in found] if as_json else rows, as_json)


@app.command()
def optimize(lake: Location = None) -> None:
    """Merge small files and bring the indices up to date."""
    with _open(lake, mode="write") as opened:
        opened.compact()
        opened.optimize()
    typer.echo("optimised")


app.command()(ingest)
app.command()(lake_tiers.tier)
app.command()(lake_tiers.retain)
app.command("seal")(lake_sealed.seal)
app.command("approve-sealed")(lake_sealed.approve)
app.command("run-sealed")(lake_sealed.run)
app.command("verify-sealed")(lake_sealed.verify)


@app.command()
def columns() -> None:
    """The tables and their columns, as Markdown."""
    from silva.lake.documentation import documentation

    sys.stdout.write(documentation())


def _open(location: str | None, version: str | None = None, mode: Literal["read", "write"] = "read") -> Any:
    from silva.lake import Lake, default_location

    if mode == "write":
        Lake.open(location or default_location(), "read").close_sync()  # a mistyped location must not become a lake
        return Lake.open(location or default_location(), "write")
    return Lake.open(location or default_location(), "read", version=version)


def _select(table: str, columns: str | None, where: str | None, limit: int) -> str:
    from silva.errors import UsageError
    from silva.lake import TABLES, parse

    if table not in TABLES:
        raise UsageError(f"there is no table {table}; there are {', '.join(TABLES)}")
    spec = TABLES[table]
    names: list[str] = []
    for wanted in (columns or "").split(","):
        if wanted.strip():
            column = spec.column(wanted.strip())
            if column is None:
                raise UsageError(
                    f"{table} has no column {wanted.strip()}; it has {', '.join(c.name for c in spec.columns)}"
                )
            names.append(f'"{column.name}"')
    condition = f" where {parse(where).sql(spec)}" if where else ""
    return f"select {', '.join(names) or '*'} from {table}{condition} limit {limit}"


def _rows(found: pa.Table) -> list[dict[str, Any]]:
    return found.to_pylist()


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    if not rows:
        sys.stdout.write("no rows\n")
        return
    from rich.console import Console
    from rich.table import Table

    filled = [name for name in rows[0] if any(row.get(name) not in (None, "", [], 0.0) for row in rows)] or list(
        rows[0]
    )
    grid = Table(*filled)
    for row in rows:
        grid.add_row(*(_cell(row.get(name)) for name in filled))
    # Into a pipe or a file nothing need be cut to a screen's width.
    Console(width=None if sys.stdout.isatty() else 240).print(grid)
    sys.stdout.write(f"{len(rows)} rows\n")


def _cell(value: Any) -> str:
    from rich.markup import escape

    words = "" if value is None else f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())
    return escape(words if len(words) <= 120 else words[:119] + "…")


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return str(count)
