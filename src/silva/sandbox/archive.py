"""Files in and out of a sandbox, as tar streams. Inside, `tar` runs as any other program of the sandbox; here, nothing
that comes out is believed.

    put:  folder here ─▶ tar (links as links, never followed) ─▶ tar inside the sandbox
    get:  tar inside ─▶ a bounded file here ─▶ unpacked into a new folder, member by member checked ─▶ moved into place
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import shutil
import stat
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import IO

from silva.errors import UsageError
from silva.tree import Record

UNPACK = 'mkdir -p -- "$1" && exec tar -x --no-same-owner --no-same-permissions -f - -C "$1"'
PACK = 'test -d "$1" || { echo "it is no folder" >&2; exit 3; }; exec tar -c -f - -C "$1" .'
READ = 'test -f "$1" || { echo "it is no plain file" >&2; exit 3; }; exec cat -- "$1"'
_MOST_MEMBERS = 1_000_000
_LATEST = (1 << 32) - 1
_MOST_AT_ONCE = 1 << 20
_ITS_OWN = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.EINVAL)
"""What goes wrong with one member's name alone."""


class Fetched(Record, frozen=True, kw_only=True):
    """What came out: how many files, their bytes, and the names of what was left out, each with why."""

    files: int
    size: int
    left_out: tuple[str, ...] = ()


def inside(path: str) -> PurePosixPath:
    """A path in a sandbox, absolute.

    Raises:
        UsageError: it is none.
    """
    if not path or "\0" in path:
        raise UsageError(f"{path!r} is no path in a sandbox")
    return PurePosixPath(os.path.normpath(f"/workspace/{path}" if not path.startswith("/") else path))


def pack(source: Path | bytes, target: PurePosixPath) -> tuple[IO[bytes], PurePosixPath]:
    """A tar file of `source`, and the folder to unpack it in. The caller closes the file.

    Raises:
        UsageError: there is no such source.
    """
    out = tempfile.TemporaryFile()  # noqa: SIM115 - handed to the caller
    try:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            if isinstance(source, bytes):
                entry = tarfile.TarInfo(target.name)
                entry.size, entry.mode = len(source), 0o644
                archive.addfile(entry, io.BytesIO(source))
            elif source.is_dir():
                archive.add(source, arcname=".", filter=_plain)
            elif source.is_file():
                archive.add(source.resolve(), arcname=target.name, filter=_plain)
            else:
                raise UsageError(f"there is no file or folder {source} to put into the sandbox")
    except OSError as error:
        out.close()
        why = error.strerror or f"it changed meanwhile ({error})"
        raise UsageError(f"{error.filename or _named(source)} cannot be read: {why}") from error
    except UsageError:
        out.close()
        raise
    out.seek(0)
    folder = target if isinstance(source, Path) and source.is_dir() else target.parent
    return out, folder


def _named(source: Path | bytes) -> str:
    return "what is to be put in" if isinstance(source, bytes) else str(source)


def unpack(stream: IO[bytes], target: Path, most: int) -> Fetched:
    """Unpack what came out of a sandbox into `target`, which must not exist.

    Raises:
        UsageError: it is damaged, or holds more than `most` bytes.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    files = size = 0
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix=f".{target.name[:100]}.", dir=target.parent) as scratch:
        place = Path(scratch) / "new"
        place.mkdir()
        try:
            with tarfile.open(fileobj=_Bounded(stream), mode="r:") as archive:
                seen: list[tarfile.TarInfo] = vars(archive)["members"]
                for number in itertools.count():
                    if (member := archive.next()) is None:
                        break
                    seen.clear()  # else a million of them are kept
                    size += member.size if member.isreg() else 0
                    if size > most or number > _MOST_MEMBERS:
                        raise UsageError(f"the folder holds more than {most:,} bytes or a million files: not copied")
                    wrong = _unsafe(member) or _written(archive, member, place)
                    if wrong:
                        left_out.append(f"{_shown(member.name)}: {wrong}")
                        continue
                    files += member.isreg()
                stream.seek(archive.offset)
                if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # what every archive ends with
                    raise EOFError("it is cut off, or broken")
        except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
            raise UsageError(f"what came out of the sandbox is no whole archive: {error}") from error
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
        absent(target)
        place.rename(target)
    return Fetched(files=files, size=size, left_out=tuple(left_out))


class _Bounded(io.RawIOBase):
    """A file of which nobody reads much at once: an archive's words about a member are read whole, however many it
    says they are."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError("a member's name or attributes are longer than any")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def absent(target: Path) -> None:
    """Make sure that nothing stands there. Raises UsageError."""
    if os.path.lexists(target):
        raise UsageError(f"{target} exists already: give a path that does not")


def _unsafe(member: tarfile.TarInfo) -> str:
    """Why a member may not be unpacked, by its words alone; "" when it may. (`tarfile`'s filters came with 3.11.4.)"""
    if "\0" in member.name or "\0" in member.linkname:
        return "no name of a file"
    if member.name.startswith("/"):
        return "an absolute path"
    parts = PurePosixPath(member.name).parts
    if ".." in parts:
        return "a path that leads out of the folder"
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return "a device or pipe"
    if member.issym() or member.islnk():
        link = PurePosixPath(member.linkname)
        if link.is_absolute():
            return "a link to an absolute path"
        # Only steps up at the beginning, and no more than there are folders above: then whatever links the rest of the
        # way may lead over, each of them ends inside too.
        steps = [part == ".." for part in link.parts]
        up = steps.index(False) if False in steps else len(steps)
        above = len(parts) - 1 if member.issym() else 0
        if any(steps[up:]) or up > above:
            return "a link that leads out of the folder"
    return ""


def _written(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> str:
    """Unpack one; why not, or "". Raises OSError: nothing can be written there any more."""
    try:
        return _write(archive, member, place)
    except OSError as error:
        if error.errno in _ITS_OWN:
            return (error.strerror or str(error)).lower()
        raise


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> str:
    """Unpack one; why not, or ""."""
    path = place / member.name
    if path == place:
        return ""
    # A name that an earlier member made a link would be followed.
    if _through_link(place, path.parent):
        return "it lies behind a link"
    if os.path.lexists(path) and not (member.isdir() and path.is_dir() and not path.is_symlink()):
        return "there is already something else of that name"
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = member.mode & 0o755 | (0o700 if member.isdir() else 0o600)
    if member.isdir():
        path.mkdir(exist_ok=True)
        path.chmod(mode)
    elif member.issym():
        path.symlink_to(member.linkname)
    elif member.islnk():
        other = place / member.linkname
        if _through_link(place, other) or not other.is_file():
            return "a hard link to what is not there"
        os.link(other, path, follow_symlinks=False)
    else:
        content = archive.extractfile(member)
        assert content is not None
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with content, os.fdopen(fd, "wb") as file:
            shutil.copyfileobj(content, file)
        os.utime(path, (when := min(max(member.mtime, 0), _LATEST), when))
    return ""


def _through_link(place: Path, path: Path) -> bool:
    while path != place:
        if path.is_symlink():
            return True
        path = path.parent
    return False


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """No devices or pipes go in, and nobody's name."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = stat.S_IMODE(member.mode) & 0o777 | (0o700 if member.isdir() else 0o600)
    return member


def _shown(name: str) -> str:
    return name.encode("unicode_escape").decode()[:200]
