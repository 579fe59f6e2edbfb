"""The folder of all jobs: who holds it, which jobs are in it, and the tokens that tell them apart.

FOLDER/writer.lock     one process at a time
FOLDER/secret          drawn once, readable by its owner alone; a job's token is derived from it, so that tokens
                       outlive the process and none is kept
FOLDER/jobs/JOB/…      see `files`
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from silva.errors import StoreError
from silva.lake.durable import make_folder, sync_folder, write_whole
from silva.lake.lock import FolderLock
from silva.train.buffer.config import JOB_NAME, JobConfig
from silva.train.buffer.controller import Controller
from silva.train.buffer.files import kept_events
from silva.train.buffer.job import Job
from silva.train.buffer.refused import Refused

READ_TRIES = 3


class Jobs:
    """The jobs of one folder, open for writing; `close` it, or use it as an async context manager.

    Args:
        folder: made if missing.
        most: how many jobs there may be.
        answer_bytes: samples that one take returns.

    Raises:
        StoreError: another process holds it, or it cannot be read or written.
    """

    def __init__(self, folder: Path, *, most: int = 1024, answer_bytes: int = 1 << 40) -> None:
        self._folder, self._most, self._answer_bytes = folder, most, answer_bytes
        self._open: dict[str, Job] = {}
        try:
            self._lock = FolderLock(folder, folder.name)
        except StoreError as error:
            text = str(error).removeprefix(f"lake {folder.name}: ").split(";")[0]
            advice = "stop that process" if "being written" in text else "mend it"
            raise StoreError(f"buffer {folder.name}: {text}; {advice}, or choose another folder") from error
        try:
            self._secret = _secret(folder)
            for name in job_names(folder):
                self._open[name] = Job(
                    name, read_terms(folder, name), folder / "jobs" / name, answer_bytes=answer_bytes
                )
        except BaseException as error:
            for job in self._open.values():
                job.release()
            self._lock.release()
            if isinstance(error, OSError):
                raise StoreError(f"buffer {folder.name}: {error.strerror}; give this user write access") from error
            raise

    async def __aenter__(self) -> Jobs:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def names(self) -> list[str]:
        """The jobs there are."""
        return sorted(self._open)

    def open(self, name: str, terms: JobConfig) -> Job:
        """A job: a new one, or, by the same terms, the one there is.

        Raises:
            Refused: it was opened with other terms, there are too many, or the name is none.
            StoreError: it cannot be written.
        """
        if not JOB_NAME.fullmatch(name):
            raise Refused("malformed", f"job {name[:60]!r}: use letters, digits, '.', '_' and '-', at most 100")
        known = self._open.get(name)
        if known is not None:
            for key, value in terms.model_dump().items():
                before = getattr(known.terms, key)
                if before != value:
                    raise Refused(
                        "conflict", f"job {name}: was opened with {key}={before}, not {value}; use another name"
                    )
            return known
        if len(self._open) >= self._most:
            raise Refused("conflict", f"job {name}: there are {len(self._open)} jobs already; remove the folder of one")
        folder = self._folder / "jobs" / name
        try:
            make_folder(folder)
            write_whole(folder / "job.json", json.dumps({"schema": 1, "terms": terms.model_dump()}).encode())
        except OSError as error:
            raise StoreError(f"buffer job {name}: {error.strerror or error}; mend it and open it again") from error
        job = self._open[name] = Job(name, terms, folder, answer_bytes=self._answer_bytes)
        return job

    def get(self, name: str) -> Job:
        """An open job.

        Raises:
            Refused: `not_found`.
        """
        if name not in self._open:
            raise Refused("not_found", f"job {name[:60]!r}: is not here; open it first")
        return self._open[name]

    def token(self, name: str) -> str:
        """What the clients of a job present."""
        digest = hmac.new(self._secret, name.encode(), hashlib.sha256).hexdigest()
        return f"sk-silva-buffer.{name}.{digest[:48]}"

    async def close(self) -> None:
        """Write what is on its way and let the next process in."""
        try:
            await asyncio.gather(*(job.close() for job in self._open.values()))
        finally:
            self._lock.release()


def job_names(folder: Path) -> Iterator[str]:
    """The jobs in a folder."""
    found = sorted((folder / "jobs").iterdir()) if (folder / "jobs").is_dir() else []
    return (path.name for path in found if (path / "job.json").is_file())


def read_terms(folder: Path, name: str) -> JobConfig:
    """What a job was opened with.

    Raises:
        StoreError: its file is damaged.
        OSError: it cannot be read.
    """
    try:
        return JobConfig.model_validate(json.loads((folder / "jobs" / name / "job.json").read_bytes())["terms"])
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise StoreError(f"buffer job {name}: its job.json is damaged; restore it from a copy") from error


def read_job(folder: Path, name: str) -> Controller:
    """A job as its journal tells it, without changing anything; also while another process writes it.

    Raises:
        StoreError: there is no such job, or it cannot be read.
    """
    if name not in job_names(folder):
        raise StoreError(f"buffer {folder.name}: has no job {name!r}; see `silva train buffer --status`")
    for _ in range(READ_TRIES):
        try:
            controller = Controller(read_terms(folder, name))
            for event in kept_events(folder / "jobs" / name):
                controller.apply(event)
            return controller
        except FileNotFoundError:  # the writer sealed a segment between our look and our read
            continue
        except OSError as error:
            raise StoreError(f"buffer job {name}: {error.strerror or error}; give this user read access") from error
    raise StoreError(f"buffer job {name}: its files change too fast to be read; try again")


def _secret(folder: Path) -> bytes:
    path = folder / "secret"
    if not path.exists():
        draft = folder / ".secret"
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_folder(folder)
    return path.read_bytes()
