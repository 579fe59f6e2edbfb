"""The evolver: from a curation, and what is wrong with it, to revisions of its source.

    parent + failed points + profile + phase ─▶ revisions: source, what was changed, who acted

In the phase `effect` a revision is to make the policy better, in `efficiency` to train it on fewer turns. Whether it
does is not the evolver's word: the loop trains with it and measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from silva.curate.curation.profile import Profile
from silva.curate.curation.source import Curation
from silva.curate.curation.versions import FailedPoint
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import Acted, Role
from silva.tree import Record

Phase = Literal["effect", "efficiency"]
Judge = Callable[[Curation], dict[str, float]]
"""What a curation's policy reaches at each dev task, from 0 to 1; what was judged before costs nothing."""


class Revision(Record, frozen=True, kw_only=True):
    """A revised curation, and what was changed in a few words."""

    curation: Curation
    note: str
    acted: tuple[Acted, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What an evolver is asked for: `count` revisions of a phase. `points` is empty where nobody diagnosed. `known` are
    digests that were judged already: those need not be proposed. `seed` draws what is drawn. `judge` is there for
    evolvers that search by themselves; `tasks` are its dev tasks, `calls` the most curations it may have judged.
    `sample` are walks of the corpus to look at. What an evolver plays is kept in `lake`, as runs that begin with
    `run`."""

    phase: Phase
    count: int
    points: Sequence[FailedPoint]
    profile: Profile
    seed: int
    known: frozenset[str] = frozenset()
    judge: Judge | None = None
    tasks: Sequence[str] = ()
    calls: int = 0
    sample: Sequence[dict[str, object]] = ()
    lake: str = ""
    run: str = "evolver"


class Evolver(Protocol):
    """Revises curations."""

    async def revise(self, parent: Curation, wanted: Wanted) -> list[Revision]:
        """Revisions of a curation, each another one than the parent and than each other; fewer where it knows none.

        Raises:
            RoleError, ModelError: a model that is asked gives no answer.
            MissingError: a package is not installed.
        """
        ...


class Evolving(Implementation):
    """Somebody who plays an evolver; a subclass says its name, summary, options, and revises as `Evolver` says."""

    role: ClassVar[Role] = "evolver"


def unlike(made: Iterable[Revision], parent: Curation, wanted: Wanted) -> Iterator[Revision]:
    """Of revisions as they are made those that differ from the parent, from what was judged and from one another."""
    seen = {parent.digest, *wanted.known}
    for each in made:
        if each.curation.digest not in seen:
            seen.add(each.curation.digest)
            yield each
