"""verifiers: the `traces.jsonl` of its evaluations (0.2 to 0.4, trace version 1), and the `results.jsonl` before it.

    records ─▶ verifiers_write ─▶ Episode, one a line          line ─▶ verifiers_read | verifiers_rows ─▶ records

An episode holds the traces of its agents; a trace is a message graph with the token ids, masks and logprobs that each
message adds. Rows of the older kind (`prompt`, `completion`, `reward`) are read too; episodes are what is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.errors import FormatError
from silva.tree.formats.images import Loader
from silva.tree.formats.rows import json_line, rows
from silva.tree.formats.verifiers_read import read_episode
from silva.tree.formats.verifiers_rows import read_row
from silva.tree.formats.verifiers_write import write_episodes
from silva.tree.message import Json


def write(bundles: Iterable[Bundle]) -> Iterator[str]:
    """Episodes, each as one line.

    Raises:
        FormatError: a trajectory's walk is not in its bundle, or a number is not finite.
    """
    for bundle in bundles:
        for row in write_episodes(bundle):
            yield json_line(row, "verifiers")


def read(
    lines: Iterable[str | bytes], name: str = "traces.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each trace or row.

    Args:
        lines: the file's lines; empty ones are passed over.
        name: the file as errors name it.
        run: the run of lines that do not name theirs.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    for line, value in rows(lines, name):
        if not isinstance(value, dict):
            raise FormatError(name, line, "", "a line is an episode, a trace or a result row")
        row = cast(Json, value)
        if "traces" in row or "nodes" in row:
            yield from read_episode(row, name, line, run, load)
        elif "prompt" in row and "completion" in row:
            yield read_row(row, name, line, run, load)
        else:
            problem = "neither an episode (traces), a trace (nodes) nor a result row (prompt and completion)"
            raise FormatError(name, line, "", problem)


def recognise(first_bytes: bytes, value: object | None) -> bool:
    """Whether a file is of this format. `value`: its first line as JSON, where it is that."""
    if not isinstance(value, dict):
        return False
    row = cast(dict[str, Any], value)
    if "traces" in row:
        return "task" in row and isinstance(row["traces"], list)
    if "nodes" in row:
        return "task" in row and "agent" in row
    return {"prompt", "completion", "reward", "example_id"} <= set(row)
