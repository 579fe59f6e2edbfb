"""A job: a folder that says what is to be done, under which bounds, and what is done.

HOME/jobs/job_1a2b3c4d/  job.json  plan.json  ledger.jsonl  clock  spent.jsonl  files/  report.md  report.html
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import msgspec

from silva.elf.plan import Budget, Plan, encoded_plan, read_plan
from silva.elf.tool import Permission
from silva.errors import StoreError, UsageError
from silva.lake.durable import make_folder, refusals, write_whole
from silva.tree import Record, digest

_NAME = re.compile(r"(job|pilot)_[0-9a-f]{8}")


class Terms(Record, frozen=True, kw_only=True):
    """Under which terms a job runs: its lake, the model that may be asked, what is granted, what it may take, where
    OpenLineage's events go besides its folder. `replay`: a folder of recorded replies; with it no tool reaches a
    network."""

    lake: str = ""
    model: str = ""
    granted: tuple[Permission, ...] = (Permission.READ,)
    budget: Budget = Budget()
    lineage: str = ""
    replay: str = ""
    made: float = 0.0
    intent: str = ""


class Job:
    """A job's folder. Made by `Job.begin` or found by `Job.find`."""

    def __init__(self, folder: Path, terms: Terms, plan: Plan) -> None:
        self.folder, self.terms, self.plan = folder, terms, plan

    @property
    def id(self) -> str:
        """Its name."""
        return self.folder.name

    @property
    def files(self) -> Path:
        """Where its steps write files."""
        return self.folder / "files"

    @classmethod
    def begin(cls, home: Path, plan: Plan, terms: Terms, *, within: Path | None = None) -> Job:
        """Make the folder of a new job.

        Args:
            home: of the engine.
            plan: checked.
            terms: its bounds.
            within: the folder it lies in; that of all jobs when None.

        Raises:
            StoreError: the disk refuses.
        """
        terms = msgspec.structs.replace(terms, made=time.time(), intent=plan.intent)
        name = f"job_{digest('job', plan.digest, os.urandom(8).hex())[:8]}"
        folder = (within or home / "jobs") / name
        with refusals(f"job {folder}"):
            make_folder(folder / "files")
            write_whole(folder / "plan.json", encoded_plan(plan))
            write_whole(folder / "job.json", msgspec.json.encode(terms))
        return cls(folder, terms, plan)

    @classmethod
    def find(cls, home: Path, name: str) -> Job:
        """The job of that name.

        Raises:
            UsageError: there is none.
            StoreError: its folder is damaged.
        """
        folder = home / "jobs" / name
        if not _NAME.fullmatch(name) or not (folder / "job.json").is_file():
            known = ", ".join(jobs(home)[:5]) or "none"
            raise UsageError(f"there is no job {name[:60]} in {home} (the last ones: {known})")
        return cls.at(folder)

    @classmethod
    def at(cls, folder: Path) -> Job:
        """The job of a folder. Raises StoreError."""
        try:
            terms = msgspec.json.decode((folder / "job.json").read_bytes(), type=Terms)
            return cls(folder, terms, read_plan((folder / "plan.json").read_bytes(), str(folder / "plan.json")))
        except (OSError, msgspec.DecodeError, UsageError) as error:
            raise StoreError(f"job {folder}: cannot be read ({error}); begin it anew") from error

    def under(self, terms: Terms) -> Job:
        """The same job under other terms (a larger budget). Raises StoreError."""
        with refusals(f"job {self.folder}"):
            write_whole(self.folder / "job.json", msgspec.json.encode(terms))
        return Job(self.folder, terms, self.plan)


def jobs(home: Path) -> list[str]:
    """The names of all jobs, the latest first."""
    found = [each for each in (home / "jobs").glob("job_*") if (each / "job.json").is_file()]
    return [each.name for each in sorted(found, key=lambda each: -(each / "job.json").stat().st_mtime)]


def default_home(lake: str) -> Path:
    """Where the engine keeps its jobs: SILVA_ELF, else the folder `elf` beside a lake on disk, else `./elf`."""
    named = os.environ.get("SILVA_ELF")
    if named:
        return Path(named)
    return Path(lake).resolve().parent / "elf" if lake and "://" not in lake else Path("elf")
