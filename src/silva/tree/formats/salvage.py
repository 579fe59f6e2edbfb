"""Salvage: what of a file cannot be read drops out by name; the rest of the file is taken in.

    bytes ─▶ text (a byte order mark is taken off) ─▶ lines, each made whole ─▶ the format's reader ─▶ Bundle …
                                                          ▲                            │ a fault names its line
                                                          └── read again without it ◀──┘

A reader is pure and names the line of what it cannot read, so one mechanism serves all formats of text: where each row
stands for itself, rows are read one by one; a session or trace, whose lines belong together, is read again without
the line at fault. A last line that was cut off, bytes that are no UTF-8 and half a character (a lone surrogate, as a
text cut in the middle of an emoji leaves it) are faults of this kind too. Nothing drops out unsaid: see `Note`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from silva.tree.formats.bundle import Bundle, merged
from silva.tree.formats.detection import Format
from silva.tree.formats.errors import FormatError
from silva.tree.formats.images import Loader
from silva.tree.formats.values import without_mark
from silva.tree.message import Json
from silva.tree.trajectory import Trajectory

MOST_DROPPED = 200
"""Most lines that are dropped of a session or trace; with more of them at fault, the file is of another kind."""

_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class Note(NamedTuple):
    """What was lost of a file: `dropped` (a record went) or else a character that was put right in its place."""

    said: str
    dropped: bool


class Salvaged(NamedTuple):
    """What a file gave, one bundle a run, and what of it could not be read."""

    bundles: list[Bundle]
    notes: list[Note]


def salvage(form: Format, data: bytes, file: str, run: str, load: Loader | None = None) -> Salvaged:
    """Read a file in a format, without what of it cannot be read.

    Args:
        form: the format.
        data: the file's bytes.
        file: the file as notes and errors name it.
        run: the run of what does not name its own.
        load: gives the bytes of an image by the path the file has for it.

    Raises:
        FormatError: nothing of the file can be read; it tells the first fault.
    """
    notes: list[Note] = []
    if form.binary:
        return _told(list(form.read(data, file, run, load)), notes, file)
    pieces, of_array = _pieces(form, without_mark(data))
    lines = _whole(pieces, _At(file, of_array), notes)
    read = _one_by_one if form.by_row else _together
    return _told(read(form, lines, _At(file, of_array), run, load), notes, file)


def mended(value: Any) -> Any:
    """The JSON value with U+FFFD in the place of every half character."""
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [mended(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in cast(Json, value).items()}
    return value


def _told(given: Sequence[Bundle | FormatError], notes: list[Note], file: str) -> Salvaged:
    bundles = merged(each for each in given if isinstance(each, Bundle))
    faults = [each for each in given if isinstance(each, FormatError)]
    if not faults:
        return Salvaged(bundles, notes)
    if not bundles:
        raise faults[0]
    dropped = [Note(str(fault), True) for fault in faults]
    return Salvaged([_untorn(bundle, dropped, file) for bundle in bundles], [*dropped, *notes])


def _untorn(bundle: Bundle, dropped: list[Note], file: str) -> Bundle:
    """The bundle without trajectories whose turns stood in what dropped out."""
    whole: list[Trajectory] = []
    for trajectory in bundle.trajectories:
        try:
            bundle.walk(trajectory)
            whole.append(trajectory)
        except KeyError:
            said = f"{file}: trajectory {trajectory.id[:12]} lacks turns that could not be read"
            dropped.append(Note(said, True))
    return msgspec.structs.replace(bundle, trajectories=tuple(whole))


class _At(NamedTuple):
    """Says where in the file a piece of it stands: a line, or a member of its array."""

    file: str
    of_array: bool

    def fault(self, number: int, error: FormatError) -> FormatError:
        """The fault of piece `number` (from 1), whose reader counted the lines inside it."""
        if not self.of_array:
            return FormatError(self.file, number + max(0, error.line - 1), error.field, error.problem)
        joint = "." if error.field and not error.field.startswith("[") else ""
        return FormatError(self.file, 0, f"[{number - 1}]{joint}{error.field}", error.problem)


def _pieces(form: Format, data: bytes) -> tuple[list[bytes], bool]:
    """The file's lines, or (and true) the members of the array that it is, each as one line."""
    lines = data.split(b"\n")
    first = next((line for line in lines if line.strip()), b"")
    begin = first.lstrip()[:1]
    if begin not in (b"[", b"{"):
        return lines, False
    if begin == b"{":
        laid_out = _value(first) is None and not any(_value(line) is not None for line in lines[1:50] if line.strip())
        return ([data] if laid_out and _value(data) is not None else lines), False
    document = data.decode("utf-8", errors="replace")
    value = _value(document)
    if value is None:
        members = list(_members(document))
        # Of an array that was cut off there are the members that are whole; the rest is the one at fault.
        cut = [*(json.dumps(each).encode() for each in members), b"[cut off"]
        return (cut, True) if members and _value(first) is None else (lines, False)
    if form.recognise(b"", value):
        return [data], False
    return [json.dumps(each).encode() for each in cast(list[Any], value)], True


