"""A run's output folder: held against other runs, with the configuration it began with."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from silva.errors import StoreError, UsageError
from silva.lake.durable import write_whole

CONFIG = "config.yaml"
CHECKPOINTS = "checkpoints"
ENGINE = "engine"
"""In a checkpoint: the engine's state."""
BUFFER = "buffer"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def disk_refusals(what: str, then: str = "go on with --resume") -> Iterator[None]:
    """Tell what the disk refuses in the block as one line that names `what`, and what to do `then`.

    Raises:
        StoreError: it did.
    """
    try:
        yield
    except OSError as error:
        why = "the disk is full: free space" if error.errno in _FULL else f"{error.strerror or error}: check the disk"
        raise StoreError(f"{what} cannot be written, {why}, then {then}") from error


@contextmanager
def held(output: Path, resume: bool) -> Iterator[None]:
    """Hold the output folder against other runs.

    Raises:
        UsageError: another run trains into it, it holds one (without `resume`) or none (with it), or it cannot be
            written.
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"output {output}: is a file; name a folder")
    used = any((output / name).exists() for name in (CONFIG, CHECKPOINTS, BUFFER))
    if used and not resume:
        raise UsageError(f"output {output}: holds a run already; go on with --resume, or name another folder")
    if resume and not used:
        raise UsageError(f"output {output}: holds no run to resume; leave --resume out to begin one")
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = FileLock(output / ".lock")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UsageError(f"output {output}: another run trains into it; wait for it, or name another folder") from error
    except OSError as error:
        raise UsageError(f"output {output}: cannot be written ({error.strerror or error})") from error
    try:
        yield
    finally:
        lock.release()


def keep_config(output: Path, values: Mapping[str, Any]) -> None:
    """Write the configuration into the folder.

    Raises:
        StoreError: the disk refused.
    """
    with disk_refusals(CONFIG, "try again"):  # where nothing stands yet there is nothing to resume
        write_whole(output / CONFIG, yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True).encode())
