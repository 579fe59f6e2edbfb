"""A bank: a folder of skills, each in a folder of its own, with every version it ever had.

    BANK/NAME/SKILL.md            the version in force
    BANK/NAME/versions/3.md       versions before it

What is superseded, rejected or retired stays readable; nothing is deleted. Each change is one file replaced whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from silva.errors import StoreError, UsageError
from silva.lake.durable import refusals, write_whole
from silva.rollout.skills.skill import Skill, Status, Trial, read_skill, write_skill

FILE = "SKILL.md"
_MOST = 1 << 20
"""Bytes of a SKILL.md that are read."""


class Bank:
    """A folder of skills.

    Args:
        folder: where; it need not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def there(cls, folder: Path) -> Bank:
        """The bank in a folder.

        Raises:
            UsageError: there is no such folder.
        """
        if not folder.is_dir():
            raise UsageError(
                f"skills {folder}: there is no such folder; make one with silva skills distil RUN -o {folder}"
            )
        return cls(folder)

    def __iter__(self) -> Iterator[Skill]:
        """Every skill in its version in force, by name.

        Raises:
            UsageError: a file is no skill; it is named.
        """
        for path in sorted(self.folder.glob(f"*/{FILE}")) if self.folder.is_dir() else ():
            yield self._read(path)

    def kept(self) -> list[Skill]:
        """Those that are given to agents."""
        return [skill for skill in self if skill.status == "kept"]

    def get(self, name: str) -> Skill:
        """The skill of that name.

        Raises:
            UsageError: there is none.
        """
        path = self.folder / name / FILE
        if not path.is_file():
            names = ", ".join(skill.name for skill in self) or "none"
            raise UsageError(f"skills {self.folder}: has no skill {name}; there are: {names}")
        return self._read(path)

    def versions(self, name: str) -> list[Skill]:
        """All versions of a skill, oldest first."""
        before = sorted((self.folder / name / "versions").glob("*.md"), key=lambda path: int(path.stem))
        return [*(self._read(path) for path in before), self.get(name)]

    def put(self, skill: Skill) -> Skill:
        """Keep a skill. One that says the same as the version in force changes nothing; one that says something else
        supersedes it, as a candidate of the next version.

        Raises:
            UsageError: the skill is not of the form.
            StoreError: it cannot be written.
        """
        skill.checked()
        if not (self.folder / skill.name / FILE).is_file():
            return self._write(skill)
        known = self.get(skill.name)
        if known.digest == skill.digest:
            return known
        self._write(known, f"versions/{known.version}.md")
        return self._write(replace(skill, version=known.version + 1))

    def mark(self, name: str, status: Status, *, why: str = "", trial: Trial | None = None) -> Skill:
        """Say what has become of a skill.

        Raises:
            UsageError: there is none of that name.
            StoreError: it cannot be written.
        """
        known = self.get(name)
        return self._write(replace(known, status=status, why=why, trial=trial or known.trial))

    def _read(self, path: Path) -> Skill:
        try:
            with path.open("rb") as file:
                data = file.read(_MOST + 1)
            if len(data) > _MOST:
                raise UsageError(f"{path}: is longer than {_MOST >> 20} MB")
            skill = read_skill(data.decode(), str(path))
        except (OSError, UnicodeDecodeError) as fault:
            raise UsageError(f"{path}: it cannot be read ({fault})") from fault
        if path.name == FILE and path.parent.name != skill.name:
            raise UsageError(f"{path}: its name is {skill.name}, its folder's {path.parent.name}; they must agree")
        return skill

    def _write(self, skill: Skill, name: str = FILE) -> Skill:
        path = self.folder / skill.name / name
        try:
            with refusals(f"skills {self.folder}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, write_skill(skill).encode())
        except OSError as fault:
            raise StoreError(f"{path}: it cannot be written ({fault})") from fault
        return skill
