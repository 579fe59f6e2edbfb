"""What a field's function gives: what was found, how, which files it made, and what went wrong with which item."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from silva.errors import MissingError, SilvaError, UsageError
from silva.tree import Json, Record

Status = Literal["success", "partial_success", "error"]
T = TypeVar("T")
MOST_ITEMS = 10_000


class ItemError(Record, frozen=True, kw_only=True):
    """What went wrong with an item; `where` is the source or step."""

    item: str
    why: str
    where: str = ""


class Result(Record, frozen=True, kw_only=True):
    """What came of some items. `result` holds what was found by item, `metadata` how (versions, sources, settings),
    `artifacts` the files that were written. `status`: `success` where nothing went wrong, `error` where no item gave
    anything, else `partial_success`."""

    status: Status
    result: Json
    metadata: Json
    artifacts: tuple[str, ...] = ()
    errors: tuple[ItemError, ...] = ()


def made(result: Json, errors: Iterable[ItemError], metadata: Json, artifacts: Iterable[str] = ()) -> Result:
    """The result of items, with the status that follows."""
    told = tuple(errors)
    status: Status = "success" if not told else "partial_success" if result else "error"
    return Result(status=status, result=result, metadata=metadata, artifacts=tuple(artifacts), errors=told)


def each(items: Iterable[str], work: Callable[[str], T]) -> tuple[dict[str, T], list[ItemError]]:
    """Do a piece of work for every item; what raises `ValueError` or an error of the house is told of that item alone.

    Raises:
        UsageError: there is no item, or there are too many.
        MissingError: a package is missing: no item could be done.
    """
    wanted = list(dict.fromkeys(each.strip() for each in items if each.strip()))
    if not wanted or len(wanted) > MOST_ITEMS:
        raise UsageError(f"science: give 1 to {MOST_ITEMS:,} items, not {len(wanted):,}")
    found: dict[str, T] = {}
    errors: list[ItemError] = []
    for item in wanted:
        try:
            found[item] = work(item)
        except MissingError:
            raise
        except (SilvaError, ValueError, OSError) as fault:
            errors.append(ItemError(item=item, why=" ".join(str(fault).split())))
    return found, errors


def package(name: str, field: str) -> Any:
    """A field's package.

    Raises:
        MissingError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as fault:
        root = name.partition(".")[0]
        raise MissingError(
            f"science {field}: the package {root} is not installed; pip install 'silva[science]'"
        ) from fault
