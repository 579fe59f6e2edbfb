"""`silva curate curation run|list|show|diff`: Python source that makes training data and memories of a raw corpus."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit

if TYPE_CHECKING:
    from silva.curate.curation.source import Curation
    from silva.curate.curation.versions import Curations, Version

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Curations: source that turns raw walks into training data and memories; run, list, show, compare.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
LakePlace = Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")]
Line = Annotated[str, typer.Option(help="Line of curations in the lake; a loop's is its own.")]
Which = Annotated[str, typer.Argument(help="Digest, or the first letters of one.")]


@app.command()
def run(
    code: Annotated[str, typer.Argument(help="Python file, raw, successes, all-operators, or a version of the lake.")],
    sources: Annotated[list[str], typer.Argument(help="Runs, conditions or queries over the lake, or files.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for sft, rl and the bank.")] = None,
    lake: LakePlace = None,
    line: Line = "main",
    limit: Annotated[int | None, typer.Option(min=1, help="Most walks of each source.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Most seconds of one run.")] = 60.0,
    memory: Annotated[str, typer.Option(help="Most memory of one run, such as 2G.")] = "1G",
    note: Annotated[str, typer.Option(help="What is to be said of it.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Run it, print the profile, keep nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Run a curation in the sandbox, twice; print the profile of what it gives, and keep it as a version."""
    import msgspec

    from silva.curate.curation.corpus import read_corpus
    from silva.curate.curation.memory import write_bank
    from silva.curate.curation.profile import cost, profile
    from silva.curate.curation.running import Bounds, run_curation
    from silva.lake import default_location
    from silva.sandbox.limits import size

    curation = _code(code, lake, line)
    corpus = read_corpus(sources, lake=lake or default_location(), limit=limit)
    for said in corpus.notes:
        sys.stderr.write(f"{said}\n")
    made = run_curation(curation, corpus, bounds=Bounds(seconds=seconds, memory=size(memory)))
    found = profile(made, corpus)
    if output is not None and not dry_run:
        output.mkdir(parents=True, exist_ok=True)
        for name, rows in (("sft", made.sft), ("rl", made.rl), ("memory", made.memory)):
            (output / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        if made.memory:
            write_bank(output / "bank", made.memory, curation.digest)
    if not dry_run:
        from silva.curate.curation.versions import Curations

        kept = Curations(lake, line, make=True)
        kept.write(curation, author="person", note=note, corpus=corpus.digest)
    charged = cost(found.turns)
    if as_json:
        print_json(
            {
                "digest": curation.digest,
                "corpus": corpus.digest,
                "data": made.digest,
                "kept": not dry_run,
                "cost": charged,
                "profile": msgspec.to_builtins(found),
            }
        )
        return Exit.OK
    sys.stdout.write(f"curation {curation.digest[:12]}: {found}\n")
    sys.stdout.write(f"cost C {charged:.4f}; both runs gave the same data ({made.digest[:12]})\n")
    if found.tools:
        calls = ", ".join(
            f"{name} {count}" for name, count in sorted(found.tools.items(), key=lambda each: -each[1])[:8]
        )
        sys.stdout.write(f"rows that call: {calls}\n")
    sys.stdout.write("nothing was kept\n" if dry_run else f"kept in line {line}\n")
    return Exit.OK


@app.command("list")
def list_(lake: LakePlace = None, line: Line = "main", as_json: AsJson = False) -> int:
    """List the curations of a lake, with what was found of each."""
    from silva.curate.curation.versions import as_json as told
    from silva.curate.curation.versions import lines

    kept = _line(lake, line)
    versions = kept.versions()
    if as_json:
        print_json([told(each) for each in versions])
        return Exit.OK
    for each in versions:
        sys.stdout.write(f"{_told(each)}\n")
    if not versions:
        others = ", ".join(lines(lake))
        sys.stdout.write(f"no curations in line {line}" + (f"; there are lines {others}" if others else "") + "\n")
    return Exit.OK


@app.command()
def show(which: Which, lake: LakePlace = None, line: Line = "main", as_json: AsJson = False) -> int:
    """Print a curation: where it comes from, what was found of it, and its source."""
    from silva.curate.curation.versions import as_json as told

    kept = _line(lake, line)
    version = kept.find(which)
    source = kept.source(version).source
    if as_json:
        print_json({**told(version), "source": source})
        return Exit.OK
    sys.stdout.write(f"{_told(version)}\n")
    for judged in version.judged:
        sys.stdout.write(f"  {judged.loop} epoch {judged.epoch}: {judged.why or judged.verdict}\n")
        if judged.profile is not None:
            sys.stdout.write(f"  {judged.profile}\n")
        for point in judged.failed:
            sys.stdout.write(f"  failed point: {point.point} ({point.evidence})\n")
    sys.stdout.write(f"\n{source}")
    return Exit.OK


@app.command()
def diff(
    which: Which,
    before: Annotated[str, typer.Argument(help="Another version; its parent if none.")] = "",
    lake: LakePlace = None,
    line: Line = "main",
) -> int:
    """Print what changed in a curation since another one."""
    from silva.errors import UsageError

    kept = _line(lake, line)
    version = kept.find(which)
    if not before and not version.parent:
        raise UsageError(f"curation {version.digest[:12]} has no parent: name the version to compare it with")
    other = kept.find(before or version.parent)
    sys.stdout.write(kept.source(version).difference(kept.source(other)) or "no difference\n")
    return Exit.OK


def _code(name: str, lake: str | None, line: str) -> Curation:
    """A curation by its file, its name, or its digest in the lake."""
    from silva.curate.curation.source import NAMED, named
    from silva.errors import UsageError

    if name in NAMED or Path(name).is_file() or name.endswith(".py"):
        return named(name)
    try:
        kept = _line(lake, line)
        return kept.source(kept.find(name))
    except UsageError as error:
        raise UsageError(f"curation {name}: is no file, none of {', '.join(NAMED)}, and {error}") from error


def _line(lake: str | None, line: str) -> Curations:
    from silva.curate.curation.versions import Curations

    return Curations(lake, line)


def _told(version: Version) -> str:
    last: Any = version.judged[-1] if version.judged else None
    parent = f" from {version.parent[:12]}" if version.parent else ""
    phase = f" {version.phase}" if version.phase else ""
    found = f": J {last.j:.4f}, P {last.p:.3f}, C {last.c:.4f}, {last.verdict or 'judged'}" if last is not None else ""
    note = f" ({version.note})" if version.note else ""
    return f"{version.digest[:12]}{phase} by {version.author or 'nobody said'}{parent}{found}{note}"