def _members(document: str) -> Iterator[Any]:
    """The whole members of a JSON array that breaks off."""
    decoder = json.JSONDecoder()
    at = document.index("[") + 1
    while True:
        while at < len(document) and document[at] in " \t\r\n,":
            at += 1
        try:
            value, at = decoder.raw_decode(document, at)
        except (ValueError, RecursionError):
            return
        yield value


def _value(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _whole(pieces: list[bytes], at: _At, notes: list[Note]) -> list[str]:
    """The pieces as texts that a record can hold."""
    found: list[str] = []
    for number, raw in enumerate(pieces, 1):
        text = raw.decode("utf-8", errors="replace")
        if "\ufffd" in text and "\ufffd".encode() not in raw:
            problem = "is not UTF-8; U+FFFD stands for what could not be read"
            notes.append(Note(str(at.fault(number, FormatError(at.file, 0, "", problem))), False))
        elif _ESCAPED_HALF.search(text):
            value = _value(text)
            right = mended(value)
            if right != value:
                problem = "holds half a character; U+FFFD stands in its place"
                notes.append(Note(str(at.fault(number, FormatError(at.file, 0, "", problem))), False))
                text = json.dumps(right)
        found.append(text)
    return found


def _one_by_one(form: Format, lines: list[str], at: _At, run: str, load: Loader | None) -> list[Bundle | FormatError]:
    found: list[Bundle | FormatError] = []
    for number, text in enumerate(lines, 1):
        try:
            found += form.read([text], at.file, run, load) if text.strip() else ()
        except FormatError as error:
            found.append(at.fault(number, error))
    return found


def _together(form: Format, lines: list[str], at: _At, run: str, load: Loader | None) -> list[Bundle | FormatError]:
    faults: list[Bundle | FormatError] = []
    left = list(lines)
    while True:
        try:
            return [*form.read(left, at.file, run, load), *faults]
        except FormatError as error:
            place = error.line - 1
            if not 0 <= place < len(left) or not left[place].strip() or len(left) == 1:
                raise
            wrong = [(place, FormatError(at.file, 0, error.field, error.problem))]
            if _value(left[place]) is None:  # the others that are no JSON go with it, so that they cost one reading
                wrong += _no_json(form, left, place + 1, at.file, run)
            if len(faults) + len(wrong) > MOST_DROPPED:
                number, last = wrong[MOST_DROPPED - len(faults)]
                problem = f"{last.problem}; {MOST_DROPPED} records before it cannot be read either"
                raise FormatError(at.file, number + 1, last.field, problem) from error
            for number, fault in wrong:
                faults.append(at.fault(number + 1, fault))
                left[number] = ""


def _no_json(form: Format, lines: list[str], start: int, file: str, run: str) -> list[tuple[int, FormatError]]:
    """The lines from `start` on that are no JSON, each with what the reader says of it."""
    found: list[tuple[int, FormatError]] = []
    for number in range(start, len(lines)):
        if lines[number].strip() and _value(lines[number]) is None and len(found) <= MOST_DROPPED:
            try:
                list(form.read([lines[number]], file, run, None))
            except FormatError as error:
                found.append((number, FormatError(file, 0, error.field, error.problem)))
    return found
