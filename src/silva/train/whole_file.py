"""A file that is there whole or not at all: written beside its name, synced, then renamed."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from silva.errors import UsageError


class Whole:
    """Opens a draft of `path` to write bytes; leaving the block without a fault puts it in place.

    Raises:
        UsageError: the file is there already and `force` is not said, or the disk refuses; the draft is removed.
    """

    def __init__(self, path: Path, force: bool = False) -> None:
        self._path = path
        if path.exists() and not force:
            raise UsageError(f"{path.name}: is there already; add --force to replace it")

    def __enter__(self) -> IO[bytes]:
        try:
            descriptor, self._draft = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        except OSError as error:
            raise UsageError(f"{self._path.name}: cannot be written ({error.strerror})") from error
        self._file = os.fdopen(descriptor, "wb")
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        draft = Path(self._draft)
        try:
            if kind is None:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            if kind is None:
                mask = os.umask(0)
                os.umask(mask)
                draft.chmod(0o666 & ~mask)  # what open() would have given; mkstemp keeps others out
                draft.replace(self._path)
        except OSError as refused:
            raise UsageError(f"{self._path.name}: cannot be written ({refused.strerror})") from refused
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            raise UsageError(f"{self._path.name}: cannot be written ({error.strerror})") from error
