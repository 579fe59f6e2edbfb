"""Files of the sandbox viewed, written, edited and searched. Every answer is text for the agent, bounded in length.

A file is changed in place, so that its rights stay; programs in the sandbox do the writing, with the sandbox's rights.
"""

from __future__ import annotations

from silva.envs.gyms.terminal.places import Places
from silva.errors import UsageError
from silva.sandbox.protocol import Sandbox
from silva.sandbox.result import Result

MOST_LINES = 400
MOST_CHARACTERS = 16_000
_MOST_BYTES = 8 << 20
_SECONDS = 30.0
_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
_LIST = 'cd -- "$1" && ls -lAp --time-style=+'
_ENDS = ("is a directory", "it is no plain file")


async def view(sandbox: Sandbox, places: Places, path: str, first: int = 1, last: int = 0) -> str:
    """A file's lines with their numbers, or what a folder holds.

    Raises:
        UsageError: there is no such file, or it is too large to view.
    """
    place = places.asked(path)
    try:
        content = await sandbox.get(place, most=_MOST_BYTES)
    except UsageError as error:
        listed = await _run(sandbox, _LIST, places.named(place))
        if listed.ok:
            return bounded(listed.text) or "the folder is empty"
        raise UsageError(f"{path}: {_why(error, place)}") from error
    if b"\0" in content[:8192]:
        raise UsageError(f"{path} is binary ({len(content):,} bytes); document_read reads PDF, DOCX, PPTX and images")
    return numbered(content.decode(errors="replace"), first, last)


async def write(sandbox: Sandbox, places: Places, path: str, text: str) -> str:
    """Write a whole file; folders above it are made.

    Raises:
        UsageError: it cannot be written.
    """
    done = await _run(sandbox, _WRITE, places.named(places.asked(path)), text.encode())
    if not done.ok:
        raise UsageError(f"{path} cannot be written: {_complaint(done)}")
    return f"{path} written: {len(text.encode()):,} bytes"


async def edit(sandbox: Sandbox, places: Places, path: str, old: str, new: str, everywhere: bool = False) -> str:
    """Put `new` in the place of `old` in a file.

    Raises:
        UsageError: it is not there, or there more than once.
    """
    try:
        content = (await sandbox.get(places.asked(path), most=_MOST_BYTES)).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text: use a command") from None
    except UsageError as error:
        raise UsageError(f"{path}: {_why(error, places.asked(path))}") from error
    changed, count = replaced(content, old, new, everywhere)
    await write(sandbox, places, path, changed)
    line = content[: content.index(old)].count("\n") + 1
    return f"{path}: {count} {'place' if count == 1 else 'places'} changed, the first in line {line}"


async def search(sandbox: Sandbox, places: Places, pattern: str, path: str = ".", names: str = "") -> str:
    """Lines that match an extended regular expression, as `file:line: text`.

    Raises:
        UsageError: the pattern or the path makes no sense.
    """
    words = ["grep", "-rnIE", "--max-count=200", *([f"--include={names}"] if names else []), "-e", pattern, "--", "."]
    place = places.asked(path)
    if not (await _run(sandbox, 'test -d "$1"', places.named(place))).ok:
        words[-1], place = places.named(place), places.folder
    done = await sandbox.exec(words, seconds=_SECONDS, folder=place)
    if done.code > 1 or done.killed:
        raise UsageError(f"search: {_complaint(done)}")
    lines = sorted(line.removeprefix("./") for line in done.text.splitlines())
    return bounded("\n".join(lines)) or "no line matches"


def numbered(text: str, first: int = 1, last: int = 0) -> str:
    """Lines `first` to `last` (0: as many as are shown) with their numbers, and a word on what is left out."""
    lines = text.splitlines()
    first = max(1, first)
    last = min(last or len(lines), len(lines), first + MOST_LINES - 1)
    shown, size = [], 0
    for number in range(first, last + 1):
        line = f"{number:6}  {lines[number - 1]}"
        size += len(line) + 1
        if size > MOST_CHARACTERS and shown:
            last = number - 1
            break
        shown.append(line[:MOST_CHARACTERS])
    if not shown:
        return f"the file has {len(lines)} lines; none from {first} on" if lines else "the file is empty"
    rest = f"\n[lines {first} to {last} of {len(lines)}]" if first > 1 or last < len(lines) else ""
    return "\n".join(shown) + rest


def replaced(text: str, old: str, new: str, everywhere: bool = False) -> tuple[str, int]:
    """The text with `old` replaced, and how often.

    Raises:
        UsageError: `old` is empty, not there, or there more than once without `everywhere`.
    """
    if not old:
        raise UsageError("old is empty: give the text to replace, or use file_write")
    count = text.count(old)
    if not count:
        raise UsageError("old is not in the file: copy it exactly, spaces and line ends included")
    if count > 1 and not everywhere:
        raise UsageError(f"old stands in {count} places: give more of the text around it, or everywhere: true")
    return text.replace(old, new), count


def bounded(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text, its middle left out where it is longer than `most` characters."""
    text = text.rstrip("\n")
    if len(text) <= most:
        return text
    left = most // 2
    return f"{text[:left]}\n[{len(text) - 2 * left:,} characters left out]\n{text[-left:]}"


async def _run(sandbox: Sandbox, script: str, path: str, stdin: bytes = b"") -> Result:
    return await sandbox.exec(["sh", "-c", script, "sh", path], stdin=stdin, seconds=_SECONDS)


def _complaint(done: Result) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return done.reason or (lines[-1] if lines else f"exit code {done.code}")


def _why(error: UsageError, place: str) -> str:
    return str(error).removeprefix(f"{place} in the sandbox ").removeprefix(f"{place} cannot be read in the sandbox: ")
