"""OpenEnv: training traces (token ids, logprobs and loss masks of every model call) and collected episodes.

    records ─▶ openenv_write ─▶ TrainingTrace or EpisodeRecord, one a line          line ─▶ openenv_read ─▶ records

A line is one trajectory: `{"schema_version": 1, "turns": […]}` where its exact tokens are known, else what
`openenv collect` writes (`{"episode_id": …, "messages": […]}`). The capture server's `trace_entries` are read as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Origin
from silva.tree.formats.errors import FormatError
from silva.tree.formats.extension import Extension
from silva.tree.formats.images import Loader
from silva.tree.formats.openenv_read import EXTENSION, VERSION, read_episode, read_trace
from silva.tree.formats.openenv_write import write_rows
from silva.tree.formats.rows import as_object, json_line, rows
from silva.tree.message import Json
from silva.tree.run import Run


def write(bundles: Iterable[Bundle]) -> Iterator[str]:
    """Traces or episodes, each as one line.

    Raises:
        FormatError: a trajectory's walk is not in its bundle, or a number is not finite.
    """
    for bundle in bundles:
        for row in write_rows(bundle):
            yield json_line(row, "openenv")


def read(
    lines: Iterable[str | bytes], name: str = "openenv.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each trace or episode.

    Args:
        lines: the file's lines; empty ones are passed over.
        name: the file as errors name it.
        run: the run of lines that do not name theirs.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    for line, value in rows(lines, name):
        yield _read_value(value, name, line, run, load)


def recognise(first_bytes: bytes, value: object | None) -> bool:
    """Whether a file is of this format. `value`: its first line as JSON, where it is that."""
    if isinstance(value, list) and value:
        value = cast(list[object], value)[0]
        return isinstance(value, dict) and _is_entry(cast(Json, value))
    if not isinstance(value, dict):
        return False
    row = cast(Json, value)
    if "episode_id" in row:
        return "messages" in row and "tool_trace" in row
    found: Any = row.get("turns", row.get("entries"))
    if not isinstance(found, list) or ("turns" in row) != ("schema_version" in row):
        return False
    return all(_is_entry(as_object(entry)) for entry in cast(list[Any], found)[:1])


def _is_entry(row: Json) -> bool:
    return "prompt_token_ids" in row and "completion_token_ids" in row and "loss_mask" in row


def _read_value(value: Any, name: str, line: int, run: str, load: Loader | None) -> Bundle:
    origin = Origin(run=Run(id=run))
    row: Json = {"entries": value} if isinstance(value, list) else as_object(value)
    if "episode_id" in row:
        given = as_object(row.get("extra")).get(EXTENSION)
        if given is None:
            return read_episode(row, origin, name, line, load)
        extension = Extension(given, name, line)
        if not extension.has_trajectory:
            return extension.rest()
        return extension.unpack(read_episode(row, extension.origin(), name, line, load))
    turns: Any = row.get("turns", row.get("entries"))
    if not isinstance(turns, list):
        raise FormatError(name, line, "", "neither a training trace (turns) nor a collected episode (episode_id)")
    if "turns" in row and row.get("schema_version") != VERSION:
        problem = f"unknown version {row.get('schema_version')!r} (this Silva reads {VERSION})"
        raise FormatError(name, line, "schema_version", problem)
    turns = cast(list[Any], turns)
    given = as_object(as_object(turns[-1]).get("metadata")).get(EXTENSION) if turns else None
    if given is None:
        return read_trace(turns, origin, name, line, load)
    extension = Extension(given, name, line)
    return extension.unpack(read_trace(turns, extension.origin(), name, line, load))
