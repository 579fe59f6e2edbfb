"""`silva lake seal`, `approve-sealed`, `run-sealed`, `verify-sealed`: data that is used without being seen."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

Set = Annotated[Path, typer.Argument(metavar="SEALED", help="The sealed set's folder.")]
ShapeFile = Annotated[Path | None, typer.Option("--shape", help="JSON file: the fields of the release.")]


def seal(
    source: Annotated[Path | None, typer.Argument(help="Rows: a .jsonl, .csv or .parquet file.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder to make.")] = None,
    policy: Annotated[Path | None, typer.Option(help="JSON file: what its owner allows.")] = None,
    lake: Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="With --sql: the lake.")] = None,
    sql: Annotated[str | None, typer.Option(help="Seal what one SELECT over a lake gives.")] = None,
    new_key: Annotated[bool, typer.Option("--new-key", help="Print a new key, and do nothing else.")] = False,
) -> None:
    """Encrypt rows so that they can be asked and not seen; the key is in $SILVA_SEAL_KEY."""
    from silva.curate.sealed.container import seal as sealed
    from silva.curate.sealed.keys import Keys, drawn
    from silva.curate.sealed.policy import read_policy
    from silva.errors import UsageError

    if new_key:
        sys.stdout.write(f"{drawn()}\n")
        return
    if (source is None) == (sql is None):
        raise UsageError("give a file of rows or --sql")
    if out is None or policy is None:
        raise UsageError("give --out FOLDER and --policy FILE")
    allowed, keys = read_policy(policy), Keys()
    rows = _asked(lake, sql) if source is None else _rows(source)
    manifest = sealed(out, rows, allowed, keys)
    sys.stdout.write(f"sealed {out}: rows {manifest.rows[:12]}, public key {manifest.public}\n")


def approve(
    sealed: Set,
    code: Annotated[Path, typer.Argument(help="The program (Python; rows as JSON lines on standard input).")],
    shape: ShapeFile = None,
    by: Annotated[str, typer.Option(help="Who approves.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="How often it may run.")] = 1,
    yes: Annotated[bool, typer.Option("--yes", help="I have read the program; do not show it and ask.")] = False,
) -> None:
    """Allow a program to run on a sealed set, after reading it."""
    from silva.curate.sealed.container import Sealed
    from silva.curate.sealed.keys import Keys
    from silva.curate.sealed.ledger import held
    from silva.curate.sealed.program import approve as approved
    from silva.curate.sealed.program import read_code
    from silva.errors import UsageError

    opened, text, form = Sealed(sealed), read_code(code), _shape(shape)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("an approval is a person's: use a terminal, or say --yes once you have read it")
        sys.stdout.write(f"{text.decode(errors='replace')}\n")
        if not typer.confirm(f"It may tell {form.bits(opened.policy):.1f} bits a run. Allow {runs} runs?"):
            raise UsageError("not approved")
    with held(opened) as ledger:
        entry = approved(text, form, opened, ledger, Keys(), by, runs)
    sys.stdout.write(f"approved {entry.question[:12]} by {by}: {runs} runs, {form.bits(opened.policy):.1f} bits each\n")


def run(
    sealed: Set,
    code: Annotated[Path | None, typer.Argument(help="An approved program; else give a question.")] = None,
    shape: ShapeFile = None,
    count: Annotated[bool, typer.Option("--count", help="How many rows.")] = False,
    sum_of: Annotated[str | None, typer.Option("--sum", metavar="COLUMN", help="The sum of a column.")] = None,
    mean: Annotated[str | None, typer.Option("--mean", metavar="COLUMN", help="The mean of a column.")] = None,
    histogram: Annotated[
        str | None, typer.Option("--histogram", metavar="COLUMN", help="Rows of each category of a column.")
    ] = None,
    where: Annotated[list[str] | None, typer.Option(help="COLUMN=VALUE of a category; repeat for several.")] = None,
    epsilon: Annotated[float, typer.Option(help="What a question may cost of the budget.")] = 0.1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for release.json and statement.json.")] = None,
) -> int:
    """Ask a sealed set: a fixed question with differential privacy, or a program that a person has approved."""
    from silva.curate.sealed import Question, Sealed, ask
    from silva.curate.sealed import run as ran
    from silva.curate.sealed.keys import Keys
    from silva.curate.sealed.program import read_code
    from silva.errors import Exit, UsageError
    from silva.lake.durable import refusals, write_whole

    asked = {"count": "" if count else None, "sum": sum_of, "mean": mean, "histogram": histogram}
    chosen = [(what, column) for what, column in asked.items() if column is not None]
    if len(chosen) + (code is not None) != 1:
        raise UsageError("give one program or one of --count, --sum, --mean and --histogram")
    opened = Sealed(sealed)
    if code is not None:
        answered = ran(opened, read_code(code), _shape(shape), Keys())
    else:
        pairs = tuple((name, value) for name, _, value in (each.partition("=") for each in where or ()))
        what: Any = chosen[0][0]
        answered = ask(opened, Question(what=what, column=chosen[0][1], epsilon=epsilon, where=pairs), Keys())
    if out is not None:
        with refusals(str(out)):
            write_whole(out / "release.json", answered.reply)
            write_whole(out / "statement.json", answered.statement)
    sys.stdout.write(_shown(answered.reply))
    return Exit.OK if answered.released else Exit.INCOMPLETE


def verify(
    folder: Annotated[Path, typer.Argument(help="Where release.json and statement.json are.")],
    public: Annotated[str, typer.Option(help="The sealed set's public key, as `silva lake seal` printed it.")],
) -> None:
    """Check a release against its statement and the public key."""
    import json

    from silva.curate.sealed.statement import checked
    from silva.errors import UsageError

    try:
        reply, envelope = (folder / "release.json").read_bytes(), (folder / "statement.json").read_bytes()
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read ({error.strerror}: {error.filename})") from error
    statement = checked(envelope, reply, public)
    sys.stdout.write(f"holds: {hashlib.sha256(reply).hexdigest()[:12]} by {json.dumps(statement['predicate'])}\n")


def _shown(reply: bytes) -> str:
    import json

    told = json.loads(reply)
    return "refused\n" if told["refused"] else f"{json.dumps(told['release'])}\n"


def _shape(path: Path | None) -> Any:
    from silva.curate.sealed.gate import Shape
    from silva.curate.sealed.policy import parsed
    from silva.errors import UsageError

    if path is None:
        raise UsageError("a program goes with --shape FILE: the fields of its release")
    return parsed(path, Shape).checked()


def _asked(location: str | None, sql: str | None) -> list[dict[str, Any]]:
    from silva.lake import Lake, default_location

    with Lake.open(location or default_location(), "read") as opened:
        return opened.sql(sql or "").to_pylist()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    import json

    from silva.errors import UsageError

    if not path.is_file():
        raise UsageError(f"{path}: is no file")
    if path.suffix in (".parquet", ".csv"):
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        try:
            table = pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pyarrow.parquet.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise UsageError(f"{path}: {' '.join(str(error).split())[:200]}") from error
        yield from table.to_pylist()
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{path}: line {number} is not JSON ({error})") from error
            if not isinstance(row, dict):
                raise UsageError(f"{path}: line {number} is no object")
            yield row
