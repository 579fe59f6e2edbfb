"""A writer for the files gym that needs no model: a question of the grammar, and the files it needs drawn by code.

    seed (a world, a level, patterns) ─▶ question ─▶ needed files ─▶ their descriptions ─▶ Candidate with a solution

Worlds are those of training, which share no name with the tests' (`silva.envs.gyms.files.grammar.seeds`); what a
question's answer is, is reckoned from the files. Whether it can be answered is for validation to find out.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from random import Random

from pydantic import Field

from silva.envs.gyms.files.grammar.asking import Draft, draft
from silva.envs.gyms.files.grammar.quantities import NUMBERS, TEXTS
from silva.envs.gyms.files.grammar.seeds import TEST, TRAIN, Theme, apart
from silva.envs.handle import EnvironmentHandle
from silva.envs.protocol import Goal
from silva.errors import UsageError
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import Acted
from silva.rollout.section import Section
from silva.tree import Json, Message, Task, assistant, call, digest


class FilesOptions(Section):
    """`levels`: which are drawn, in turn; `patterns`: quantities that every question has to hold one of (none: any);
    `themes`: worlds of training to draw from (none: all)."""

    levels: tuple[int, ...] = Field(default=(1, 2, 3), min_length=1)
    patterns: tuple[str, ...] = ()
    themes: tuple[str, ...] = ()


class FilesWriter(Implementation):
    """Questions on files, drawn from a grammar."""

    role, name, summary = "writer", "files", "questions on files that code draws, from a grammar in worlds of training"
    Options = FilesOptions

    def __init__(self, options: FilesOptions | None = None) -> None:
        super().__init__(options)
        said: FilesOptions = self.options
        shared = apart(TEST, TRAIN)
        if shared:
            raise UsageError(f"writer files: the worlds of training and of the tests share {', '.join(shared[:3])}")
        known = {**NUMBERS, **TEXTS}
        for name in said.patterns:
            if name not in known:
                raise UsageError(f"writer files: there is no pattern {name!r}; there are {', '.join(known)}")
        if any(level not in (1, 2, 3) for level in said.levels):
            raise UsageError(f"writer files: levels {said.levels}: 1, 2 and 3 there are")
        self._themes = themes(said.themes)

    async def write(
        self, env: EnvironmentHandle, place: Task, count: int, seed: int = 0, known: Collection[str] = ()
    ) -> list[Candidate]:
        """Candidates in places of their own; of `place` only the environment's name counts."""
        said: FilesOptions = self.options
        chance = Random(f"files writer/{seed}/{place.id}")
        asked = set(known)
        found: list[Candidate] = []
        for number in range(20 * count):
            if len(found) == count:
                break
            began = time.monotonic()
            level, theme = said.levels[number % len(said.levels)], chance.choice(self._themes)
            wanted = (chance.choice(said.patterns),) if said.patterns else ()
            made = draft(chance, theme, level, wanted)
            if made.words in asked or (wanted and not {*said.patterns} & {*made.pattern.split("+")}):
                continue
            asked.add(made.words)
            deed = Acted(role="writer", by=self.name, seconds=time.monotonic() - began)
            found.append(_candidate(place.env, made, theme, level, f"{seed}/{place.id}/{number}", deed))
        return found


def themes(names: Collection[str]) -> list[Theme]:
    """The worlds of training of these names, all where there are none.

    Raises:
        UsageError: there is no such world, or it is one of the tests.
    """
    known = {theme.name: theme for theme in TRAIN}
    for name in names:
        if name in {theme.name for theme in TEST}:
            raise UsageError(f"writer files: the world {name} is the tests'; of training are {', '.join(known)}")
        if name not in known:
            raise UsageError(f"writer files: there is no world {name!r}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(TRAIN)


def placed(env: str, files: Json, made: Json) -> Task:
    """A place of the files gym: files and how they came about, with nothing asked of them yet."""
    name = digest("files place", repr(sorted(files.items())))[:12]
    return Task(id=f"files/place/{name}", env=env, split="train", data={"files": files, "made": made})


def acts(solution: list[Json]) -> tuple[Message, ...]:
    """A solution's calls as actions."""
    return tuple(
        assistant("", call(str(each["tool"]), each["arguments"], f"call{number}"))
        for number, each in enumerate(solution, 1)
    )


def _candidate(env: str, made: Draft, theme: Theme, level: int, seed: str, deed: Acted) -> Candidate:
    solution = made.solution
    needs = [{"path": path, "kind": str(spec["kind"])} for path, spec in sorted(made.files.items())]
    # Provenance: what it was drawn from, so that it can be drawn again.
    how: Json = {"by": "files", "theme": theme.name, "level": level, "pattern": made.pattern, "seed": seed}
    goal = Goal(words=made.words, data={"check": made.check, "solution": solution}, pattern=made.pattern)
    place = placed(env, made.files, how)
    return Candidate(place=place, goal=goal, solution=acts(solution), acted=(deed,), notes={**how, "needs": needs})
