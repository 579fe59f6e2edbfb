"""The curations of a lake: each version's source, where it comes from, and what was found of it.

    source ─▶ blob ─▶ event `written` (parent, author, phase) ─▶ it is a version; written again it is as it was
    a loop judges it ─▶ event `judged` (P, C, J, turns, seeds, verdict, why)

A line of curations is a ledger of the lake (`silva.lake.ledger`), as a line of policies is: many processes may write
it, and nothing in it changes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from silva.curate.curation.profile import Profile
from silva.curate.curation.source import Curation
from silva.errors import StoreError, UsageError
from silva.lake import Ledger, blobs, default_location
from silva.lake.layout import is_lake, make_lake
from silva.lake.ledger import ledgers
from silva.lake.place import Place, place
from silva.rollout.acted import Acted
from silva.tree import Json, Record

ROOT = "curations"
_TRIES = 1000

Verdict = Literal["kept", "rolled back", "refused", ""]


class FailedPoint(Record, frozen=True, kw_only=True):
    """A weakness that failed walks show: what failed (`point`), where it is seen, and what a curation might do
    (`hint`).
    `tasks` are those whose walks show it, `operators` names that the hint means."""

    point: str
    evidence: str
    hint: str
    tasks: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


class Judgement(Record, frozen=True, kw_only=True):
    """What a loop found of a version: performance on `dev` and cost from 0 to 1, J, the turns trained on, the seeds
    that trained it, the runs in which it was measured, and what became of it."""

    loop: str
    p: float
    c: float
    j: float
    turns: int
    seeds: tuple[int, ...]
    runs: tuple[str, ...] = ()
    epoch: int = 0
    verdict: Verdict = ""
    why: str = ""
    profile: Profile | None = None
    failed: tuple[FailedPoint, ...] = ()
    at: float = 0.0


class Version(Record, frozen=True, kw_only=True):
    """One curation of a lake. `phase`: `initial`, `effect`, `efficiency`, or "" where a person wrote it; `acted` who
    wrote it; `corpus` the digest of what it was made for; `judged` every judgement, oldest first."""

    digest: str
    blob: str
    parent: str = ""
    author: str = ""
    phase: str = ""
    note: str = ""
    corpus: str = ""
    acted: tuple[Acted, ...] = ()
    at: float = 0.0
    judged: tuple[Judgement, ...] = ()


class _Event(Record, frozen=True, kw_only=True):
    what: Literal["written", "judged"]
    digest: str
    version: Version | None = None
    judgement: Judgement | None = None


class Curations:
    """The curations of one lake, in one line.

    Args:
        location: of the lake; the default lake when None.
        line: the name of the line.
        make: make the lake where there is none.

    Raises:
        StoreError: it is no lake, or of another Silva.
    """

    def __init__(self, location: str | None = None, line: str = "main", *, make: bool = False) -> None:
        self._place: Place = place(location if location is not None else default_location())
        if not is_lake(self._place, make=make):
            make_lake(self._place)
        self.line = line
        self._ledger = Ledger(self._place, f"{ROOT}/{line}")

    @property
    def location(self) -> str:
        """The lake's name, as it was given."""
        return self._place.where

    def versions(self) -> list[Version]:
        """All versions, in the order in which they were written, with what was found of them.

        Raises:
            StoreError: the ledger is damaged, or of a newer Silva.
        """
        found: dict[str, Version] = {}
        for event in self._events():
            if event.version is not None:
                found.setdefault(event.digest, event.version)
            elif event.judgement is not None and event.digest in found:
                known = found[event.digest]
                found[event.digest] = msgspec.structs.replace(known, judged=(*known.judged, event.judgement))
        return list(found.values())

    def find(self, prefix: str) -> Version:
        """The version whose digest begins so.

        Raises:
            UsageError: there is none, or more than one.
        """
        known = self.versions()
        found = [each for each in known if each.digest.startswith(prefix)] if prefix else []
        if len(found) != 1:
            what = f"{len(found)} curations begin" if found else "no curation begins"
            there = ", ".join(each.digest[:12] for each in known[-8:]) or "none"
            raise UsageError(
                f"lake {self.location}: {what} with {prefix[:40]!r} in line {self.line}; there are {there}"
            )
        return found[0]

    def source(self, version: Version) -> Curation:
        """The text of a version.

        Raises:
            StoreError: its blob is gone or damaged.
        """
        return Curation(source=blobs.get(self._place, version.blob).decode())

    def write(
        self,
        curation: Curation,
        *,
        parent: str = "",
        author: str = "",
        phase: str = "",
        note: str = "",
        corpus: str = "",
        acted: Sequence[Acted] = (),
    ) -> Version:
        """Keep a curation; one that is there already is as it was.

        Raises:
            StoreError: it could not be written.
        """
        blob = blobs.put(self._place, curation.source.encode())
        made = Version(
            digest=curation.digest,
            blob=blob,
            parent=parent,
            author=author,
            phase=phase,
            note=note,
            corpus=corpus,
            acted=tuple(acted),
            at=time.time(),
        )
        for _ in range(_TRIES):
            known = next((each for each in self.versions() if each.digest == made.digest), None)
            if known is not None:
                return known
            if self._append(_Event(what="written", digest=made.digest, version=made), (blob,)):
                return made
        raise StoreError(f"lake {self.location}: curations {self.line}: others write too fast; try again")

    def judge(self, digest: str, judgement: Judgement) -> None:
        """Keep what was found of a version; found before by the same loop in the same epoch, it is as it was.

        Raises:
            UsageError: there is no such version.
            StoreError: it could not be written.
        """
        judgement = msgspec.structs.replace(judgement, at=judgement.at or time.time())
        for _ in range(_TRIES):
            known = self.find(digest).judged
            if any((each.loop, each.epoch) == (judgement.loop, judgement.epoch) for each in known):
                return
            if self._append(_Event(what="judged", digest=digest, judgement=judgement)):
                return
        raise StoreError(f"lake {self.location}: curations {self.line}: others write too fast; try again")

    def _events(self) -> list[_Event]:
        try:
            return [msgspec.json.decode(bytes(entry.data), type=_Event) for entry in self._ledger.entries()]
        except msgspec.DecodeError as error:
            raise StoreError(
                f"lake {self.location}: curations {self.line} hold what this Silva cannot read ({error}); upgrade silva"
            ) from error

    def _append(self, event: _Event, named: tuple[str, ...] = ()) -> bool:
        number = len(self._ledger.entries()) + 1
        return self._ledger.append(number, msgspec.json.encode(event), named)


def lines(location: str | None = None) -> list[str]:
    """Names of the lines of curations of a lake.

    Raises:
        StoreError: it is no lake.
    """
    where = place(location if location is not None else default_location())
    is_lake(where, make=False)
    return [name.removeprefix(f"{ROOT}/") for name in ledgers(where, ROOT)]


def as_json(version: Version) -> Json:
    """A version as JSON."""
    made: Any = msgspec.to_builtins(version)
    return made
