"""A derived tool: made by a pilot, of existing tools or of code, and kept as data until a person promotes it.

composition   a chain of existing tools with their settings: checked like any plan, run like any tools
code          a program `run(rows)`; it runs in `silva.sandbox` alone (`silva.elf.boxed`), never in our process
pipeline      a whole plan that has run: submitted again without planning anew

candidates/cand_tool_ab12cd34.json ── promote, by a person ─▶ assets/NAME/1.json, 2.json, …
"""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from silva.elf.artefact import KINDS, Artefact
from silva.elf.boxed import run_boxed
from silva.elf.plan import Plan, Step
from silva.elf.tool import Card, Cost, Determinism, Input, Permission, Tool
from silva.elf.work import Work
from silva.errors import StoreError, UsageError
from silva.lake.durable import create_whole, refusals, write_whole
from silva.tree import Json, Record, digest

GIVEN = "given"
"""The id by which a composition's first step names what it is given."""
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


class Trial(Record, frozen=True, kw_only=True):
    """One test of a candidate: on which example, whether it held, what it gave or said, seconds it took."""

    example: str
    held: bool
    said: str = ""
    seconds: float = 0.0


class Derived(Record, frozen=True, kw_only=True):
    """A derived tool or a pipeline. `gives` is the type of its artefact; `steps` are those of a composition or a
    pipeline, `source` the code; `trials` what tests found, `measured` its benchmark (rows a second, memory), `score`
    what the pilot's check said with and without it; `by` and `promoted` (Unix seconds) who let it in, and when."""

    id: str
    name: str
    kind: Literal["composition", "code", "pipeline"]
    summary: str
    gives: str = "rows"
    steps: tuple[Step, ...] = ()
    source: str = ""
    asks: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    measured: Json = msgspec.field(default_factory=dict[str, Any])
    intent: str = ""
    job: str = ""
    version: int = 0
    made: float = 0.0
    by: str = ""
    promoted: float = 0.0

    @property
    def digest(self) -> str:
        """Equal for equal contents."""
        return digest(
            "derived", self.kind, self.gives, self.source, msgspec.json.encode(self.steps, order="deterministic")
        )


def tool_of(derived: Derived, tools: Mapping[str, Tool]) -> Tool:
    """A derived tool as one that can be called.

    Args:
        derived: a composition or code.
        tools: those that a composition is made of.
    """
    permissions: tuple[Permission, ...] = ()
    missing = ""
    if derived.kind == "composition":
        used = [tools[step.tool] for step in derived.steps if step.tool in tools]
        permissions = tuple(each for each in Permission if any(each in tool.card.permissions for tool in used))
        lost = [step.tool for step in derived.steps if step.tool not in tools]
        missing = f"it is made of {lost[0]}, which is not there" if lost else ""
    if derived.gives not in KINDS:
        missing = f"it gives {derived.gives}, and there is no such type"
    card = Card(
        name=derived.name,
        summary=derived.summary,
        inputs={"rows": Input(kind="rows")},
        output=derived.gives,
        permissions=permissions,
        determinism=Determinism.OUTSIDE if permissions else Determinism.PURE,
        cost=Cost(seconds=2.0),
        version=max(derived.version, 1),
        code=derived.digest[:16],
        asks=derived.asks,
        origin="sandbox" if derived.kind == "code" else "composition",
        missing=missing,
    )

    def call(rows: Artefact, work: Work) -> Artefact:
        if derived.kind == "code":
            return run_boxed(derived.source, rows, derived.gives, derived.name)
        found: dict[str, Artefact] = {GIVEN: rows}
        for step in derived.steps:
            inputs: dict[str, Artefact | list[Artefact]] = {
                name: found[given[0]] for name, given in step.inputs.items()
            }
            found[step.id] = tools[step.tool](inputs, step.settings, work)
        return found[derived.steps[-1].id]

    return Tool(card=card, call=call, work="work")


