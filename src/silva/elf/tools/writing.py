"""Artefacts into files of the job's folder, and a file into the lake."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pyarrow.parquet as parquet
from msgspec import Meta

from silva.curate.pairs import write_pairs as write_pairs_file
from silva.elf.artefact import Artefact, Figures, File, Pairs, Parts, Rows, Scores, Table, Trajectories
from silva.elf.flat import arrow, flat, objects
from silva.elf.tool import Cost, Permission, tool
from silva.elf.tools.asking import reading
from silva.elf.tools.reading import path_of
from silva.elf.work import Work
from silva.errors import UsageError
from silva.lake import default_location
from silva.lake.durable import refusals, write_whole
from silva.lake.exporting import bundles, export
from silva.lake.importing import take_in
from silva.train.data.dataset import DataSet, write_datasets
from silva.train.data.load import load_samples
from silva.train.samples import DEFAULT
from silva.train.stretch import Reading
from silva.train.writers import find, write
from silva.tree import Json
from silva.tree.formats import WRITABLE

Form = Literal["jsonl", "json", "csv", "parquet", "markdown"]
_ENDINGS = {"jsonl": ".jsonl", "json": ".json", "csv": ".csv", "parquet": ".parquet", "markdown": ".md"}
Name = Annotated[str, Meta(description="the file's name in the job's folder; made of what it holds when empty")]


@tool(
    asks=("write row", "save row", "export row", "write", "save", "export", "dump", "write file", "save file"),
    cost=Cost(seconds=0.5, row_seconds=0.0005),
)
def write_rows(rows: Rows, work: Work, form: Form = "jsonl", name: Name = "") -> File:
    """Write rows to a file: messages and all fields as JSON lines, one flat row each in a table."""
    if form in ("jsonl", "json"):
        return _written([_whole(row) for row in rows.rows], form, name or "rows", work, rows.notes)
    return _written([flat(row) for row in rows.rows], form, name or "rows", work, rows.notes)


@tool(asks=("write table", "save table", "export table"))
def write_table(table: Table, work: Work, form: Form = "csv", name: Name = "") -> File:
    """Write a table to a file."""
    return _written(list(table.rows), form, name or "table", work, table.notes)


@tool(asks=("write score", "save score", "export score"))
def write_scores(scores: Scores, work: Work, form: Form = "jsonl", name: Name = "") -> File:
    """Write scores to a file, a row's id and its score each."""
    return _written(objects(scores), form, name or "scores", work, scores.notes)


@tool(asks=("write figure", "save figure", "export figure"))
def write_figures(figures: Figures, work: Work, form: Literal["json", "markdown"] = "json", name: Name = "") -> File:
    """Write figures to a file."""
    path = _place(name or "figures", form, work)
    data = figures.shown().encode() if form == "markdown" else msgspec.json.encode(figures.figures)
    return _saved(path, data, form, 1)


@tool(
    Permission.READ,
    asks=("export trajectory", "write trajectory", "save trajectory", "convert trajectory"),
    cost=Cost(seconds=1.0),
)
def export_trajectories(
    trajectories: Trajectories,
    work: Work,
    form: Annotated[str, Meta(description=f"one of {', '.join(WRITABLE)}")] = "messages",
    name: Name = "",
) -> File:
    """Write trajectories to a file in a format of the field, each once."""
    if form not in WRITABLE:
        raise UsageError(f"export-trajectories: no format {form!r} can be written; there are {', '.join(WRITABLE)}")
    from silva.tree.formats import FORMATS

    path = work.file(name or f"trajectories{FORMATS[form].ending}")
    wanted = {entry.trajectory_id for entry in trajectories.dataset.entries}
    runs = sorted({entry.run_id for entry in trajectories.dataset.entries})
    with reading(work) as lake:
        chosen = [each for run in runs for each in lake.trajectories(run_id=run) if each.id in wanted]
        if missing := len(wanted) - len(chosen):
            raise UsageError(f"{missing} trajectories of the set are not in lake {lake.location}")
        done = export(lake, form, lambda: bundles(lake, chosen, []), path, True)
    return _told(path, form, done.trajectories, done.dropped)


@tool(
    Permission.READ,
    asks=(
        "sample file",
        "training sample",
        "write sample",
        "make sample",
        "make training",
        "trl",
        "verl",
        "training file",
    ),
    cost=Cost(seconds=2.0),
)
def write_samples(
    trajectories: Trajectories,
    work: Work,
    form: Annotated[str, Meta(description="silva, trl-sft, trl-grpo, trl-dpo, verl, slime or prime-rl")] = "silva",
    logprobs: Literal["required", "optional"] = "required",
    name: Name = "",
) -> File:
    """Turn trajectories into exact training samples; one whose tokens are not known drops out by name."""
    found = find(form)
    dropped: list[str] = []
    settings: Any = (
        msgspec.structs.replace(DEFAULT, logprobs=logprobs)
        if isinstance(DEFAULT, msgspec.Struct)
        else Reading(logprobs=logprobs)
    )
    samples = load_samples(trajectories.dataset, settings, dropped=dropped)
    if not samples:
        why = f": {dropped[0]}" if dropped else ""
        raise UsageError(f"{len(trajectories)} trajectories gave no sample{why}")
    path = work.file(name or f"samples{found.endings[0]}")
    path.unlink(missing_ok=True)
    count = write(form, path, samples)
    return _told(path, form, count, dropped)


