"""Inspect AI's `.eval` logs (version 2): read, and written so that `inspect view` shows them.

    records ─▶ inspect_write ─▶ members ─▶ inspect_archive ─▶ one zip          zip ─▶ inspect_read ─▶ records

Written files are deflated, which every zip reader knows; Inspect's own are compressed with Zstandard and read as well,
and so are its logs in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Origin
from silva.tree.formats.errors import FormatError
from silva.tree.formats.extension import Extension
from silva.tree.formats.images import Loader
from silva.tree.formats.inspect_archive import Archive, packed
from silva.tree.formats.inspect_read import EXTENSION, read_sample
from silva.tree.formats.inspect_write import write_members
from silva.tree.formats.rows import as_list, as_object, parsed
from silva.tree.message import Json
from silva.tree.run import Run

VERSION = 2

_ZIP = b"PK\x03\x04"
_MEMBERS = (b"_journal/", b"samples/", b"header.json", b"summaries.json")


def write(bundles: Iterable[Bundle]) -> Iterator[bytes]:
    """One log of all the bundles, as the bytes of its file.

    Raises:
        FormatError: a trajectory's walk is not in its bundle.
    """
    yield packed(write_members(bundles))


def read(
    data: bytes, name: str = "log.eval", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle | FormatError]:
    """One bundle for each sample and epoch, or what is wrong with the sample.

    Args:
        data: the file.
        name: the file as errors name it.
        run: the run of samples that do not name theirs.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: the log as a whole cannot be read.
    """
    if data.lstrip()[:1] == b"{":
        document: Any = parsed(data, name, 0)
        header = _header({key: value for key, value in document.items() if key not in ("samples", "reductions")}, name)
        samples: list[tuple[str, Callable[[], Any]]] = [
            (f"samples[{place}]", partial(_itself, sample))
            for place, sample in enumerate(as_list(document.get("samples")))
        ]
    else:
        archive = Archive(data, name)
        member = next((m for m in ("header.json", "_journal/start.json") if m in archive), None)
        if member is None:
            raise FormatError(name, 0, "", "no log of Inspect: it has neither header.json nor _journal/start.json")
        header = _header(archive.json(member), name)
        wanted = [m for m in archive.members if m.startswith("samples/") and m.endswith(".json")]
        samples = [(m, partial(archive.json, m)) for m in wanted]
    spec = as_object(header["eval"])
    metadata = as_object(spec.get("metadata"))
    rest = as_list(metadata.pop(EXTENSION, None))
    if rest:
        spec = {key: value for key, value in spec.items() if key != "metadata"}
        header = {**header, "eval": {**spec, "metadata": metadata} if metadata else spec}
    for at, sample in samples:
        try:
            yield _read(sample(), header, at, name, run, load)
        except FormatError as error:
            yield error
    for given in rest:
        yield Extension(given, name, 0).rest()


def recognise(first_bytes: bytes, value: object | None) -> bool:
    """Whether a file is of this format. `value`: its first line or whole text as JSON, where it is that."""
    if first_bytes.startswith(_ZIP):
        length = int.from_bytes(first_bytes[26:28], "little")
        return first_bytes[30 : 30 + length].startswith(_MEMBERS)
    if isinstance(value, dict):
        return {"version", "status", "eval", "plan"} <= set(cast(Json, value))
    # A JSON log is laid out over many lines.
    return all(key in first_bytes for key in (b'"version"', b'"eval"', b'"eval_id"', b'"task_id"'))


def _itself(value: Any) -> Any:
    return value


def _read(sample: Any, header: Json, at: str, name: str, run: str, load: Loader | None) -> Bundle:
    if not isinstance(sample, dict):
        raise FormatError(name, 0, at, "is not an object")
    sample = cast(Json, sample)
    given = as_object(sample.get("metadata")).get(EXTENSION)
    if given is None:
        return read_sample(sample, header, Origin(run=Run(id=run)), name, at, load)
    extension = Extension(given, name, 0)
    return extension.unpack(read_sample(sample, header, extension.origin(), name, at, load))


def _header(value: Any, name: str) -> Json:
    header = as_object(value)
    if not isinstance(header.get("eval"), dict):
        raise FormatError(name, 0, "eval", "required field is missing" if "eval" not in header else "is not an object")
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise FormatError(name, 0, "version", f"unknown version {version!r} (this Silva reads up to {VERSION})")
    return header
