"""From a lake to a report on disk."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from silva.errors import SilvaError, UsageError
from silva.report.compare import compare
from silva.report.page import CONVERSATIONS, render
from silva.report.summary import Summary, summarise
from silva.tree import Run, Trajectory, Tree

if TYPE_CHECKING:
    from silva.lake import Lake


def write_report(
    lake: str,
    run: str,
    output: Path,
    *,
    baselines: Mapping[str, float] | None = None,
    against: str | None = None,
    conversations: int = CONVERSATIONS,
) -> Summary:
    """Write the HTML report of a run; return its figures.

    Args:
        lake: where the lake is (folder or object-store URL); opened for reading only.
        run: the run's name.
        output: the file to write, replaced whole or not at all.
        baselines: the null policy's mean score by environment.
        against: another run of the lake to compare with.
        conversations: how many conversations the page shows.

    Raises:
        UsageError: no such run in the lake, or the file cannot be written.
        StoreError: the lake cannot be read.
    """
    from silva.lake import Lake

    with Lake.open(lake, mode="read") as opened:
        record, attempts = take(opened, run)
        summary = summarise(attempts, baselines)
        comparison = None if against is None else compare(take(opened, against)[1], attempts, against, run)
        page = render(
            record,
            summary,
            attempts,
            opened.walk,
            comparison=comparison,
            conversations=conversations,
            image=partial(picture, opened),
            tree=partial(grown_tree, opened),
        )
    save(page, output)
    return summary


def grown_tree(lake: Lake, tree_id: str) -> tuple[Tree, list[Trajectory]]:
    """A tree as all runs grew it, and the trajectories that end in it."""
    from silva.lake import field

    return lake.tree(tree_id), lake.trajectories(where=field("tree_id") == tree_id)


def picture(lake: Lake, hash: str) -> bytes | None:
    """The bytes of an image; None where the lake does not hold them (the page then names the image)."""
    try:
        return lake.get_blob(hash)
    except SilvaError:
        return None


def take(lake: Lake, run: str) -> tuple[Run, list[Trajectory]]:
    """A run's record and its trajectories.

    Raises:
        UsageError: no such run; the message names those there are.
    """
    record = lake.run(run)
    if record is None:
        known = ", ".join(sorted(each.id for each in lake.runs())[:10]) or "none"
        raise UsageError(f"run {run} is not in lake {lake.location} (there: {known}): name one of those")
    return record, lake.trajectories(run_id=run)


def save(page: str, output: Path) -> None:
    """Write the page beside its place, then move it there.

    Raises:
        UsageError: the folder cannot be written.
    """
    aside = output.with_name(f".{output.name}.part")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(page, encoding="utf-8")
        aside.replace(output)
    except OSError as error:
        raise UsageError(f"report {output} cannot be written ({error.strerror}): choose another --output") from error
