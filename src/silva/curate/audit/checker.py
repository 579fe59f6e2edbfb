"""A checker: one file, one class, one risk; registered by a decorator, or by an entry point of a package.

    @checker
    class Mine(RowChecker):
        name, risk, family, summary = "mine", "secret", Family.RULES, "what it looks for"
        def check(self, row):
            for node, part, text in self.texts(row):
                yield self.finding(row, node, part, match.start(), match.end(), score=0.9, evidence="…")

A `RowChecker` sees one row, a `SetChecker` all rows of an audit at once, or many where its `whole` is false.
Modules in `silva.curate.audit.checkers` are found by themselves; a package names its classes under `silva.checkers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from silva.curate.audit.finding import Finding, NotChecked, parts
from silva.curate.audit.risks import known_risk
from silva.curate.registry import Registry
from silva.errors import UsageError
from silva.tree import Author, Node
from silva.tree.message import Role

if TYPE_CHECKING:
    from silva.curate.rows import Row

GROUP = "silva.checkers"
"""The group of entry points that name checkers of packages."""


class Family(StrEnum):
    """How a checker knows: by rules, by trained heads on features, by asking a model, or from the whole data set."""

    RULES = "rules"
    HEADS = "heads"
    JUDGES = "judges"
    DATASET = "dataset"


class Settings(BaseModel):
    """What checkers may use. `model`: who judges ask, as `silva rollout --model` names it ("": nobody); `embedder`: the
    embedder of heads ("": the best there is here); `parallel` questions at once, each answered within `deadline`
    seconds and `tokens`; `longest`: characters of a text beyond which its row is not checked; `options`: by checker,
    what only it knows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = ""
    embedder: str = ""
    parallel: int = Field(default=4, ge=1)
    deadline: float = Field(default=120.0, gt=0)
    tokens: int = Field(default=300, ge=1)
    longest: int = Field(default=2_000_000, ge=1000)
    options: dict[str, dict[str, Any]] = {}


class Checker(ABC):
    """What every checker says of itself.

    `version` changes with everything that changes its scores. `roles` and `authors` are those of the nodes it reads
    (empty: all); `rejected`: whether it reads the rejected side of a preference pair, too. `needs` says in a few words
    what must be there (an endpoint, weights), and `missing` whether it is not. `threshold` is the score from which it
    detects where nobody sets another.
    """

    name: ClassVar[str]
    risk: ClassVar[str]
    family: ClassVar[Family]
    summary: ClassVar[str]
    version: ClassVar[str] = "1"
    roles: ClassVar[frozenset[Role]] = frozenset()
    authors: ClassVar[frozenset[Author]] = frozenset()
    rejected: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ()
    threshold: ClassVar[float] = 0.5

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.options: Mapping[str, Any] = self.settings.options.get(self.name, {})

    def missing(self) -> str:
        """Why it cannot be asked here and now, in one line that says what to do; "" where it can."""
        return ""

    def asks(self) -> str:
        """The model that it asks, as it was named; "" for none. What was measured with one is said of no other."""
        return ""

    def remark(self) -> str:
        """What is to be told of how it was asked, once it was: cost, agreement with itself; "" for nothing."""
        return ""

    def nodes(self, row: Row) -> Iterator[Node]:
        """The nodes of a row that it reads, each once."""
        seen: set[str] = set()
        for node in (*row.nodes, *(row.rejected if self.rejected else ())):
            if node.id in seen or (self.roles and node.message.role not in self.roles):
                continue
            if self.authors and node.author not in self.authors:
                continue
            seen.add(node.id)
            yield node

    def texts(self, row: Row) -> Iterator[tuple[Node, str, str]]:
        """What it reads of a row: the node, the part of it (see `Finding.part`), and that part's text."""
        for node in self.nodes(row):
            for part, text in parts(node):
                yield node, part, text

    def finding(
        self,
        row: Row,
        node: Node | None = None,
        part: str = "text",
        start: int = 0,
        stop: int = 0,
        *,
        score: float = 1.0,
        evidence: str = "",
    ) -> Finding:
        """A finding of its own; without a node it is about the whole row."""
        return Finding(
            row_id=row.id,
            node_id="" if node is None else node.id,
            part=part,
            start=start,
            stop=stop,
            risk=self.risk,
            checker=self.name,
            version=self.version,
            score=score,
            evidence=evidence,
        )


class RowChecker(Checker):
    """Looks at one row at a time."""

    @abstractmethod
    def check(self, row: Row) -> Iterable[Finding] | NotChecked:
        """What it finds in a row, or why it cannot say."""


class SetChecker(Checker):
    """Looks at many rows together: at all, or (`whole` false) at some at a time, because that is quicker."""

    whole: ClassVar[bool] = True

    @abstractmethod
    def check(self, rows: Sequence[Row]) -> Iterable[Finding | NotChecked]:
        """What it finds in the rows, in any order; for a row it can say nothing of a `NotChecked` with its id."""


_Class = TypeVar("_Class", bound=type[Checker])
_REGISTRY: Registry[type[Checker]] = Registry(
    "audit", "checkers", "silva.curate.audit.checkers", GROUP, (RowChecker, SetChecker)
)


def checker(made: _Class) -> _Class:
    """Register a class of checkers under its name.

    Raises:
        UsageError: another class has that name, or there is no such risk.
    """
    known_risk(made.risk)
    _REGISTRY.add(made)
    return made


def checkers() -> dict[str, type[Checker]]:
    """All classes of checkers there are, by name: those here, then those of packages.

    Raises:
        UsageError: a package's checker cannot be loaded, or is none.
    """
    return _REGISTRY.all()


def make(names: Iterable[str] = (), settings: Settings | None = None) -> list[Checker]:
    """Checkers of these names, ready to be asked; all there are where none is named. `-NAME` leaves one out; a family,
    or a risk, stands for all of it.

    Raises:
        UsageError: there is no such checker, or nothing is left.
    """
    known = checkers()
    wanted: dict[str, None] = {}
    asked = list(names)
    if not asked or all(name.startswith("-") for name in asked):
        wanted = dict.fromkeys(known)
    for name in asked:
        bare = name.removeprefix("-")
        meant = [each for each, made in known.items() if bare in (each, made.family.value, made.risk)]
        if not meant:
            raise UsageError(f"audit: there is no checker, family or risk {bare!r}; checkers: {', '.join(known)}")
        if name.startswith("-"):
            for each in meant:
                wanted.pop(each, None)
        else:
            wanted.update(dict.fromkeys(meant))
    if not wanted:
        raise UsageError("audit: no checker is left; see `silva curate checkers`")
    return [known[name](settings) for name in wanted]