class Assets:
    """Candidates and assets of a home.

    Args:
        home: of the engine.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def keep(self, derived: Derived) -> Derived:
        """Keep a candidate, durably. One of equal content is kept once. Raises StoreError."""
        named = msgspec.structs.replace(derived, id=f"cand_tool_{derived.digest[:8]}", made=derived.made or time.time())
        path = self._home / "candidates" / f"{named.id}.json"
        with refusals(f"candidate {path}"):
            write_whole(path, msgspec.json.format(msgspec.json.encode(named), indent=2))
        return named

    def derived(self) -> list[Derived]:
        """All that were derived, promoted or not, the latest first. Raises StoreError."""
        found = [_read(path) for path in (self._home / "candidates").glob("cand_tool_*.json")]
        return sorted(found, key=lambda each: -each.made)

    def candidates(self) -> list[Derived]:
        """Those that wait for a person, the latest first. Raises StoreError."""
        known = {each.digest for each in self.assets()}
        tested = (each for each in self.derived() if all(trial.held for trial in each.trials))
        return [each for each in tested if each.digest not in known]

    def pipeline(self, job: str, plan: Plan) -> Derived:
        """A job's plan as one that can be promoted; a derived tool in it goes by the name it was promoted under.

        Raises:
            UsageError: a derived tool in it waits for a person.
            StoreError: an asset cannot be read.
        """
        names = {each.digest: each.name for each in self.assets()}
        derived = {each.name: each for each in self.derived() if each.name not in names.values()}
        steps = list(plan.steps)
        for place, step in enumerate(steps):
            if (made := derived.get(step.tool)) is None:
                continue
            if made.digest not in names:
                raise UsageError(f"{job}: {step.tool} waits for a person; first silva elf promote {made.id} --show")
            steps[place] = msgspec.structs.replace(step, tool=names[made.digest], version=0)
        return Derived(
            id=job,
            name=f"asset-pipe-{job.replace('_', '-')}",
            kind="pipeline",
            summary=plan.intent[:200],
            steps=tuple(steps),
            intent=plan.intent,
            job=job,
        )

    def candidate(self, name: str) -> Derived:
        """A candidate by its id. Raises UsageError where there is none."""
        path = self._home / "candidates" / f"{name}.json"
        if not re.fullmatch(r"cand_tool_[0-9a-f]{8}", name) or not path.is_file():
            waiting = ", ".join(each.id for each in self.candidates()[:5]) or "none waits"
            raise UsageError(f"there is no candidate {name[:60]} in {self._home} ({waiting})")
        return _read(path)

    def assets(self) -> list[Derived]:
        """All versions of all assets, by name and version. Raises StoreError."""
        found = [_read(path) for path in (self._home / "assets").glob("*/*.json")]
        return sorted(found, key=lambda each: (each.name, each.version))

    def asset(self, name: str) -> Derived:
        """The latest version of an asset, or `NAME@VERSION`. Raises UsageError where there is none."""
        wanted, _, version = name.partition("@")
        found = [each for each in self.assets() if each.name == wanted and version in ("", str(each.version))]
        if not found:
            known = ", ".join(dict.fromkeys(each.name for each in self.assets())) or "none"
            raise UsageError(
                f"there is no asset {name[:80]} in {self._home} (there: {known}); promote a candidate or a job"
            )
        return found[-1]

    def promote(self, derived: Derived, *, name: str = "", by: str = "") -> Derived:
        """Make an asset of a candidate or a pipeline: its next version, with who let it in.

        Raises:
            UsageError: the name is none, or that of a tool; its tests did not hold.
            StoreError: the disk refuses.
        """
        wanted = name or derived.name
        if not _NAME.fullmatch(wanted.replace("_", "-")):
            raise UsageError(f"asset {wanted[:80]!r}: a name is of small letters, digits and hyphens")
        failed = [trial for trial in derived.trials if not trial.held]
        if failed:
            raise UsageError(
                f"{derived.id}: a test of it did not hold ({failed[0].example}: {failed[0].said}); it stays a candidate"
            )
        same = [each for each in self.assets() if each.name == wanted]
        if same and same[-1].digest == derived.digest:
            return same[-1]
        version = (same[-1].version if same else 0) + 1
        made = msgspec.structs.replace(derived, name=wanted, version=version, by=by or who(), promoted=time.time())
        path = self._home / "assets" / wanted / f"{version}.json"
        with refusals(f"asset {path}"):
            if not create_whole(path, msgspec.json.format(msgspec.json.encode(made), indent=2)):
                raise UsageError(f"asset {wanted}: another promoted version {version} meanwhile; look again")
        return made


def who() -> str:
    """Who runs this process, as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


def _read(path: Path) -> Derived:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Derived)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); restore it from a copy, or remove it") from error
