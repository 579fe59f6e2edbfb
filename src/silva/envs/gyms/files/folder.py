"""The files of an episode, in memory: a name and its bytes. What is kept of an episode is therefore exact."""

from __future__ import annotations

import io
import zipfile
from pathlib import PurePosixPath

from silva.errors import UsageError

MOST_FILES = 200
MOST_BYTES = 16 << 20
"""Most bytes of one file; two such at most stand in a folder."""
_MOST_UNPACKED = 64 << 20


class Folder:
    """Files by name; a name may hold `/`, and never leads out of the folder."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self._files: dict[str, bytes] = {}
        for name, content in (files or {}).items():
            self.write(name, content)

    def names(self) -> list[str]:
        """The files' names, sorted."""
        return sorted(self._files)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str) -> bytes:
        """A file's bytes.

        Raises:
            UsageError: there is none of that name.
        """
        plain = _plain(name)
        if plain not in self._files:
            raise UsageError(f"there is no file {name!r}; there are: {', '.join(self.names()) or 'none'}")
        return self._files[plain]

    def packed(self, name: str) -> io.BytesIO:
        """An office file (a zip inside), once it is known that it does not unpack to more than 64 MB.

        Raises:
            UsageError: there is none, it is damaged, or it unpacks to too much.
        """
        content = self.read(name)
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as inside:
                size = sum(each.file_size for each in inside.infolist())
        except zipfile.BadZipFile as error:
            raise UsageError(f"{name} is damaged, or not of the kind its name says") from error
        if size > _MOST_UNPACKED:
            raise UsageError(f"{name} unpacks to {size >> 20} MB; at most {_MOST_UNPACKED >> 20} MB are read")
        return io.BytesIO(content)

    def write(self, name: str, content: bytes) -> str:
        """Write a file; its name.

        Raises:
            UsageError: the name leads out of the folder, or the file, or all of them, are too large.
        """
        plain = _plain(name)
        if len(content) > MOST_BYTES:
            raise UsageError(f"{plain} is {len(content) >> 20} MB; a file has at most {MOST_BYTES >> 20} MB")
        others = sum(len(each) for known, each in self._files.items() if known != plain)
        if others + len(content) > 2 * MOST_BYTES:
            raise UsageError(f"the folder is full: its files have at most {2 * MOST_BYTES >> 20} MB together")
        if plain not in self._files and len(self._files) >= MOST_FILES:
            raise UsageError(f"the folder holds {MOST_FILES} files already")
        self._files[plain] = content
        return plain

    def replace(self, files: dict[str, bytes]) -> None:
        """Make these the files, all or none of them."""
        self._files = Folder(files)._files

    def items(self) -> dict[str, bytes]:
        """A copy of what there is."""
        return dict(self._files)


def _plain(name: object) -> str:
    path = PurePosixPath(str(name).strip().removeprefix("./"))
    if path.is_absolute() or ".." in path.parts or not path.parts or len(str(path)) > 200 or "\0" in str(path):
        raise UsageError(f"file name {str(name)[:80]!r}: a plain name inside the folder, such as report.xlsx")
    return str(path)
