"""ATIF: the Agent Trajectory Interchange Format (version 1.8), which Harbor and others read and write.

    records ─▶ atif_write ─▶ Document ─▶ one JSON line          JSON ─▶ Document ─▶ atif_read ─▶ records

A file is one document, a JSON array of them, or one a line. What the format lacks stands in `extra.silva`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from silva.tree.formats.atif_document import VERSION, VERSIONS, Document, field_names
from silva.tree.formats.atif_read import read_document
from silva.tree.formats.atif_write import line as line_of
from silva.tree.formats.atif_write import write_documents
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.errors import FormatError, invalid
from silva.tree.formats.images import Loader
from silva.tree.formats.values import documents


def write(bundles: Iterable[Bundle]) -> Iterator[str]:
    """Documents, each as one line; a file of a single trajectory is plain ATIF.

    Raises:
        FormatError: a trajectory's walk is not in its bundle, or a number is not finite.
    """
    for bundle in bundles:
        for document in write_documents(bundle):
            yield line_of(document)


def read(
    lines: Iterable[str | bytes], name: str = "trajectory.json", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each trajectory, embedded ones after the one that called them.

    Args:
        lines: the file's lines, newlines kept.
        name: the file as errors name it.
        run: the run of documents that do not name theirs.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    for line, value in documents(lines, name):
        yield from read_document(_typed(value, name, line), name, line, run, load)


def _typed(value: Any, name: str, line: int) -> Document:
    if not isinstance(value, dict):
        raise FormatError(name, line, "", "an ATIF document is an object with schema_version, agent and steps")
    version = cast(dict[str, Any], value).get("schema_version")
    if version not in VERSIONS:
        problem = f"unknown version {version!r} (this Silva reads up to {VERSION})"
        raise FormatError(name, line, "schema_version", problem)
    try:
        return msgspec.convert(value, Document)
    except msgspec.ValidationError as error:
        raise invalid(name, line, error, field_names()) from error
    except RecursionError as error:
        raise FormatError(name, line, "", "is nested too deep") from error