@tool(asks=("write pair", "save pair", "export pair"))
def write_pairs(pairs: Pairs, work: Work, name: Name = "") -> File:
    """Write pairs of steps to a file, for preference training."""
    path = work.file(name or "pairs.jsonl")
    write_pairs_file(path, pairs.pairs)
    return _told(path, "pairs", len(pairs))


@tool(asks=("write dataset", "save dataset", "save set", "write set"))
def write_set(trajectories: Trajectories, work: Work, name: Name = "") -> File:
    """Write a data set of trajectories to a file that silva train reads."""
    path = work.file(name or "set.jsonl")
    write_datasets({path: trajectories.dataset}, replace=True)
    return _told(path, "dataset", len(trajectories))


@tool(asks=("write part", "save split", "write split", "save part"))
def write_parts(parts: Parts, work: Work, name: Annotated[str, Meta(description="a folder")] = "sets") -> File:
    """Write the parts of a split, a file each, into one folder."""
    files: dict[Path, DataSet] = {work.file(f"{name}/{part}.jsonl"): each for part, each in parts.parts.items()}
    write_datasets(files, replace=True)
    total = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    return File(path=str(work.folder / name), format="dataset", count=len(parts), sha256=total)


@tool(
    Permission.READ,
    Permission.WRITE,
    asks=("import", "import file", "bring lake", "load lake", "ingest file", "import lake"),
    cost=Cost(seconds=2.0),
)
def import_trajectories(
    path: Annotated[str, Meta(min_length=1, description="a trajectory file of any format")],
    work: Work,
    run: Annotated[str, Meta(description="the run to import into; the file's own when empty")] = "",
    form: Annotated[str, Meta(description="its format; found out when empty")] = "",
) -> Figures:
    """Read a file of trajectories into the lake; importing it again adds nothing."""
    done = asyncio.run(take_in(work.lake or default_location(), path_of(path), form or None, run or None))
    figures: Json = msgspec.to_builtins(done)
    return Figures(figures={**figures, "runs": ", ".join(done.runs)}, notes=done.notes[:5])


def _whole(row: Any) -> Json:
    """A row as an object that `silva.curate.rows` reads again: its messages and all its other fields."""

    def said(walk: Any) -> list[Json]:
        return [
            {"role": node.message.role, "content": node.message.text}
            | ({"tool_calls": calls} if (calls := _calls(node)) else {})
            | ({"tool_call_id": node.message.tool_call_id} if node.message.tool_call_id else {})
            for node in walk
        ]

    label = {} if row.label is None else {"label": row.label}
    if row.rejected:
        shared = next(
            (n for n, (a, b) in enumerate(zip(row.nodes, row.rejected, strict=False)) if a.message != b.message), 0
        )
        messages = {"prompt": said(row.nodes[:shared])}
        messages |= {"chosen": said(row.nodes[shared:]), "rejected": said(row.rejected[shared:])}
    elif row.kind == "text":
        messages = {"text": row.nodes[0].message.text}
    else:
        messages = {"messages": said(row.nodes)}
    ended = row.trajectory
    extra = {} if ended is None else {"env": ended.env, "task_id": ended.task_id, "score": ended.outcome.score}
    return {**{k: v for k, v in row.data.items() if k not in messages}, **extra, **label, **messages, "row_id": row.id}


def _calls(node: Any) -> list[Json]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in node.message.tool_calls
    ]


def _place(name: str, form: str, work: Work) -> Path:
    return work.file(name if Path(name).suffix else name + _ENDINGS[form])


def _written(rows: list[Json], form: str, name: str, work: Work, notes: tuple[str, ...]) -> File:
    path = _place(name, form, work)
    if form == "parquet":
        sink = io.BytesIO()
        parquet.write_table(arrow(rows), sink)
        data = sink.getvalue()
    elif form == "csv":
        names = list(dict.fromkeys(key for row in rows for key in row))
        text = io.StringIO()
        table = csv.DictWriter(text, names)
        table.writeheader()
        table.writerows(rows)
        data = text.getvalue().encode()
    elif form == "markdown":
        data = Table(rows=tuple(rows)).shown().encode()
    elif form == "json":
        data = json.dumps(rows, ensure_ascii=False, indent=1, default=str).encode()
    else:
        data = b"".join(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n" for row in rows)
    return msgspec.structs.replace(_saved(path, data, form, len(rows)), notes=notes)


def _saved(path: Path, data: bytes, form: str, count: int) -> File:
    with refusals(f"file {path}"):
        write_whole(path, data)
    return _told(path, form, count)


def _told(path: Path, form: str, count: int, dropped: tuple[str, ...] | list[str] = ()) -> File:
    notes = tuple(dropped[:5]) + ((f"and {len(dropped) - 5} more dropped out",) if len(dropped) > 5 else ())
    return File(path=str(path), format=form, count=count, sha256=sha256(path.read_bytes()).hexdigest(), notes=notes)


__all__ = ["Artefact"]
